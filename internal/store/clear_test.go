//go:build linux

package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/caisson-dev/caisson/api"
)

func TestClearRemovesAll(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "state"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	kept, dead := create(t, s, api.Sandbox{State: api.StateStopped}), create(t, s, api.Sandbox{State: api.StateRunning})
	want := []string{kept.ID(), dead.ID()}
	for _, dir := range []string{"boxes/.gone-a/b", "boxes/.new-c"} {
		if err := os.MkdirAll(filepath.Join(s.Path(), dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(s.Path()+"/swept", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(kept.Close(), dead.Close()); err != nil {
		t.Fatal(err)
	}
	var destroyed []string
	err = s.Clear(context.Background(), func(e Entry) error { destroyed = append(destroyed, e.ID); return nil })
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	slices.Sort(destroyed)
	if diff := cmp.Diff(want, destroyed); diff != "" {
		t.Errorf("destroyed: %s", diff)
	}
	if _, err := os.Lstat(s.Path()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the state folder is there: %v", err)
	}
}

// While a keeper lives nothing is removed, not even what is dead.
func TestClearRefusesWhileOneRuns(t *testing.T) {
	s := open(t)
	alive, dead := create(t, s, api.Sandbox{}), create(t, s, api.Sandbox{})
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	nothing := func(Entry) error { return nil }
	err := s.Clear(context.Background(), nothing)
	if err == nil || !strings.Contains(err.Error(), "sandboxes are running: "+alive.ID()) {
		t.Fatalf("got %v", err)
	}
	for _, f := range []*Folder{alive, dead} {
		if _, err := os.Stat(f.Path() + "/record.json"); err != nil {
			t.Error(err)
		}
	}
	if err := alive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Clear(context.Background(), nothing); err != nil {
		t.Errorf("when none ran: %v", err)
	}
}

// What could not be ended stays, and with it its record.
func TestClearKeepsWhatCannotBeEnded(t *testing.T) {
	s := open(t)
	f := create(t, s, api.Sandbox{})
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("the cgroup is busy")
	if err := s.Clear(context.Background(), func(Entry) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(f.Path() + "/record.json"); err != nil {
		t.Error(err)
	}
}

func TestClearLeavesTheFilesOfOthers(t *testing.T) {
	for _, name := range []string{"/diary", "/boxes/UPPER"} {
		s := open(t)
		if err := os.WriteFile(s.Path()+name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		err := s.Clear(context.Background(), func(Entry) error { return nil })
		if err == nil || !strings.Contains(err.Error(), s.Path()+name+" stay") {
			t.Errorf("got %v", err)
		}
		if _, err := os.Stat(s.Path() + name); err != nil {
			t.Error(err)
		}
	}
}

func TestStateDirsAreAllThatThereMayBe(t *testing.T) {
	own := t.TempDir()
	env := map[string]string{"HOME": "/h", "XDG_RUNTIME_DIR": own, "XDG_STATE_HOME": "/s", "CAISSON_STATE": "/c"}
	got, err := StateDirs(func(name string) string { return env[name] }, os.Getuid())
	want := []string{"/c", own + "/caisson", "/s/caisson", "/h/.local/state/caisson"}
	if os.Getuid() == 0 {
		want = []string{"/c", "/run/caisson"}
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
}
