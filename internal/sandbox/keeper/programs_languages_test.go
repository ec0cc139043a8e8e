//go:build linux

package keeper_test

import "testing"

// TestLanguages: runtimes and their tool chains, with nothing from a network.
func TestLanguages(t *testing.T) {
	runPrograms(t, []program{
		{name: "python", needs: []string{"python3"}, script: pythonScript},
		{name: "python venv", needs: []string{"python3"}, script: "pip=--without-pip\n" + venvScript},
		{name: "python venv with pip", needs: []string{"python3"}, night: true, script: "pip=\n" + venvScript + `
v/bin/python -m pip --version && v/bin/python -m pip list --disable-pip-version-check > list`},
		{name: "node", needs: []string{"node"}, script: nodeScript},
		{name: "java forking build", needs: []string{"java"}, script: javaScript},
		{name: "go", needs: []string{"go"}, night: true, script: goScript + "GOFLAGS= CGO_ENABLED=0 go vet ./... && CGO_ENABLED=0 go build -o prog . && ./prog && CGO_ENABLED=0 go test ./..."},
		{name: "go race", needs: []string{"go", "gcc"}, night: true, script: goScript + "go build -race -o prog . && ./prog && go test -race -count=1 ./..."},
		{name: "cargo", needs: []string{"cargo"}, script: cargoScript},
		{name: "maven with a forked JVM", needs: []string{"mvn"}, night: true, policy: "extends: [java]\n", bare: "online=; ", script: mavenScript},
	})
}

const pythonScript = `cat > t.py <<'X'
import multiprocessing as mp, concurrent.futures as cf, socket, threading, subprocess, asyncio, mmap, os, sqlite3, ssl, tempfile
from multiprocessing import shared_memory
def f(x): return x * x
async def tasks():
    s = await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 0)
    r, w = await asyncio.open_connection(*s.sockets[0].getsockname()); await r.read(); w.close()
    p = await asyncio.create_subprocess_exec("true"); assert await p.wait() == 0
if __name__ == "__main__":
    for how in "fork", "spawn", "forkserver":
        with mp.get_context(how).Pool(2) as p: assert p.map(f, range(50)) == [x * x for x in range(50)]
    with cf.ProcessPoolExecutor(2, mp_context=mp.get_context("forkserver")) as e: assert sum(e.map(f, range(10))) == 285
    m = shared_memory.SharedMemory(create=True, size=1 << 20); m.buf[0] = 7; m.close(); m.unlink()
    with mp.Manager() as m: d = m.dict(); d["a"] = 1; assert d["a"] == 1
    q = mp.Queue(); q.put(1); assert q.get() == 1
    asyncio.run(tasks()); ssl.create_default_context()
    c = sqlite3.connect("t.db"); c.execute("pragma journal_mode=wal"); c.execute("create table if not exists t (a)"); c.commit(); c.close()
X
/usr/bin/python3 t.py`

const venvScript = `rm -rf v pkg && /usr/bin/python3 -m venv $pip v
mkdir -p pkg/hello && echo 'def hi(): return 42' > pkg/hello/__init__.py
echo "$PWD/pkg" > "$(v/bin/python -c 'import site; print(site.getsitepackages()[0])')/pkg.pth"
(. v/bin/activate && test "$(python -c 'import hello, sys; print(hello.hi(), sys.prefix != sys.base_prefix)')" = '42 True')`

const nodeScript = `cat > t.js <<'X'
const { Worker, isMainThread, parentPort, workerData } = require("worker_threads");
const assert = require("assert"), http = require("http"), cp = require("child_process"), fs = require("fs"), os = require("os");
if (!isMainThread) { Atomics.add(new Int32Array(workerData), 0, 1); parentPort.postMessage("ok"); return; }
// (module (memory 1 65536) (func (export "f") (param i32) (result i32) (memory.grow (local.get 0)) drop (memory.size)))
const wasm = new Uint8Array([0,97,115,109,1,0,0,0,1,6,1,96,1,127,1,127,3,2,1,0,5,6,1,1,1,128,128,4,7,5,1,1,102,0,0,10,11,1,9,0,32,0,64,0,26,63,0,11]);
(async () => {
  const shared = new SharedArrayBuffer(4);
  await Promise.all([...Array(8)].map(() => new Promise((ok, bad) => { const w = new Worker(__filename, { workerData: shared }); w.on("error", bad); w.on("exit", ok); })));
  assert.equal(new Int32Array(shared)[0], 8);
  const { instance } = await WebAssembly.instantiate(wasm);
  assert.equal(instance.exports.f(4095), 4096); // 256 MiB
  for (let i = 0; i < 8; i++) new WebAssembly.Memory({ initial: 1, maximum: 65536 }); // each reserves 8 GiB of addresses or more
  assert.equal(cp.execFileSync(process.execPath, ["-p", "6*7"]).toString(), "42\n");
  await new Promise((ok) => cp.fork("-e", [], { execArgv: ["-e", "process.send(1)"], stdio: ["ignore", "inherit", "inherit", "ipc"] }).on("message", ok));
  const s = http.createServer((q, r) => r.end("hi")); await new Promise((ok) => s.listen(0, "127.0.0.1", ok));
  assert.equal(await (await fetch("http://127.0.0.1:" + s.address().port)).text(), "hi"); s.close();
  await new Promise((ok) => { const w = fs.watch(".", () => { w.close(); ok(); }); fs.writeFileSync("watched", "" + Date.now()); });
  assert(os.cpus().length > 0 && os.networkInterfaces().lo);
  process.exit(0);
})();
X
node t.js`

// javaScript is a build like those of surefire or Gradle: a JVM compiles in one
// forked JVM, starts another for the tests, and hears from it through a socket.
const javaScript = `rm -rf jb && mkdir -p jb/src && cd jb
cat > src/Suite.java <<'X'
import java.io.*; import java.net.*; import java.util.*; import java.util.stream.*; import java.nio.channels.*; import java.nio.file.*;
public class Suite { public static void main(String[] a) throws Exception {
  long sum = IntStream.range(0, 1000000).parallel().asLongStream().sum();
  Path f = Files.createTempFile("suite", ".x");
  try (var c = FileChannel.open(f, StandardOpenOption.READ, StandardOpenOption.WRITE)) { c.map(FileChannel.MapMode.READ_WRITE, 0, 1 << 20).put(0, (byte) 1); c.lock().release(); }
  try (Socket s = new Socket(InetAddress.getLoopbackAddress(), Integer.parseInt(a[0]))) { s.getOutputStream().write(("passed " + sum + "\n").getBytes()); }
} }
X
cat > Build.java <<'X'
import java.io.*; import java.net.*; import java.nio.file.*; import java.util.*;
public class Build {
  static void run(String... argv) throws Exception {
    int code = new ProcessBuilder(argv).inheritIO().start().waitFor();
    if (code != 0) throw new Exception(String.join(" ", argv) + ": " + code);
  }
  public static void main(String[] a) throws Exception {
    String bin = System.getProperty("java.home") + "/bin/";
    run(bin + "javac", "-d", "classes", "src/Suite.java");
    run(bin + "jar", "cf", "suite.jar", "-C", "classes", ".");
    try (ServerSocket s = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      Process p = new ProcessBuilder(bin + "java", "-XX:+UseG1GC", "-cp", "suite.jar", "Suite", "" + s.getLocalPort()).inheritIO().start();
      s.setSoTimeout(60000);
      try (Socket c = s.accept()) {
        String line = new BufferedReader(new InputStreamReader(c.getInputStream())).readLine();
        if (!"passed 499999500000".equals(line)) throw new Exception(line);
      }
      if (p.waitFor() != 0) throw new Exception();
    }
  }
}
X
java Build.java && java -Xshare:auto -XX:+UseSerialGC -version 2> v`

const goScript = `export GOCACHE="$PWD/cache" GOPATH="$PWD/gopath" GOTOOLCHAIN=local GOPROXY=off GOFLAGS=
mkdir -p gp/lib && cd gp && printf 'module example.org/x\n\ngo 1.24\n' > go.mod
cat > main.go <<'X'
package main

import (
	"fmt"

	"example.org/x/lib"
)

func main() { fmt.Println(lib.Sum(4)) }
X
cat > lib/lib.go <<'X'
// Package lib adds.
package lib

import "sync"

// Sum adds 1 for each of n goroutines.
func Sum(n int) (sum int) {
	var w sync.WaitGroup
	var m sync.Mutex
	for i := 0; i < n; i++ {
		w.Add(1)
		go func() { defer w.Done(); m.Lock(); sum++; m.Unlock() }()
	}
	w.Wait()
	return sum
}
X
cat > lib/lib_test.go <<'X'
package lib

import (
	"net"
	"os"
	"os/exec"
	"testing"
)

func TestSum(t *testing.T) {
	if Sum(100) != 100 {
		t.Fatal()
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if err := exec.Command("true").Run(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(t.TempDir()+"/x", nil, 0o600); err != nil {
		t.Fatal(err)
	}
}
X
`

const cargoScript = `export PATH=/usr/bin:$PATH; rm -rf cr && mkdir -p cr/src cr/dep/src && cd cr && export CARGO_HOME="$PWD/home" CARGO_NET_OFFLINE=true
printf '[package]\nname = "app"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\ndep = { path = "dep" }\n' > Cargo.toml
printf '[package]\nname = "dep"\nversion = "0.1.0"\nedition = "2021"\nbuild = "build.rs"\n' > dep/Cargo.toml
echo 'fn main() { println!("cargo:rustc-env=ANSWER={}", 6 * 7); }' > dep/build.rs
echo 'pub fn answer() -> &'"'"'static str { env!("ANSWER") }' > dep/src/lib.rs
cat > src/main.rs <<'X'
fn main() { println!("{}", dep::answer()); }
#[cfg(test)]
mod tests {
    use std::{net, process, thread};
    #[test]
    fn answers() { assert_eq!(dep::answer(), "42"); }
    #[test]
    fn works() {
        let l = net::TcpListener::bind("127.0.0.1:0").unwrap();
        net::TcpStream::connect(l.local_addr().unwrap()).unwrap();
        assert!(process::Command::new("true").status().unwrap().success());
        thread::spawn(|| ()).join().unwrap();
    }
}
X
cargo build -q && test "$(target/debug/app)" = 42 && cargo test -q`

// mavenScript fetches its plugins outside, where $online is set, and builds without a
// network inside.
const mavenScript = `mkdir -p mv/src/main/java mv/src/test/java && cd mv
cat > pom.xml <<'X'
<project><modelVersion>4.0.0</modelVersion>
<groupId>x</groupId><artifactId>x</artifactId><version>1</version>
<properties><maven.compiler.source>11</maven.compiler.source><maven.compiler.target>11</maven.compiler.target><project.build.sourceEncoding>UTF-8</project.build.sourceEncoding></properties>
<dependencies><dependency><groupId>junit</groupId><artifactId>junit</artifactId><version>4.13.2</version><scope>test</scope></dependency></dependencies>
<build><plugins>
<plugin><artifactId>maven-compiler-plugin</artifactId><configuration><fork>true</fork></configuration></plugin>
<plugin><artifactId>maven-surefire-plugin</artifactId><configuration><forkCount>2</forkCount></configuration></plugin>
</plugins></build></project>
X
echo 'public class A { public static int f() { return 42; } }' > src/main/java/A.java
for n in 1 2; do echo "import org.junit.*; public class A${n}Test { @Test public void f() { Assert.assertEquals(42, A.f()); } }" > src/test/java/A${n}Test.java; done
mvn -q -B ${online--o} -Dmaven.repo.local="$PWD/../m2" clean package > mvn.log 2>&1 || { cat mvn.log; exit 1; }
grep -l 'tests="1"' target/surefire-reports/*.xml | wc -l | grep -qx 2`
