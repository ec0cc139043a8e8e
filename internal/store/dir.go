//go:build linux

package store

import (
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/caisson-dev/caisson/api"
)

// StateDir says where the sandboxes of a user are kept. It is in memory where
// the system offers that (/run, XDG_RUNTIME_DIR), since a sandbox does not
// outlive a restart of the machine. CAISSON_STATE overrides.
func StateDir(getenv func(string) string, uid int) (string, error) {
	if dir := getenv("CAISSON_STATE"); dir != "" {
		if !filepath.IsAbs(dir) {
			return "", &api.Error{
				Code:    api.CodeUsage,
				Message: fmt.Sprintf("CAISSON_STATE=%q is not an absolute path", dir),
				Hint:    "set it to an absolute path, or unset it",
			}
		}
		return filepath.Clean(dir), nil
	}
	if uid == 0 {
		return "/run/caisson", nil
	}
	// After su the variable may still name another user's folder.
	if dir := getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) && owned(dir, uid) {
		return filepath.Join(dir, "caisson"), nil
	}
	if dir := getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "caisson"), nil
	}
	if dir := getenv("HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, ".local/state/caisson"), nil
	}
	return "", &api.Error{
		Code:    api.CodeHost,
		Message: "no place to keep sandboxes: neither XDG_RUNTIME_DIR, XDG_STATE_HOME nor HOME is a usable absolute path",
		Hint:    "set HOME, or CAISSON_STATE to a folder of your own",
	}
}

func owned(dir string, uid int) bool {
	var st unix.Stat_t
	err := unix.Stat(dir, &st)
	return err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR && int(st.Uid) == uid
}

// checkOwn refuses a state folder that somebody else could write.
func checkOwn(fd int, dir string) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("stat %s: %w", dir, err)
	}
	switch {
	case int(st.Uid) != unix.Geteuid():
		return &api.Error{
			Code:    api.CodeHost,
			Message: fmt.Sprintf("the state folder %s belongs to uid %d, not to you (uid %d)", dir, st.Uid, unix.Geteuid()),
			Hint:    "set CAISSON_STATE to a folder of your own",
		}
	case st.Mode&0o022 != 0:
		return &api.Error{
			Code:    api.CodeHost,
			Message: fmt.Sprintf("the state folder %s can be written by others (mode %04o)", dir, st.Mode&0o7777),
			Hint:    "chmod 0700 " + dir,
		}
	}
	return nil
}

const nameRule = "lower-case letters, digits and dashes, starting with a letter or digit, at most 63"

// validName reports whether s can be an id or a name: [a-z0-9][a-z0-9-]{0,62}.
func validName(s string) bool {
	if s == "" || len(s) > 63 || s[0] == '-' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// newID returns 50 random bits as ten letters and digits: short enough to
// type, and Create tries again should one exist.
func newID() (string, error) {
	const alphabet = "abcdefghijklmnopqrstuvwxyz234567"
	var b [10]byte
	for n := 0; n < len(b); {
		m, err := unix.Getrandom(b[n:], 0)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return "", fmt.Errorf("read random bytes: %w", err)
		}
		n += max(m, 0)
	}
	for i := range b {
		b[i] = alphabet[b[i]%32]
	}
	return string(b[:]), nil
}
