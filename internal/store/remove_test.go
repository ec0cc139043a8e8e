//go:build linux

package store

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/caisson-dev/caisson/api"
	"github.com/caisson-dev/caisson/internal/testenv"
)

func TestRemoveFollowsNothing(t *testing.T) {
	s := open(t)
	f := create(t, s, api.Sandbox{})
	outside := t.TempDir()
	if err := os.WriteFile(outside+"/precious", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"driver-a/b", "driver-locked"} {
		if err := os.MkdirAll(filepath.Join(f.Path(), dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, link := range []string{"driver-link", "driver-a/b/link"} {
		if err := os.Symlink(outside, filepath.Join(f.Path(), link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(f.Path()+"/driver-locked/x", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(f.Path()+"/driver-locked", 0); err != nil { // as an overlay's work folder is
		t.Fatal(err)
	}
	if err := f.Remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(outside + "/precious"); err != nil {
		t.Errorf("Remove followed a link: %v", err)
	}
	if names, _ := os.ReadDir(filepath.Join(s.Path(), "boxes")); len(names) != 0 {
		t.Errorf("left %v", names)
	}
}

// A tree deeper than there are descriptors is removed all the same.
func TestRemoveDeepTree(t *testing.T) {
	s := open(t)
	f := create(t, s, api.Sandbox{})
	dir, err := unix.Open(f.Path(), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range 3000 {
		if err := unix.Mkdirat(dir, "d", 0o700); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(dir, "d", unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			t.Fatal(err)
		}
		_ = unix.Close(dir)
		dir = next
	}
	_ = unix.Close(dir)
	if err := f.Remove(); err != nil {
		t.Fatal(err)
	}
	if names, _ := os.ReadDir(filepath.Join(s.Path(), "boxes")); len(names) != 0 {
		t.Errorf("left %v", names)
	}
}

// A bind mount that somebody forgot below the folder is not emptied.
func TestRemoveStopsAtAMount(t *testing.T) {
	if os.Getenv("STORE_TEST_CHILD") != "mount" {
		testenv.Need(t, "userns")
		cmd := self("TestRemoveStopsAtAMount", "mount")
		cmd.SysProcAttr = ownMounts()
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	s := open(t)
	f := create(t, s, api.Sandbox{})
	home := t.TempDir()
	if err := os.WriteFile(home+"/precious", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(f.Path(), "driver-root")
	if err := os.Mkdir(target, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(home, target, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	if err := f.Remove(); err == nil {
		t.Error("Remove succeeded over a mount")
	}
	if _, err := os.Stat(home + "/precious"); err != nil {
		t.Errorf("Remove emptied what was mounted: %v", err)
	}
	left, err := filepath.Glob(filepath.Join(s.Path(), "boxes/.gone-*/driver-root"))
	if err != nil || len(left) != 1 {
		t.Fatalf("left %v (%v)", left, err)
	}
	if err := unix.Unmount(left[0], 0); err != nil {
		t.Fatal(err)
	}
	if err := s.Sweep(t.Context(), func(Entry) error { return nil }); err != nil { // without the mount it goes
		t.Error(err)
	}
	if names, _ := os.ReadDir(filepath.Join(s.Path(), "boxes")); len(names) != 0 {
		t.Errorf("left %v", names)
	}
}
