//go:build linux

package place

import (
	"crypto/sha256"
	"encoding/hex"
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

// TestAPlacedGuestIsReadWhereABoxMayHaveWritten: owner and mode are what a box
// run by the same user can give a file too.
func TestAPlacedGuestIsReadWhereABoxMayHaveWritten(t *testing.T) {
	dir := t.TempDir()
	if isDefault(dir) {
		t.Fatal("a folder of the test's is the default")
	}
	p := filepath.Join(dir, "guest-x")
	if err := place(dir, p, []byte("planted")); err != nil {
		t.Fatal(err)
	}
	const planted = "6bd4b2cf3be5f67ba7ca3cd2a3bcdcbd5e4e9a3f0a0b3d4a7c9a1f4f4a1b2c3d"
	if !placed(p) || intact(p, planted) {
		t.Error("another content was taken for the guest's")
	}
	sum := sha256.Sum256([]byte("planted"))
	if !intact(p, hex.EncodeToString(sum[:])) {
		t.Error("the right content was refused")
	}
}
