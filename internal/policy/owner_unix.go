//go:build unix

package policy

import (
	"io/fs"
	"syscall"
)

// owner gives the ids that own a file.
func owner(info fs.FileInfo) (uid, gid int, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, false
	}
	return int(st.Uid), int(st.Gid), true
}

// names is how many names a file has (hard links).
func names(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok && info.Mode().IsRegular() {
		return uint64(st.Nlink)
	}
	return 1
}
