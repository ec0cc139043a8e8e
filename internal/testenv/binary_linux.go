package testenv

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const module = "github.com/caisson-dev/caisson"

// Binary returns the path of one of the project's programs ("caisson",
// "caisson-guest", ...), readable and executable by every user. It is the one
// in the folder CAISSON_BIN if that is set and has it; else all programs are built from
// this tree, once per test process, into a folder that the processes of one user share.
func Binary(t testing.TB, name string) string {
	t.Helper()
	if dir := os.Getenv("CAISSON_BIN"); dir != "" {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	dir, err := binaries()
	if err != nil {
		t.Fatalf("testenv: build %s: %v", name, err)
	}
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("testenv: this tree has no program %s: %v", name, err)
	}
	return path
}

// binaries builds the programs and returns their folder.
var binaries = sync.OnceValues(func() (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	dir, err := sharedFolder(root)
	if err != nil {
		return "", err
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return "", err
	}
	defer lock.Close() // and with it the lock
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	return dir, buildAll(root, dir)
})

// buildAll builds what the tree has. The guest is first: caisson is linked with
// its digest, as in the Makefile.
func buildAll(root, dir string) error {
	flags := "-s -w"
	for _, p := range []struct{ name, pkg string }{
		{"caisson-guest", "./cmd/caisson-guest"},
		{"caisson", "./cmd/caisson"},
		{"caissond", "./cmd/caissond"},
		{"caisson-probe", "./escape/probe"},
	} {
		if _, err := os.Stat(filepath.Join(root, p.pkg)); err != nil {
			continue
		}
		digest, err := buildOne(root, dir, p.name, p.pkg, flags)
		if err != nil {
			return err
		}
		if p.name == "caisson-guest" {
			flags += " -X " + module + "/internal/driver/place.guestDigest=" + digest
		}
	}
	return nil
}

// buildOne builds into a file that only go writes, so that the next build finds
// it up to date, and publishes a changed one by rename: another test process
// may be running the old one.
func buildOne(root, dir, name, pkg, flags string) (digest string, err error) {
	built := filepath.Join(dir, "build", name)
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", built, pkg)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build %s: %w\n%s", pkg, err, out)
	}
	data, err := os.ReadFile(built)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	digest = hex.EncodeToString(sum[:])
	final := filepath.Join(dir, name)
	if old, err := os.ReadFile(final); err == nil && bytes.Equal(old, data) {
		return digest, nil
	}
	next := final + ".next"
	if err := os.WriteFile(next, data, 0o755); err != nil {
		return "", err
	}
	if err := os.Chmod(next, 0o755); err != nil { // whatever the umask
		return "", err
	}
	return digest, os.Rename(next, final)
}

// sharedFolder makes the folder of this user's builds of the tree at root. Its
// name can be guessed, so one that somebody else made is refused.
func sharedFolder(root string) (string, error) {
	sum := sha256.Sum256([]byte(root))
	dir := filepath.Join(os.TempDir(), "caisson-test-"+strconv.Itoa(os.Geteuid())+"-"+hex.EncodeToString(sum[:6]))
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return "", fmt.Errorf("lstat %s: %w", dir, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
		return "", fmt.Errorf("%s is not a folder that only this user writes", dir)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", err
	}
	return dir, os.MkdirAll(filepath.Join(dir, "build"), 0o700)
}

// moduleRoot finds the tree that the test runs in: tests run in the folder of
// their package.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(data), "module "+module+"\n") {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("no go.mod of %s above the working directory", module)
		}
		dir = parent
	}
}
