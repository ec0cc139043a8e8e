package escape_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caisson-dev/caisson/escape"
	"github.com/caisson-dev/caisson/internal/testenv"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"
)

// wasi is the probe built for WASI, and a place to run it in: a folder that
// is handed in, and one beside it that is not.
type wasi struct {
	runtime  wazero.Runtime
	program  wazero.CompiledModule
	dir      string // holds both
	ws, home string
	exit     uint32
	out      string
}

const wasiMarker = "3a21ce4000000000000000000000005d"

// wasiKey is the secret that lies in a folder.
func wasiKey(dir string) string { return "5ec2e7-of-" + filepath.Base(dir) + "-0d1f" }

// newWASI gives a runtime for the program. Pages bound its memory, 0: not.
func newWASI(t *testing.T, code []byte, cache wazero.CompilationCache, pages uint32) *wasi {
	t.Helper()
	config := wazero.NewRuntimeConfig().WithCompilationCache(cache)
	if pages > 0 {
		config = config.WithMemoryLimitPages(pages)
	}
	w := &wasi{runtime: wazero.NewRuntimeWithConfig(t.Context(), config), dir: t.TempDir()}
	t.Cleanup(func() { _ = w.runtime.Close(context.WithoutCancel(t.Context())) })
	wasi_snapshot_preview1.MustInstantiate(t.Context(), w.runtime)
	var err error
	if w.program, err = w.runtime.CompileModule(t.Context(), code); err != nil {
		t.Fatal(err)
	}
	w.ws, w.home = filepath.Join(w.dir, "ws"), filepath.Join(w.dir, "home")
	for _, d := range []string{w.ws, w.home} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(d, "key"), []byte(wasiKey(d)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// do runs one action with one folder handed in, at the path that it has on the
// host, and keeps what came out. It says whether the program ran to its end.
func (w *wasi) do(t *testing.T, handed, action, arg string, more ...func(wazero.ModuleConfig) wazero.ModuleConfig) bool {
	t.Helper()
	job := escape.Job{Action: action, Arg: arg, Token: "t0", Marker: wasiMarker, Home: w.home, WS: w.ws, Name: "n0"}
	line, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	config := wazero.NewModuleConfig().WithName("").WithStdin(bytes.NewReader(append(line, '\n'))).WithStdout(&out).WithStderr(io.Discard).
		WithSysWalltime().WithSysNanotime().WithSysNanosleep().WithArgs("probe").
		WithFSConfig(wazero.NewFSConfig().WithDirMount(handed, handed))
	for _, m := range more {
		config = m(config)
	}
	module, err := w.runtime.InstantiateModule(t.Context(), w.program, config)
	if err == nil {
		_ = module.Close(t.Context())
	}
	var exit *sys.ExitError
	w.exit = 0
	if errors.As(err, &exit) {
		w.exit, err = exit.ExitCode(), nil
	}
	w.out = out.String()
	return err == nil && w.exit == 0 && strings.Contains(w.out, "@ready t0")
}

func buildWASI(t *testing.T) []byte {
	t.Helper()
	testenv.Need(t, "go")
	file := filepath.Join(t.TempDir(), "probe.wasm")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", file, "./probe")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	code, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return code
}

// The probe for WASI runs in a runtime, and what it tries is seen from outside:
// held where its folder ends, through where the folder around it is handed in.
func TestProbeForWASI(t *testing.T) {
	t.Parallel()
	code := buildWASI(t)
	cache := wazero.NewCompilationCache()
	t.Cleanup(func() { _ = cache.Close(context.WithoutCancel(t.Context())) })
	t.Run("files", func(t *testing.T) { testWASIFiles(t, newWASI(t, code, cache, 0)) })
	t.Run("links", func(t *testing.T) { testWASILinks(t, newWASI(t, code, cache, 0)) })
	t.Run("what is not a file", func(t *testing.T) { testWASIOthers(t, newWASI(t, code, cache, 0)) })
	t.Run("memory", func(t *testing.T) {
		if w := newWASI(t, code, cache, 0); !w.do(t, w.ws, "memory", "96") {
			t.Errorf("memory without a bound was refused: exit %d, %s", w.exit, w.out)
		}
		if w := newWASI(t, code, cache, 1024); w.do(t, w.ws, "memory", "96") {
			t.Error("96 MiB were used of 64")
		}
	})
}

func testWASIFiles(t *testing.T, w *wasi) {
	inside, outside := wasiKey(w.ws), wasiKey(w.home)
	for _, read := range [][2]string{
		{"fs", "read HOME/key;read WS/../home/key"},
		{"fds", "home/key"},
		{"fs", "link HOME/key WS/hard;read WS/hard"},
		{"fs", "rename HOME/key WS/moved;read WS/moved;rename WS/moved HOME/key"},
	} {
		if !w.do(t, w.ws, read[0], read[1]) || strings.Contains(w.out, outside) {
			t.Errorf("%s with the workspace alone: exit %d, %s", read, w.exit, w.out)
		}
		if !w.do(t, w.dir, read[0], read[1]) || !strings.Contains(w.out, outside) {
			t.Errorf("%s with the folder above, the control, did not read: %s", read, w.out)
		}
	}
	for _, read := range [][2]string{{"fs", "read WS/key"}, {"fds", "key"}} {
		if !w.do(t, w.ws, read[0], read[1]) || !strings.Contains(w.out, inside) {
			t.Errorf("%s, which lies inside, was not read: %s", read, w.out)
		}
	}
	wrote := func(dir string) bool {
		b, _ := os.ReadFile(filepath.Join(dir, "n0"))
		return strings.Contains(string(b), wasiMarker)
	}
	if !w.do(t, w.ws, "fs", "write WS/n0;write HOME/n0;write WS/../home/n0") || !wrote(w.ws) || wrote(w.home) {
		t.Errorf("with the workspace alone: inside %v, outside %v: %s", wrote(w.ws), wrote(w.home), w.out)
	}
	if !w.do(t, w.dir, "fs", "write HOME/n0") || !wrote(w.home) {
		t.Errorf("with the folder above, the control, nothing was written: %s", w.out)
	}
}

// The runtime's own way to hand in a folder follows links that lead out of it,
// and lets a program make them: the probe must show that, as a box for WASI
// needs another way.
func testWASILinks(t *testing.T, w *wasi) {
	if !w.do(t, w.ws, "fs", "symlink ../home/key WS/soft;read WS/soft") || !strings.Contains(w.out, wasiKey(w.home)) {
		t.Errorf("a link out of the folder did not read: %s", w.out)
	}
	if err := os.Remove(filepath.Join(w.ws, "soft")); err != nil {
		t.Error(err)
	}
	// Files handed in as a tree of Go's, bounded by os.Root, hold.
	root, err := os.OpenRoot(w.ws)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := os.Symlink("../home/key", filepath.Join(w.ws, "soft")); err != nil {
		t.Fatal(err)
	}
	bounded := func(c wazero.ModuleConfig) wazero.ModuleConfig {
		return c.WithFSConfig(wazero.NewFSConfig().WithFSMount(root.FS(), w.ws))
	}
	if !w.do(t, w.ws, "fs", "read WS/soft;read WS/key", bounded) {
		t.Errorf("the program did not run: %s", w.out)
	}
	if strings.Contains(w.out, wasiKey(w.home)) || !strings.Contains(w.out, wasiKey(w.ws)) {
		t.Errorf("a bounded tree gave %s", w.out)
	}
}

func testWASIOthers(t *testing.T, w *wasi) {
	secret := rand.Text()
	t.Run("environment", func(t *testing.T) {
		if !w.do(t, w.ws, "env", "") || strings.Contains(w.out, "PATH=") {
			t.Errorf("the host's environment came out: %s", w.out)
		}
		given := func(c wazero.ModuleConfig) wazero.ModuleConfig { return c.WithEnv("TOKEN", secret) }
		if !w.do(t, w.ws, "env", "", given) || !strings.Contains(w.out, secret) {
			t.Errorf("an environment that was given did not come out: %s", w.out)
		}
	})
	t.Run("output", func(t *testing.T) {
		if !w.do(t, w.ws, "output", "2") || len(w.out) < 2<<20 {
			t.Errorf("%d bytes came out", len(w.out))
		}
	})
	t.Run("random", func(t *testing.T) {
		twice := func(more ...func(wazero.ModuleConfig) wazero.ModuleConfig) bool {
			w.do(t, w.ws, "random", "", more...)
			first := w.out
			return w.do(t, w.ws, "random", "", more...) && w.out == first
		}
		real := func(c wazero.ModuleConfig) wazero.ModuleConfig { return c.WithRandSource(rand.Reader) }
		if !twice() || twice(real) {
			t.Error("the runtime's own numbers repeat, and real ones do not: the probe told it otherwise")
		}
	})
	t.Run("clock and processor", func(t *testing.T) {
		if !w.do(t, w.ws, "clock", "") || !strings.Contains(w.out, "step ") || !w.do(t, w.ws, "spin", "0") {
			t.Errorf("exit %d, %s", w.exit, w.out)
		}
	})
	t.Run("what has no object", func(t *testing.T) {
		for _, action := range []string{"kern", "tcp", "unix", "forks"} {
			if w.do(t, w.ws, action, "x") || w.exit != 2 {
				t.Errorf("%s: exit %d, %s", action, w.exit, w.out)
			}
		}
	})
}
