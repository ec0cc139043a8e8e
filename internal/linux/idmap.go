//go:build linux

package linux

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// idmapSince is the kernel that taught each file system to translate ids in a
// mount (FS_ALLOW_IDMAP), by its magic number (statfs(2)).
var idmapSince = map[int64][2]int{
	unix.EXT4_SUPER_MAGIC:      {5, 12},
	unix.XFS_SUPER_MAGIC:       {5, 12},
	unix.MSDOS_SUPER_MAGIC:     {5, 12},
	unix.BTRFS_SUPER_MAGIC:     {5, 15},
	unix.F2FS_SUPER_MAGIC:      {5, 18},
	unix.EROFS_SUPER_MAGIC_V1:  {5, 19},
	unix.OVERLAYFS_SUPER_MAGIC: {5, 19},
	unix.SQUASHFS_MAGIC:        {6, 2},
	unix.TMPFS_MAGIC:           {6, 3},
	unix.CEPH_SUPER_MAGIC:      {6, 7},
}

// CanIDMap reports whether mounts of the file system at dir can translate ids
// on this kernel. Mounting is still what decides: this says what to plan for.
func CanIDMap(dir string) bool {
	var fs unix.Statfs_t
	if unix.Statfs(dir, &fs) != nil {
		return false
	}
	since, ok := idmapSince[int64(fs.Type)]
	return ok && KernelAtLeast(since[0], since[1])
}

// KernelAtLeast compares the running kernel's version; one that cannot be read
// is older than any.
func KernelAtLeast(major, minor int) bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	a, b, ok := kernelVersion(unix.ByteSliceToString(u.Release[:]))
	return ok && (a > major || a == major && b >= minor)
}

// kernelVersion reads "6.18.44-suffix".
func kernelVersion(release string) (major, minor int, ok bool) {
	first, rest, _ := strings.Cut(release, ".")
	digits := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if digits >= 0 {
		rest = rest[:digits]
	}
	major, err1 := strconv.Atoi(first)
	minor, err2 := strconv.Atoi(rest)
	return major, minor, err1 == nil && err2 == nil
}
