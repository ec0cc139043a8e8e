//go:build linux

package place

import (
	"os"
	"path/filepath"
	"testing"
)

func TestGuestRefusesAFolderOthersMayWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bin")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := checkDir(dir); err != nil {
		t.Errorf("own folder: %v", err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := checkDir(dir); err == nil {
		t.Error("a folder that others may write was taken")
	}
	link := dir + "-link"
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if err := checkDir(link); err == nil {
		t.Error("a link was taken")
	}
}

func TestGuestIsOneReadOnlyCopy(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bin")
	p := filepath.Join(dir, "guest-x")
	for range 2 { // the second meets the first's
		if err := place(dir, p, []byte("guest")); err != nil {
			t.Fatal(err)
		}
	}
	if !placed(p) {
		t.Fatal("what was placed is not accepted")
	}
	list, err := os.ReadDir(dir)
	if err != nil || len(list) != 1 {
		t.Errorf("folder holds %v, %v; want the guest alone", list, err)
	}
	if err := os.Chmod(p, 0o755); err != nil {
		t.Fatal(err)
	}
	if placed(p) {
		t.Error("a writable guest was accepted")
	}
}

func TestDir(t *testing.T) {
	env := func(kv map[string]string) func(string) string { return func(k string) string { return kv[k] } }
	for _, c := range []struct {
		env  map[string]string
		uid  int
		want string
	}{
		{nil, 0, "/var/lib/caisson"},
		{map[string]string{"HOME": "/home/a"}, 1000, "/home/a/.cache/caisson"},
		{map[string]string{"HOME": "/home/a", "XDG_CACHE_HOME": "/c"}, 1000, "/c/caisson"},
		{nil, 1000, ""},
		{map[string]string{"HOME": "relative"}, 1000, ""},
	} {
		got, err := Dir(env(c.env), c.uid)
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("Dir(%v, %d) = %q, %v; want %q", c.env, c.uid, got, err, c.want)
		}
	}
}
