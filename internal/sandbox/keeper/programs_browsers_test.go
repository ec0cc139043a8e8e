//go:build linux

package keeper_test

import "testing"

// TestBrowsers: Debian's Chromium, without its own sandbox, which no box has but a
// nested one, and with it there.
func TestBrowsers(t *testing.T) {
	runPrograms(t, []program{
		{name: "chromium", needs: []string{"chromium"}, bare: "flags=--no-sandbox; ", script: chromiumScript},
		{
			name: "chromium nested", needs: []string{"chromium", "userns"}, account: true, policy: "nested: true\naccept: [nested]\n",
			script: chromiumScript + sandboxedScript,
		},
		{name: "playwright", needs: []string{"chromium", "node", "npm", "playwright"}, script: playwrightScript},
		{
			name: "playwright nested", needs: []string{"chromium", "node", "npm", "playwright", "userns"}, account: true, night: true,
			policy: "nested: true\naccept: [nested]\n", script: "SANDBOX=1; export SANDBOX\n" + playwrightScript,
		},
	})
}

// chromiumScript lets a page compute, draw and keep something.
const chromiumScript = `cd "$HOME"
echo '<canvas id=c></canvas><script>
const x = document.getElementById("c").getContext("2d"); x.fillStyle = "#ff0000"; x.fillRect(0, 0, 9, 9);
localStorage.setItem("k", 6 * 7); document.write("js " + localStorage.getItem("k") + " " + x.getImageData(1, 1, 1, 1).data[0]);
</script>' > p.html
for try in 1 2; do # on a busy machine its start can run into a deadline of its own
  timeout 60 chromium --headless=new ${flags-} --disable-gpu --user-data-dir="$HOME/c" --dump-dom "file://$HOME/p.html" > dom 2> log && break
done
grep -q 'js 42 255' dom || { cat log; exit 1; }`

// sandboxedScript looks for a renderer in a pid namespace and under a filter of its own.
const sandboxedScript = `
chromium --headless=new --disable-gpu --user-data-dir="$HOME/d" --remote-debugging-port=0 "file://$HOME/p.html" > out 2> log & browser=$!
trap 'kill $browser || true; wait' EXIT
for i in $(seq 200); do
  for pid in $(pgrep -f type=renderer); do
    status=$(cat /proc/$pid/status) || continue # it has ended
    ids=$(echo "$status" | sed -n 's/^NSpid://p' | wc -w)
    filters=$(echo "$status" | sed -n 's/^Seccomp_filters:\t//p')
    own=$(sed -n 's/^Seccomp_filters:\t//p' /proc/self/status)
    outer=$(sed -n 's/^NSpid://p' /proc/self/status | wc -w)
    if [ "$ids" -gt "$outer" ] && [ "$filters" -gt "$own" ]; then exit 0; fi
  done; sleep 0.1
done
cat log; exit 1`

const playwrightScript = `export NODE_PATH="$(npm root -g)"
cat > pw.js <<'X'
const { chromium } = require("playwright-core"), assert = require("assert"), http = require("http");
(async () => {
  const s = http.createServer((q, r) => { r.setHeader("content-type", "text/html"); r.end("<button onclick='this.textContent=6*7'>go</button>"); });
  await new Promise((ok) => s.listen(0, "127.0.0.1", ok));
  const b = await chromium.launch({ executablePath: "/usr/bin/chromium", chromiumSandbox: !!process.env.SANDBOX, timeout: 60000 });
  const p = await b.newPage();
  await p.goto("http://127.0.0.1:" + s.address().port);
  await p.click("button");
  assert.equal(await p.textContent("button"), "42");
  assert((await p.screenshot()).length > 100);
  assert((await p.pdf()).length > 100);
  await b.close(); s.close();
})().catch((e) => { console.error(e); process.exit(1); });
X
timeout 120 node pw.js`
