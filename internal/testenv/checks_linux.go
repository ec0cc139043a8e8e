package testenv

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// checks tries each thing for real, at most once per process: that a file or a
// program is there says little about whether it works here.
var checks = map[string]func() error{
	"root":      sync.OnceValue(checkRoot),
	"user":      sync.OnceValue(checkUser),
	"userns":    sync.OnceValue(checkUserNamespace),
	"netns":     sync.OnceValue(checkNetNamespace),
	"subids":    sync.OnceValue(checkSubIDs),
	"tun":       sync.OnceValue(func() error { return checkOpen("/dev/net/tun") }),
	"kvm":       sync.OnceValue(checkKVM),
	"landlock":  sync.OnceValue(checkLandlock),
	"seccomp":   sync.OnceValue(checkSeccomp),
	"cgroup":    sync.OnceValue(checkCgroup),
	"cgroup-v1": sync.OnceValue(checkCgroupV1),
	"cgroup-v2": sync.OnceValue(checkCgroupV2),
	"systemd":   sync.OnceValue(checkSystemd),
	"bwrap":     tool("bwrap", "--ro-bind", "/", "/", "true"),
	"cargo":     tool("/usr/bin/cargo", "--version"),
	"chromium":  tool("chromium", "--version"),
	"codex":     tool("codex", "--version"),
	"crun":      tool("crun", "--version"),
	"curl":      tool("curl", "--version"),
	"gcc":       tool("gcc", "--version"),
	"gdb":       tool("gdb", "--version"),
	"git":       tool("git", "--version"),
	"go":        tool("go", "env", "GOCACHE"),
	"ip":        tool("ip", "-V"),
	"java":      tool("java", "-version"),
	"less":      tool("less", "--version"),
	"nft":       tool("nft", "--version"),
	"node":      tool("node", "--version"),
	"npm":       tool("npm", "--version"),
	"python3":   tool("python3", "--version"),
	"qemu":      tool("qemu-system-x86_64", "--version"),
	"runc":      tool("runc", "--version"),
	"runsc":     tool("runsc", "--version"),
	"setpriv":   tool("setpriv", "--version"),
	"srt":       tool("srt", "--version"),
	"strace":    tool("strace", "-o", "/dev/null", "true"),
	"sysctl":    tool("sysctl", "--version"),
	"tmux":      tool("tmux", "-V"),
	"unshare":   tool("unshare", "--version"),
	"vim":       tool("vim", "--version"),
	"newuidmap": tool("sh", "-c", "command -v newuidmap"),

	"docker":     tool("docker", "--version"),
	"dockerd":    tool("dockerd", "--version"),
	"make":       tool("make", "--version"),
	"mvn":        tool("mvn", "--version"),
	"perf":       tool("perf", "--version"),
	"playwright": tool("sh", "-c", `NODE_PATH="$(npm root -g)" node -e 'require("playwright-core")'`),
	"postgresql": tool("sh", "-c", "ls /usr/lib/postgresql/*/bin/initdb && psql --version"),
	"redis":      tool("sh", "-c", "redis-server --version && redis-cli --version"),
	"rr":         tool("rr", "--version"),
	"ssh-keygen": tool("sh", "-c", "command -v ssh-keygen"),
	"valgrind":   tool("valgrind", "--version"),
}

// tool returns a check that the program is there and succeeds with args.
func tool(name string, args ...string) func() error {
	return sync.OnceValue(func() error {
		path, err := exec.LookPath(name)
		if err != nil {
			return err
		}
		return try(path, args, nil)
	})
}

// try runs a program against a deadline that only a hanging one reaches.
func try(path string, args []string, attr *syscall.SysProcAttr) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.SysProcAttr = attr
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
		return fmt.Errorf("%s %s: %w %s", path, strings.Join(args, " "), err, line)
	}
	return nil
}

func checkRoot() error {
	if uid := os.Geteuid(); uid != 0 {
		return fmt.Errorf("running as uid %d", uid)
	}
	return nil
}

func checkUser() error {
	if os.Geteuid() == 0 {
		return errors.New("running as root")
	}
	return nil
}

func checkUserNamespace() error {
	return inNamespaces(syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET)
}

// checkNetNamespace: a network namespace of one's own, in a user namespace
// where there is no root.
func checkNetNamespace() error {
	if os.Geteuid() != 0 {
		return inNamespaces(syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET)
	}
	return inNamespaces(syscall.CLONE_NEWNET)
}

func inNamespaces(flags uintptr) error {
	path, err := exec.LookPath("true")
	if err != nil {
		return err
	}
	attr := &syscall.SysProcAttr{Cloneflags: flags}
	if flags&syscall.CLONE_NEWUSER != 0 {
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
	}
	return try(path, nil, attr)
}

// checkSubIDs: newuidmap would map a range for whoever runs the tests.
func checkSubIDs() error {
	if _, err := exec.LookPath("newuidmap"); err != nil {
		return err
	}
	uid := strconv.Itoa(os.Getuid())
	name := accountOf(os.Getuid()).name
	for _, file := range []string{"/etc/subuid", "/etc/subgid"} {
		found := false
		err := eachLine(file, func(line string) {
			owner, _, _ := strings.Cut(line, ":")
			found = found || owner == uid || owner == name && name != ""
		})
		if err != nil {
			return err
		}
		if !found {
			return fmt.Errorf("%s has no range for uid %s", file, uid)
		}
	}
	return nil
}

func checkOpen(path string) error {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	return unix.Close(fd)
}

// The ioctls of <linux/kvm.h>.
const (
	kvmGetAPIVersion = 0xae00
	kvmCreateVM      = 0xae01
)

// checkKVM makes an empty VM. Whether a kernel boots in one is the microVM
// driver's own probe: there are hosts where it hangs.
func checkKVM() error {
	fd, err := unix.Open("/dev/kvm", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open /dev/kvm: %w", err)
	}
	defer unix.Close(fd)
	version, err := unix.IoctlRetInt(fd, kvmGetAPIVersion)
	if err != nil || version != 12 {
		return fmt.Errorf("KVM has API version %d, not 12: %w", version, err)
	}
	vm, err := unix.IoctlRetInt(fd, kvmCreateVM)
	if err != nil {
		return fmt.Errorf("make a VM: %w", err)
	}
	return unix.Close(vm)
}

func checkLandlock() error {
	const version = 1 // LANDLOCK_CREATE_RULESET_VERSION
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, version)
	if errno != 0 {
		return fmt.Errorf("landlock_create_ruleset: %w", errno)
	}
	if abi < 1 {
		return fmt.Errorf("the kernel has Landlock ABI %d", abi)
	}
	return nil
}

// checkSeccomp asks for a filter at address 0: a kernel with filters says EFAULT.
func checkSeccomp() error {
	err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, 0, 0, 0)
	if !errors.Is(err, unix.EFAULT) {
		return fmt.Errorf("seccomp filter: %w", err)
	}
	return nil
}

// checkCgroup makes a group of either version, for tests of limits that only a cgroup makes hard.
func checkCgroup() error {
	if checkCgroupV1() == nil {
		return nil
	}
	return checkCgroupV2()
}

// checkCgroupV1 makes a group of the pids and memory controllers of version 1.
func checkCgroupV1() error {
	for _, controller := range []string{"pids", "memory", "freezer"} {
		if err := makeGroup(filepath.Join("/sys/fs/cgroup", controller), unix.CGROUP_SUPER_MAGIC); err != nil {
			return err
		}
	}
	return nil
}

// checkCgroupV2 makes a group below the caller's own that has the controllers
// that limits need.
func checkCgroupV2() error {
	root := "/sys/fs/cgroup"
	own := ""
	err := eachLine("/proc/self/cgroup", func(line string) {
		if path, ok := strings.CutPrefix(line, "0::"); ok {
			own = path
		}
	})
	if err != nil {
		return err
	}
	controllers, err := os.ReadFile(filepath.Join(root, own, "cgroup.controllers"))
	if err != nil {
		return err
	}
	for _, want := range []string{"memory", "pids"} {
		if !strings.Contains(" "+strings.TrimSpace(string(controllers))+" ", " "+want+" ") {
			return fmt.Errorf("the group %s has no controller %s", own, want)
		}
	}
	return makeGroup(filepath.Join(root, own), unix.CGROUP2_SUPER_MAGIC)
}

func makeGroup(parent string, magic int64) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(parent, &fs); err != nil {
		return fmt.Errorf("statfs %s: %w", parent, err)
	}
	if fs.Type != magic {
		return fmt.Errorf("%s is no cgroup of that version", parent)
	}
	dir := filepath.Join(parent, "testenv-"+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	return os.Remove(dir)
}

// checkSystemd runs a program in a scope, of the user's own manager where there
// is no root.
func checkSystemd() error {
	path, err := exec.LookPath("systemd-run")
	if err != nil {
		return err
	}
	args := []string{"--quiet", "--scope", "--collect", "true"}
	if os.Geteuid() != 0 {
		args = append([]string{"--user"}, args...)
	}
	return try(path, args, nil)
}

func eachLine(path string, do func(string)) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		do(lines.Text())
	}
	return lines.Err()
}
