package escape

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caisson-dev/caisson/internal/testenv"
)

// The comparison of the host must see a program of the lab's that stayed, and
// nothing once it is gone.
func TestTheComparisonSeesWhatStays(t *testing.T) {
	probe := testenv.Binary(t, "caisson-probe")
	mine := labOnly(probe)
	before := takeHost(mine, "")
	cmd := exec.Command(probe, "wait", "30")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	left := before.diff(takeHost(mine, ""))
	if len(left) != 1 || !strings.Contains(left[0], "+ process") {
		t.Errorf("a program that stayed gives %q", left)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if left := before.diff(takeHost(mine, "")); len(left) != 0 {
		t.Errorf("after its end there is %q", left)
	}
}

func TestFoldersAreCompared(t *testing.T) {
	dir := t.TempDir()
	look := func() hostState {
		h := hostState{things: map[string]bool{}}
		h.folder("file", dir, 2)
		return h
	}
	before := look()
	p := filepath.Join(dir, "a")
	if err := os.MkdirAll(filepath.Join(p, "b"), 0o755); err != nil {
		t.Fatal(err)
	}
	if left := before.diff(look()); len(left) != 2 {
		t.Errorf("two new folders give %q", left)
	}
	if left := before.diff(look(), p); len(left) != 0 {
		t.Errorf("what was meant to change gives %q", left)
	}
}
