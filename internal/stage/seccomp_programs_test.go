//go:build linux

package stage

import (
	"os"
	"os/exec"
	"os/user"
	"syscall"
	"testing"

	"github.com/caisson-dev/caisson/internal/testenv"
)

// programs are real ones that must work behind filter and domain, with HOME and
// TMPDIR as the only folders to write. Each script ends with status 0 only if all worked.
var programs = []struct {
	name    string
	needs   []string
	script  string
	tools   []string // more programs, without which the test is skipped
	slow    bool
	account bool // only for a user that has one
}{
	{name: "shell", script: `echo a > a; mv a b; mkdir d; mv b d/; ln d/b c; chmod 1777 d; test "$(cat c)" = a; mkfifo p; nice -n 5 true; sleep 60 & kill $!; ulimit -n 100`},
	{name: "python3", needs: []string{"python3"}, script: `cat > t.py <<'X'
import multiprocessing, socket, threading, subprocess, tempfile, os, mmap, fcntl, shutil, asyncio, resource
def f(x): return x * x
if __name__ == "__main__":
    for how in "fork", "spawn", "forkserver":
        with multiprocessing.get_context(how).Pool(2) as p: assert p.map(f, [1, 2]) == [1, 4]
    a, b = socket.socketpair(); a.send(b"x"); assert b.recv(1) == b"x"
    s = socket.create_server(("127.0.0.1", 0)); c = socket.create_connection(s.getsockname()); c.close()
    u = socket.socket(socket.AF_UNIX); u.bind("u"); u.listen(); v = socket.socket(socket.AF_UNIX); v.connect("u")
    t = threading.Thread(target=f, args=(1,)); t.start(); t.join()
    assert subprocess.run(["true"]).returncode == 0
    with tempfile.NamedTemporaryFile() as n: fcntl.flock(n, fcntl.LOCK_EX)
    os.makedirs("x/y"); open("x/f", "w").close(); os.rename("x/f", "x/y/f"); shutil.rmtree("x")
    m = multiprocessing.Value("i", 0)
    with m.get_lock(): m.value += 1
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); os.sched_setaffinity(0, os.sched_getaffinity(0))
    assert socket.if_nameindex()
    asyncio.run(asyncio.sleep(0)); socket.getaddrinfo("127.0.0.1", 80)
X
python3 t.py`},
	{name: "node", needs: []string{"node"}, script: `cat > t.js <<'X'
const { Worker, isMainThread } = require("worker_threads"), http = require("http"), fs = require("fs"), os = require("os");
if (!isMainThread) process.exit(0);
fs.writeFileSync("f", "x"); fs.mkdirSync("d"); fs.renameSync("f", "d/f"); os.networkInterfaces();
fs.watch(".", () => {}).close();
require("child_process").execFileSync("true");
new WebAssembly.Module(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0]));
new Worker(__filename).on("exit", (c) => { if (c) process.exit(c);
  const s = http.createServer((q, r) => r.end("ok")).listen(0, "127.0.0.1", () =>
    http.get({ port: s.address().port, host: "127.0.0.1" }, (r) => { r.resume(); r.on("end", () => process.exit(0)); })); });
X
node t.js`},
	{name: "go", needs: []string{"go"}, script: `mkdir p && cd p && cat > go.mod <<'X'
module x
go 1.24
X
cat > x_test.go <<'X'
package x
import ("testing"; "net"; "os/exec"; "os")
func Test(t *testing.T) {
	if _, err := net.Interfaces(); err != nil { t.Fatal(err) }
	if err := exec.Command("true").Run(); err != nil { t.Fatal(err) }
	r, err := os.OpenRoot(t.TempDir()); if err != nil { t.Fatal(err) }
	if err := r.MkdirAll("a/b", 0o755); err != nil { t.Fatal(err) }
	l, err := net.Listen("tcp", "127.0.0.1:0"); if err != nil { t.Fatal(err) }
	if _, err := net.Dial("tcp", l.Addr().String()); err != nil { t.Fatal(err) }
}
X
GOFLAGS=-mod=mod GOPROXY=off CGO_ENABLED=0 go test -vet=off ./...`, slow: true}, // compiles the standard library
	{name: "java", needs: []string{"java"}, script: `cat > T.java <<'X'
import java.nio.file.*; import java.net.*;
public class T { public static void main(String[] a) throws Exception {
  Files.writeString(Path.of("j"), "x"); Files.createDirectory(Path.of("jd")); Files.move(Path.of("j"), Path.of("jd/j"));
  Thread[] t = new Thread[8]; for (int i = 0; i < 8; i++) { t[i] = new Thread(() -> new byte[1 << 20].clone()); t[i].start(); } for (Thread x : t) x.join();
  try (ServerSocket s = new ServerSocket(0, 1, InetAddress.getLoopbackAddress()); Socket c = new Socket(s.getInetAddress(), s.getLocalPort())) {}
  if (new ProcessBuilder("true").start().waitFor() != 0) throw new Exception(); System.gc();
  NetworkInterface.getNetworkInterfaces();
} }
X
java T.java`},
	{name: "gcc with sanitizers", needs: []string{"gcc"}, script: `cat > t.c <<'X'
#include <stdlib.h>
int main(void) { char *p = malloc(3); free(p); return 0; }
X
gcc -g -fsanitize=address,undefined t.c -o t && ASAN_OPTIONS=detect_leaks=1 ./t
echo 'int main(){volatile int *p = __builtin_malloc(4); p = 0; return 0;}' > l.c; gcc -g -fsanitize=address l.c -o l
! ASAN_OPTIONS=detect_leaks=1 ./l 2> out; grep -q 'LeakSanitizer: detected' out`},
	{name: "git", needs: []string{"git"}, script: `git init -q r && cd r && git config user.name x && git config user.email x@x && echo a > a && git add . && git commit -qm a
git checkout -qb b && git worktree add -q ../w && git gc -q && cd .. && git clone -q r c && cd c && git pull -q && git fsck 2>&1`},
	{name: "tmux", needs: []string{"tmux"}, script: `export TMUX_TMPDIR=$PWD TERM=xterm; tmux new-session -d 'echo hello > tmux.out; sleep 60'
for i in $(seq 100); do test -s tmux.out && break; sleep 0.05; done; tmux kill-server; test -s tmux.out`},
	{name: "gdb", needs: []string{"gdb", "gcc"}, script: `echo 'int main(int c, char **v){return c+41;}' > g.c; gcc -g g.c -o g
gdb -batch -ex 'break main' -ex run -ex 'print c' -ex 'continue' ./g > out 2>&1; grep -q '\$1 = 1' out; ! grep -qi 'disabling address space randomization' out`},
	{name: "strace", needs: []string{"strace"}, script: `strace -f -o s sh -c 'true; /bin/true' && grep -q exited s`},
	{name: "ssh-keygen", script: `ssh-keygen -q -t ed25519 -N '' -f key`, tools: []string{"ssh-keygen"}, account: true},
	{name: "make", script: `printf 'all: a b c\na b c:\n\tsleep 0.01; touch $@\n' > Makefile; make -s -j3; test -f c`, tools: []string{"make"}},
	{name: "tar and cp keep modes", script: `mkdir s; echo x > s/f; chmod 640 s/f; tar cf s.tar s; mkdir t; tar xpf s.tar -C t; cp -a s u; test -f t/s/f -a -f u/f`},
	{name: "redis", script: `redis-server --port 0 --unixsocket r.sock --save '' --appendonly yes --dir . > log &
for i in $(seq 100); do redis-cli -s r.sock ping > /dev/null 2>&1 && break; sleep 0.05; done
redis-cli -s r.sock set a b; redis-cli -s r.sock bgrewriteaof; redis-cli -s r.sock shutdown; wait`, tools: []string{"redis-server"}},
	{name: "postgres", script: `initdb -D pg -A trust > log && pg_ctl -D pg -w -l pg.log -o "-k $HOME -c listen_addresses=" start > log
psql -h "$HOME" -d postgres -Atc 'create table t as select generate_series(1,100000) a; set max_parallel_workers_per_gather=4; select count(*) from t'
pg_ctl -D pg -w stop > log`, tools: []string{"initdb", "pg_ctl", "psql"}, account: true},
	{name: "chromium", script: "f=--no-sandbox; " + chromium, tools: []string{"chromium"}, slow: true},
}

// chromium lets a page compute something. $f are more flags.
const chromium = `echo '<script>document.write("js " + 6 * 7)</script>' > p.html
chromium --headless=new $f --disable-gpu --user-data-dir="$PWD/c" --dump-dom "file://$PWD/p.html" 2> log | grep 'js 42'`

// needTools skips the test where a program is missing that package testenv does not know.
func needTools(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip(err)
		}
	}
}

func TestRealPrograms(t *testing.T) {
	testenv.Need(t, "seccomp", "landlock")
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			testenv.Need(t, p.needs...)
			if testing.Short() && p.slow {
				t.Skip("slow")
			}
			needTools(t, p.tools...)
			oneWay(t, func(t *testing.T, _ []string) {
				home := os.Getenv("HOME")
				if _, err := user.Current(); err != nil && p.account {
					t.Skip(err)
				}
				t.Setenv("TMPDIR", home)
				confineStem(t, FilterOptions{}, home)
				status := runOnStem(t, &syscall.SysProcAttr{Setsid: true}, "sh", "-euc", "grep -q '^Seccomp:.2$' /proc/self/status; "+p.script)
				if status.ExitStatus() != 0 {
					t.Errorf("status %#x", status)
				}
			})
		})
	}
}
