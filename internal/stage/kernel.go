//go:build linux

package stage

import (
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/caisson-dev/caisson/api"
	"github.com/caisson-dev/caisson/internal/linux"
)

// kernelRow is one thing of the kernel that the process and container tiers
// use: which version brought it, how it is asked for, and what a host without it loses.
// The version is only told: distributions carry things back and turn them off.
type kernelRow struct {
	feature  string
	linux    string
	required bool
	lost     string
	fix      string
	probe    func() (api.Strength, string) // the detail is what was seen
}

// kernelRows is the table.
var kernelRows = []kernelRow{
	{
		feature: api.FeatureNamespaces, linux: "4.6", required: true, probe: probeNamespaces,
		lost: "private processes, mounts, network, IPC, host name and cgroup view", fix: "a kernel with CONFIG_NAMESPACES and all its kinds, and /proc: mount -t proc proc /proc",
	},
	{
		feature: api.FeatureUserNamespaces, linux: "3.8", probe: probeUserNamespaces,
		lost: "sandboxes for ordinary users; root needs none",
	},
	{
		feature: api.FeatureTimeNamespace, linux: "6.2", probe: probeTimeNamespace,
		lost: "a clock of the box's own: it sees how long the host is up",
	},
	{
		feature: api.FeatureMountAPI, linux: "5.12", required: true, probe: probeMountAPI,
		lost: "mounts by descriptor, which no rename can redirect", fix: "Linux 5.12 or newer",
	},
	{
		feature: api.FeatureIDMap, linux: "5.12", probe: probeIDMap,
		lost: "files of the workspace under the box's own id, when started as root; each file system adds its support later (ext4 5.12, btrfs 5.15, overlay 5.19, tmpfs 6.3)",
	},
	{
		feature: api.FeatureSeccomp, linux: "4.14", required: true, probe: probeSeccomp,
		lost: "the allow list of system calls", fix: "a kernel with CONFIG_SECCOMP_FILTER",
	},
	{
		feature: api.FeatureLandlock, linux: "5.13", probe: probeLandlock,
		lost: "the second layer behind the mounts", fix: "lsm=landlock,... on the kernel's command line",
	},
	{
		feature: api.FeaturePidfd, linux: "5.3", required: true, probe: probePidfd,
		lost: "a handle on a process that can not come to mean another", fix: "Linux 5.3 or newer",
	},
}

// KernelFeatures asks the kernel for what the process and container tiers use,
// by some system calls and reads of /proc: it starts nothing. What only trying can
// tell (an AppArmor profile that lets user namespaces be made but not used) is the driver's to
// find out.
func KernelFeatures() []api.Feature {
	features := make([]api.Feature, 0, len(kernelRows))
	for _, row := range kernelRows {
		strength, detail := row.probe()
		f := api.Feature{Name: row.feature, Strength: strength, Required: row.required, Detail: detail}
		if row.feature == api.FeatureUserNamespaces {
			f.Required = os.Geteuid() != 0
		}
		if strength != api.StrengthHard {
			f.Reason = "without it: " + row.lost + " (Linux " + row.linux + ")"
			f.Fix = row.fix
			if row.feature == api.FeatureUserNamespaces {
				_, _, f.Fix = userNamespaces(theHost(), os.Geteuid())
			}
		}
		features = append(features, f)
	}
	return features
}

// hardIf is hard or none.
func hardIf(there bool) api.Strength {
	if there {
		return api.StrengthHard
	}
	return api.StrengthNone
}

func probeNamespace(kinds ...string) func() (api.Strength, string) {
	return func() (api.Strength, string) {
		if unix.Access("/proc/self/ns", unix.F_OK) != nil {
			return api.StrengthNone, "no /proc is mounted here"
		}
		for _, kind := range kinds {
			if unix.Access("/proc/self/ns/"+kind, unix.F_OK) != nil {
				return api.StrengthNone, "no " + kind + " namespace"
			}
		}
		return api.StrengthHard, ""
	}
}

func probeNamespaces() (api.Strength, string) {
	return probeNamespace("mnt", "pid", "net", "ipc", "uts", "cgroup")()
}

// probeTimeNamespace wants more than the namespace, which is of 5.6: before 6.2 a
// thread that made one could not start a program as Go does.
func probeTimeNamespace() (api.Strength, string) {
	if !linux.KernelAtLeast(6, 2) {
		return api.StrengthNone, "before Linux 6.2"
	}
	return probeNamespace("time")()
}

// probeUserNamespaces looks; what only trying tells, the driver's full probe finds out.
func probeUserNamespaces() (api.Strength, string) {
	if strength, detail := probeNamespace("user")(); strength != api.StrengthHard {
		return strength, detail
	}
	strength, detail, _ := userNamespaces(theHost(), os.Geteuid())
	return strength, detail
}

// userNamespaces says which setting of a host bars them, and the fix.
func userNamespaces(host fs.FS, uid int) (strength api.Strength, detail, fix string) {
	f := readSettings(host, uid)
	if barred := userNamespacesBarred(&f); barred != nil {
		return api.StrengthNone, barred.Message, barred.Hint
	}
	if !f.root && f.appArmorBars() {
		detail = "AppArmor restricts them to programs that have a profile"
	}
	return api.StrengthHard, detail, "a kernel with CONFIG_USER_NS"
}

// isCall reports whether the kernel has a system call, by its answer to arguments
// that are wrong.
func isCall(number uintptr, args ...uintptr) bool {
	var a [6]uintptr
	copy(a[:], args)
	_, _, errno := unix.RawSyscall6(number, a[0], a[1], a[2], a[3], a[4], a[5])
	return errno != unix.ENOSYS
}

func probeMountAPI() (api.Strength, string) {
	const badFD = ^uintptr(0)
	return hardIf(isCall(unix.SYS_MOVE_MOUNT, badFD, 0, badFD, 0) && isCall(unix.SYS_MOUNT_SETATTR, badFD, 0, 0, 0, 0)), ""
}

// probeIDMap is soft at best: whether a file system takes part shows only when it is tried.
func probeIDMap() (api.Strength, string) {
	if strength, _ := probeMountAPI(); strength != api.StrengthHard {
		return api.StrengthNone, ""
	}
	return api.StrengthSoft, "as far as the file system takes part"
}

func probeSeccomp() (api.Strength, string) {
	if _, err := SeccompFilter(FilterOptions{}); err != nil {
		return api.StrengthNone, err.Error()
	}
	return hardIf(linux.SeccompHasAction(unix.SECCOMP_RET_KILL_PROCESS)), ""
}

func probeLandlock() (api.Strength, string) {
	abi := linux.LandlockABI()
	if abi < 1 {
		return api.StrengthNone, ""
	}
	detail := fmt.Sprintf("ABI %d", abi)
	if lacks := landlockLacks(abi); lacks != "" {
		detail += "; without " + lacks
	}
	return api.StrengthHard, detail
}

func probePidfd() (api.Strength, string) {
	return hardIf(isCall(unix.SYS_PIDFD_OPEN, ^uintptr(0), 0)), ""
}
