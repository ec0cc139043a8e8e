//go:build linux

package stage

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// kernelViews are file systems that show or steer the host's kernel and its
// processes.
var kernelViews = [...]string{
	"proc", "sysfs", "devtmpfs", "devpts", "cgroup", "cgroup2", "mqueue", "nsfs", "bpf", "configfs", "debugfs", "tracefs",
	"securityfs", "selinuxfs", "smackfs", "efivarfs", "pstore", "binfmt_misc", "fusectl", "resctrl", "rpc_pipefs", "nfsd", "binder", "functionfs",
}

// coverViews hides the views of the kernel that came along with a folder of the
// host's: clones are recursive, and a workspace may hold the root of some other
// system (a chroot, an image being built) with the host's /proc, /sys and /dev mounted
// in it. In a user namespace such a mount can't be taken away, only covered.
func (r *root) coverViews(s *Setup) error {
	// Both the host's mounts and ours are listed. Of the host's only those count
	// that lie where a bind of ours is, and these it shows.
	list, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("read mounts: %w", err)
	}
	for _, target := range views(list) {
		if r.dirs["view:"+target] || !inBind(s, target) {
			continue
		}
		r.dirs["view:"+target] = true
		if err := r.hide(target); err != nil {
			return err
		}
	}
	return nil
}

// inBind reports whether a path is shown by a bind of the plan.
func inBind(s *Setup, p string) bool {
	for i := range s.Mounts {
		m := &s.Mounts[i]
		if m.Kind == MountBind && (p == m.Target || strings.HasPrefix(p, m.Target+"/")) {
			return true
		}
	}
	return false
}

// views gives where kernelViews are mounted, from /proc/self/mountinfo (proc(5)).
func views(mountinfo []byte) (points []string) {
	for line := range bytes.Lines(mountinfo) {
		before, after, ok := bytes.Cut(line, []byte(" - "))
		if !ok {
			continue
		}
		kind, _, _ := bytes.Cut(after, []byte(" "))
		for _, v := range kernelViews {
			if string(kind) != v {
				continue
			}
			if f := bytes.Fields(before); len(f) > 4 {
				points = append(points, unescape(string(f[4])))
			}
		}
	}
	return points
}

// unescape turns \040 and the like of mountinfo back.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
