//go:build linux

package stage

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caisson-dev/caisson/internal/linux"
	"github.com/caisson-dev/caisson/internal/testenv"
)

// folders makes in/, in/sub/ and out/ with a file in each, and returns their parent.
func folders(t *testing.T) string {
	t.Helper()
	top := t.TempDir()
	for _, dir := range []string{"in/sub", "out"} {
		if err := os.MkdirAll(filepath.Join(top, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"in/file", "in/sub/file", "out/file"} {
		if err := os.WriteFile(filepath.Join(top, file), []byte("text"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return top
}

// fileActs are acts below a folder. Each undoes itself, so that it can be tried
// before and after.
var fileActs = []struct {
	name string
	abi  int // that bounds it
	act  func(dir string) error
}{
	{"write", 1, func(dir string) error { return os.WriteFile(dir+"/file", []byte("text"), 0o600) }},
	{"create and remove", 1, func(dir string) error {
		return errors.Join(os.WriteFile(dir+"/new", nil, 0o600), os.Remove(dir+"/new"))
	}},
	{"folder", 1, func(dir string) error { return errors.Join(os.Mkdir(dir+"/new", 0o700), os.Remove(dir+"/new")) }},
	{"link", 1, func(dir string) error {
		return errors.Join(os.Link(dir+"/file", dir+"/new"), os.Remove(dir+"/new"))
	}},
	{"symlink", 1, func(dir string) error { return errors.Join(os.Symlink("x", dir+"/new"), os.Remove(dir+"/new")) }},
	{"fifo", 1, func(dir string) error {
		return errors.Join(unix.Mkfifo(dir+"/new", 0o600), os.Remove(dir+"/new"))
	}},
	{"socket", 1, func(dir string) error {
		l, err := net.Listen("unix", dir+"/new")
		if err != nil {
			return err
		}
		return l.Close()
	}},
	{"rename", 1, func(dir string) error {
		return errors.Join(os.Rename(dir+"/file", dir+"/new"), os.Rename(dir+"/new", dir+"/file"))
	}},
	{"truncate", 3, func(dir string) error { return os.Truncate(dir+"/file", 4) }},
}

func TestLandlockWritesOnlyWhereGranted(t *testing.T) {
	testenv.Need(t, "landlock")
	oneWay(t, func(t *testing.T, _ []string) {
		top := folders(t)
		for _, a := range fileActs {
			for _, dir := range []string{"/in", "/out"} {
				if err := a.act(top + dir); err != nil {
					t.Fatalf("control: %s in %s: %v", a.name, dir, err)
				}
			}
		}
		confineStem(t, FilterOptions{}, top+"/in")
		abi := linux.LandlockABI()
		for _, a := range fileActs {
			if err := a.act(top + "/in"); err != nil {
				t.Errorf("%s where granted: %v", a.name, err)
			}
			if err := a.act(top + "/out"); abi >= a.abi && !errors.Is(err, unix.EACCES) {
				t.Errorf("%s where not granted: %v, want EACCES", a.name, err)
			}
		}
		if _, err := os.ReadFile(top + "/out/file"); err != nil {
			t.Errorf("read where granted: %v", err)
		}
		if abi < 2 {
			return
		}
		if err := os.Rename(top+"/in/file", top+"/in/sub/moved"); err != nil {
			t.Errorf("rename to another folder: %v", err)
		}
		if err := os.Link(top+"/in/sub/moved", top+"/in/linked"); err != nil {
			t.Errorf("link to another folder: %v", err)
		}
	})
}

func TestLandlockReadsOnlyWhereGranted(t *testing.T) {
	testenv.Need(t, "landlock")
	oneWay(t, func(t *testing.T, _ []string) {
		top := folders(t)
		fd, err := unix.Open(top+"/in/sub", unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.ReadFile(top + "/out/file"); err != nil {
			t.Fatalf("control: %v", err)
		}
		domain, err := LandlockDomain(LandlockOptions{Grants: []Grant{
			{Path: top + "/in/file", Access: AccessRead | AccessWrite | AccessExec}, // a file takes the rights of files
			{FD: fd, Access: AccessRead},
		}})
		if err != nil {
			t.Fatal(err)
		}
		if err := domain.Enter(); err != nil {
			t.Fatal(err)
		}
		for _, granted := range []string{"/in/file", "/in/sub/file"} {
			if _, err := os.ReadFile(top + granted); err != nil {
				t.Errorf("%s: %v", granted, err)
			}
		}
		if _, err := os.ReadFile(top + "/out/file"); !errors.Is(err, unix.EACCES) {
			t.Errorf("read where not granted: %v, want EACCES", err)
		}
		if _, err := os.ReadDir(top + "/in"); !errors.Is(err, unix.EACCES) {
			t.Errorf("list where not granted: %v, want EACCES", err)
		}
		if err := os.WriteFile(top+"/in/sub/file", nil, 0o600); !errors.Is(err, unix.EACCES) {
			t.Errorf("write where only reading is granted: %v, want EACCES", err)
		}
	})
}

// A process and an abstract socket outside, which no namespace hides here.
func TestLandlockScopes(t *testing.T) {
	testenv.Need(t, "landlock")
	if linux.LandlockABI() < 6 {
		t.Skip("needs Landlock ABI 6")
	}
	for _, nested := range []bool{false, true} {
		name := map[bool]string{false: "box", true: "nested"}[nested]
		t.Run(name, func(t *testing.T) {
			oneWay(t, func(t *testing.T, _ []string) { tryScopes(t, nested) })
		})
	}
}

func tryScopes(t *testing.T, nested bool) {
	l, err := net.Listen("unix", "@caisson-test-"+filepath.Base(t.TempDir())+t.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	decoy, err := syscall.ForkExec("/bin/sleep", []string{"sleep", "60"}, &syscall.ProcAttr{
		Env: os.Environ(),
		Sys: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}, // with this thread, which cannot kill it any more
	})
	if err != nil {
		t.Fatal(err)
	}
	connect := func() error {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Connect(fd, &unix.SockaddrUnix{Name: l.Addr().String()})
	}
	acts := map[string]func() error{
		"signal":          func() error { return unix.Kill(decoy, 0) },
		"ptrace":          func() error { return seize(decoy) },
		"abstract socket": connect,
	}
	for name, act := range acts {
		if err := act(); err != nil {
			t.Fatalf("control: %s: %v", name, err)
		}
	}
	confineStem(t, FilterOptions{Nested: nested}, t.TempDir())
	for name, act := range acts {
		if err := act(); !errors.Is(err, unix.EPERM) {
			t.Errorf("%s: %v, want EPERM", name, err)
		}
	}
	if status := runOnStem(t, nil, "sh", "-c", "sleep 60 & kill $!"); status.ExitStatus() != 0 {
		t.Error("programs of the domain cannot signal each other")
	}
}

// seize traces a process and lets it go.
func seize(pid int) error {
	if err := unix.PtraceSeize(pid); err != nil {
		return err
	}
	if err := unix.PtraceInterrupt(pid); err != nil {
		return err
	}
	if _, err := unix.Wait4(pid, nil, unix.WALL, nil); err != nil {
		return err
	}
	return unix.PtraceDetach(pid)
}

func TestLandlockRefusesLinksAndMissingPaths(t *testing.T) {
	testenv.Need(t, "landlock")
	top := folders(t)
	if err := os.Symlink(top+"/in", top+"/link"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path string
		want error
	}{
		{top + "/in", nil},
		{top + "/missing", unix.ENOENT},
		{top + "/link", unix.ELOOP},
		{top + "/link/sub", unix.ELOOP},
	} {
		d, err := LandlockDomain(LandlockOptions{Grants: []Grant{{Path: c.path, Access: AccessRead}}})
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.path, err, c.want)
		}
		if err == nil {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if err := (Domain{}).Enter(); err == nil {
		t.Error("a domain that was never made was entered")
	}
}

// Every version of the table makes a domain on kernels that have it, and holds then.
func TestLandlockOfOlderKernels(t *testing.T) {
	testenv.Need(t, "landlock")
	for abi := 1; abi <= linux.LandlockABI(); abi++ {
		d, err := LandlockDomain(LandlockOptions{MaxABI: abi, Grants: []Grant{
			{Path: "/", Access: AccessRead | AccessExec},
			{Path: "/tmp", Access: AccessWrite | AccessConnect | AccessDevice},
		}})
		if err != nil {
			t.Fatalf("ABI %d: %v", abi, err)
		}
		if want := min(abi, landlockABIs[len(landlockABIs)-1].version); d.ABI != want {
			t.Errorf("ABI %d: the domain has %d", abi, d.ABI)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	for i, a := range landlockABIs {
		if a.version != i+1 {
			t.Errorf("row %d of the table is version %d", i, a.version)
		}
	}
}

// What the table says that a version lacks is so, as far as files show it.
func TestLandlockLacksWhatTheTableSays(t *testing.T) {
	testenv.Need(t, "landlock")
	for _, c := range []struct {
		name string
		abi  int // that brings it
		act  func(top string) error
		old  error // one version before
		now  error
	}{
		{"rename to another folder", 2, func(top string) error { return os.Rename(top+"/in/file", top+"/in/sub/moved") }, unix.EXDEV, nil},
		{"truncate outside", 3, func(top string) error { return os.Truncate(top+"/out/file", 0) }, nil, unix.EACCES},
		{"ioctl of a device outside", 5, func(string) error { return deviceIoctl("/dev/tty", "/dev/ptmx") }, nil, unix.EACCES},
	} {
		for _, abi := range []int{c.abi - 1, c.abi} {
			t.Run(fmt.Sprintf("%s %d", c.name, abi), func(t *testing.T) {
				if abi > linux.LandlockABI() {
					t.Skipf("needs Landlock ABI %d", abi)
				}
				oneWay(t, func(t *testing.T, _ []string) {
					top := folders(t)
					domain, err := LandlockDomain(LandlockOptions{MaxABI: abi, Grants: []Grant{
						{Path: "/", Access: AccessRead | AccessExec},
						{Path: "/dev", Access: AccessWrite}, // not AccessDevice
						{Path: top + "/in", Access: AccessWrite},
					}})
					if err != nil {
						t.Fatal(err)
					}
					if err := domain.Enter(); err != nil {
						t.Fatal(err)
					}
					want := c.now
					if abi < c.abi {
						want = c.old
					}
					if err := c.act(top); !errors.Is(err, want) {
						t.Errorf("%v, want %v", err, want)
					}
				})
			})
		}
	}
}

// deviceIoctl asks the first of the devices that can be opened for something
// that only devices answer.
func deviceIoctl(paths ...string) error {
	for _, path := range paths {
		fd, err := unix.Open(path, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		defer unix.Close(fd)
		_, err = unix.IoctlGetTermios(fd, unix.TCGETS)
		return err
	}
	return errors.New("no device")
}

func BenchmarkLandlockDomain(b *testing.B) {
	grants := []Grant{{Path: "/", Access: AccessRead | AccessExec}, {Path: "/dev", Access: AccessWrite | AccessDevice}}
	for _, path := range []string{"/tmp", "/run", "/proc", "/home", "/root", "/var/tmp"} {
		grants = append(grants, Grant{Path: path, Access: AccessWrite})
	}
	for b.Loop() {
		d, err := LandlockDomain(LandlockOptions{Grants: grants})
		if err != nil {
			b.Fatal(err)
		}
		if err := d.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// TestLandlockDoesNotBoundMetadata is why there is no box without namespaces: outside
// of all grants, and under the filter for such a box, the mode, times and attributes of
// the user's files can be changed by path. A kernel on which this fails is reason to think again.
func TestLandlockDoesNotBoundMetadata(t *testing.T) {
	testenv.Need(t, "landlock")
	oneWay(t, func(t *testing.T, _ []string) {
		top := folders(t)
		confineStem(t, FilterOptions{Bare: true}, top+"/in")
		file := top + "/out/file"
		if err := os.WriteFile(file, []byte("text"), 0o600); !errors.Is(err, unix.EACCES) {
			t.Fatalf("control: writing where not granted: %v, want EACCES", err)
		}
		for name, act := range map[string]func() error{
			"mode":  func() error { return os.Chmod(file, 0o666) },
			"owner": func() error { return os.Chown(file, os.Getuid(), os.Getgid()) },
			"times": func() error { return os.Chtimes(file, time.Unix(1, 0), time.Unix(1, 0)) },
			"look":  func() error { _, err := os.Stat(file); return err },
		} {
			if err := act(); err != nil {
				t.Errorf("%s: %v: this is bounded now", name, err)
			}
		}
	})
}
