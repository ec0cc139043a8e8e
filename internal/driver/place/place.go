//go:build linux

// Package place puts the guest's binary where boxes are started from: once, by
// its digest, in a folder that only its owner can write.
package place

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// guestDigest is the SHA-256 of the guest's binary that belongs to this build,
// set by the linker. Empty in a build without make: then the binary beside the
// executable is taken as it is.
var guestDigest string

// guestName is the file name of the guest's binary beside caisson.
const guestName = "caisson-guest"

const rootDir = "/var/lib/caisson"

// Dir is the folder that Guest keeps the guest in: root's is
// /var/lib/caisson, a user's $XDG_CACHE_HOME/caisson or ~/.cache/caisson. It is
// not the state's, which often lies where nothing may be executed.
func Dir(getenv func(string) string, uid int) (string, error) {
	if uid == 0 {
		return rootDir, nil
	}
	dir := getenv("XDG_CACHE_HOME")
	if dir == "" && getenv("HOME") != "" {
		dir = filepath.Join(getenv("HOME"), ".cache")
	}
	if !filepath.IsAbs(dir) {
		return "", errors.New("neither XDG_CACHE_HOME nor HOME names an absolute path")
	}
	return filepath.Join(dir, "caisson"), nil
}

// Guest returns the path of the guest's binary, in dir under the name of its
// digest. The first call copies it there from beside the executable and checks it against this
// build; later ones only look. A box is never started from where the binary was
// built or installed: that may lie in a workspace which a box can write.
func Guest(dir string) (string, error) {
	if err := checkDir(dir); err != nil {
		return "", err
	}
	if guestDigest != "" {
		p := filepath.Join(dir, "guest-"+guestDigest)
		if trusted(dir, p, guestDigest) {
			return p, nil
		}
	}
	exe, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find own executable: %w", err)
	}
	src := filepath.Join(filepath.Dir(exe), guestName)
	data, err := os.ReadFile(src)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s is not beside caisson", src)
	}
	if err != nil {
		return "", fmt.Errorf("read guest: %w", err)
	}
	sum := sha256.Sum256(data)
	digest := hex.EncodeToString(sum[:])
	if guestDigest != "" && digest != guestDigest {
		return "", fmt.Errorf("%s is not the guest of this build", src)
	}
	p := filepath.Join(dir, "guest-"+digest)
	if trusted(dir, p, digest) {
		return p, nil
	}
	return p, place(dir, p, data)
}

// trusted reports whether p, in dir, is the guest of that digest.
func trusted(dir, p, digest string) bool {
	return placed(p) && (isDefault(dir) || intact(p, digest))
}

// isDefault reports whether dir is the folder that no policy ever opens. Another one
// is the choice of the environment, today's: yesterday a box may have written there.
func isDefault(dir string) bool {
	if os.Geteuid() == 0 {
		return dir == rootDir
	}
	u, err := user.LookupId(strconv.Itoa(os.Geteuid()))
	return err == nil && filepath.IsAbs(u.HomeDir) && dir == filepath.Join(u.HomeDir, ".cache", "caisson")
}

// intact reads a placed guest, some MB, and compares its digest.
func intact(p, digest string) bool {
	data, err := os.ReadFile(p)
	if err != nil {
		return false
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]) == digest
}

// checkDir refuses a folder in which somebody else could put a guest. One that is not
// there yet is made by the first copy.
func checkDir(dir string) error {
	var st syscall.Stat_t
	if err := syscall.Lstat(dir, &st); err != nil {
		return nil
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFDIR || int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
		return fmt.Errorf("%s must be a folder of yours that nobody else may write", dir)
	}
	return nil
}

// placed reports whether p is a guest that only its owner, who must be us, could have put there.
func placed(p string) bool {
	var st syscall.Stat_t
	if syscall.Lstat(p, &st) != nil {
		return false
	}
	return st.Mode&syscall.S_IFMT == syscall.S_IFREG && int(st.Uid) == os.Geteuid() &&
		st.Mode&0o777 == 0o555 && st.Size > 0
}

// place writes data under a temporary name and renames it, so that two first
// runs at once both succeed and nobody executes half a file.
func place(dir, p string, data []byte) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	f, err := os.CreateTemp(dir, ".guest-")
	if err != nil {
		return fmt.Errorf("place guest: %w", err)
	}
	defer os.Remove(f.Name()) // gone after the rename
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(0o555)
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), p)
	}
	if err != nil {
		return fmt.Errorf("place guest: %w", err)
	}
	return nil
}
