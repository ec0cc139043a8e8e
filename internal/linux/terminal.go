//go:build linux

package linux

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// MakeRaw sets a terminal raw, as cfmakeraw(3), and returns what it was.
func MakeRaw(fd int) (*unix.Termios, error) {
	old, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil, fmt.Errorf("read terminal settings: %w", err)
	}
	raw := *old
	raw.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	raw.Oflag &^= unix.OPOST
	raw.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	raw.Cflag &^= unix.CSIZE | unix.PARENB
	raw.Cflag |= unix.CS8
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(fd, unix.TCSETSW, &raw); err != nil {
		return nil, fmt.Errorf("set terminal raw: %w", err)
	}
	return old, nil
}

// SameFile reports whether two descriptors of this process are one open file
// (kcmp(2), KCMP_FILE): what is written to both keeps its order. Where the
// kernel cannot say, the same pipe, socket or device counts as one.
func SameFile(a, b int) bool {
	pid := uintptr(unix.Getpid())
	const kcmpFile = 0
	r, _, e := unix.Syscall6(unix.SYS_KCMP, pid, pid, kcmpFile, uintptr(a), uintptr(b), 0)
	if e == 0 {
		return r == 0
	}
	var sa, sb unix.Stat_t
	if unix.Fstat(a, &sa) != nil || unix.Fstat(b, &sb) != nil {
		return false
	}
	return sa.Dev == sb.Dev && sa.Ino == sb.Ino && sa.Mode&unix.S_IFMT != unix.S_IFREG
}
