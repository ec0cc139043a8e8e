package cli

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/caisson-dev/caisson/internal/testenv"
)

// TestBoxScripts runs scripts with the built programs and real boxes.
func TestBoxScripts(t *testing.T) {
	bin := filepath.Dir(testenv.Binary(t, "caisson"))
	p := scriptParams("testdata/box")
	setup := p.Setup
	p.Setup = func(env *testscript.Env) error {
		env.Setenv("PATH", bin+string(filepath.ListSeparator)+env.Getenv("PATH"))
		return setup(env)
	}
	testscript.Run(t, p)
}

// TestBytesPass sends a gigabyte through a box. The time is told, not judged:
// what else the machine does is not ours.
func TestBytesPass(t *testing.T) {
	caisson := testenv.Binary(t, "caisson")
	size := int64(1 << 30)
	if testing.Short() {
		size = 16 << 20
	}
	plain := throughCommand(t, size, "cat")
	boxed := throughCommand(t, size, caisson, "run", "--workspace-mode", "none", "--", "cat")
	t.Logf("%d bytes: plain %v, boxed %v (%.2fx)", size, plain, boxed, boxed.Seconds()/plain.Seconds())
}

// throughCommand pipes random bytes through a command, compares what comes out,
// and returns how long that took.
func throughCommand(t *testing.T, size int64, argv ...string) time.Duration {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(cmd.Environ(), "CAISSON_STATE="+t.TempDir())
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	start := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	block := make([]byte, 1<<20)
	rand.NewChaCha8([32]byte{}).Read(block)
	want := bytes.Clone(block)
	wrote := make(chan error, 1)
	go func() {
		var err error
		for i := int64(0); i < size && err == nil; i += int64(len(block)) {
			binary.LittleEndian.PutUint64(block, uint64(i)) // no block is another
			_, err = in.Write(block)
		}
		wrote <- errors.Join(err, in.Close())
	}()
	got := make([]byte, len(block))
	read := int64(0)
	for {
		n, err := io.ReadFull(out, got)
		binary.LittleEndian.PutUint64(want, uint64(read))
		if !bytes.Equal(got[:n], want[:n]) {
			t.Fatalf("other bytes came out after byte %d", read)
		}
		read += int64(n)
		if err != nil {
			break
		}
	}
	if err := errors.Join(<-wrote, cmd.Wait()); err != nil {
		t.Fatalf("%v: %v\n%s", argv, err, &complaint)
	}
	if read != size {
		t.Fatalf("%v: %d of %d bytes came out", argv, read, size)
	}
	return time.Since(start)
}

// TestNoUserNamespaces runs where the kernel gives out no further user
// namespace: one clear line, what to do, the code of a refusal, nothing left.
func TestNoUserNamespaces(t *testing.T) {
	testenv.Need(t, "userns", "unshare")
	caisson := testenv.Binary(t, "caisson")
	for _, c := range []struct {
		name, allowed string
		code          int
		complaint     string
	}{
		{"none left", "1", 125, "caisson: this host allows no more user namespaces"},
		{"some left", "9", 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			const script = `echo $1 >/proc/sys/user/max_user_namespaces &&
				exec unshare -U --map-user=1000 --map-group=1000 "$2" run --workspace-mode none -- true`
			cmd := exec.Command("unshare", "-Ur", "sh", "-c", script, "sh", c.allowed, caisson)
			home := testenv.AsUser(t, cmd)
			cmd.Env = append(cmd.Env, "CAISSON_STATE="+home+"/state")
			out, err := cmd.CombinedOutput()
			if cmd.ProcessState == nil {
				t.Fatal(err)
			}
			if code := cmd.ProcessState.ExitCode(); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			if !strings.HasPrefix(lines[0], c.complaint) || c.code != 0 && (len(lines) != 2 || !strings.HasPrefix(lines[1], "caisson: hint: ")) {
				t.Errorf("output %q", out)
			}
			if left, err := os.ReadDir(home + "/state/boxes"); err != nil || len(left) > 0 {
				t.Errorf("left in the folder of sandboxes: %v, %v", left, err)
			}
		})
	}
}

// TestArgumentsPass gives a command a megabyte of arguments, some of which no
// text format could carry.
func TestArgumentsPass(t *testing.T) {
	testenv.Need(t, "userns")
	args := []string{"", "two\nlines", "\xff\xfe", "--json", "--", strings.Repeat("long", 30000)}
	for len(args) < 9000 {
		args = append(args, strings.Repeat("a", 100))
	}
	cmd := exec.Command(testenv.Binary(t, "caisson"), append([]string{"run", "--workspace-mode", "none", "printf", `%s\0`}, args...)...)
	home := testenv.AsUser(t, cmd)
	cmd.Env = append(cmd.Env, "CAISSON_STATE="+home+"/state")
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %.500s", err, &complaint)
	}
	if got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"); !slices.Equal(got, args) {
		t.Errorf("%d arguments came out as %d, or others", len(args), len(got))
	}
}
