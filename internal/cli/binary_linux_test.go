package cli

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
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
