package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// personal are variables of whoever runs the tests, which another user must
// not inherit: HOME and the like are set anew, the rest is dropped.
var personal = []string{
	"HOME", "USER", "LOGNAME", "SUDO_USER", "SUDO_UID", "SUDO_GID", "SUDO_COMMAND", "MAIL",
	"XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "DBUS_SESSION_BUS_ADDRESS",
}

// AsUser lets cmd, which has not started yet, run as an ordinary user with an
// empty HOME of its own and no groups of root's, and returns that home. Where
// the tests run as root this is uid CAISSON_TEST_UID, or a free one; where they do not, it is
// who they run as. The user can reach only what others may: the test's
// t.TempDir, for one, lies below a folder that is closed to it.
func AsUser(t testing.TB, cmd *exec.Cmd) (home string) {
	t.Helper()
	uid, gid := os.Geteuid(), os.Getegid()
	if uid == 0 {
		id, err := testUID()
		if err != nil {
			t.Fatalf("testenv: choose a test user: %v", err)
		}
		uid, gid = id, id
		if a := accountOf(uid); a.name != "" {
			gid = a.gid
		}
	}
	home = UserDir(t, uid, gid)
	if os.Geteuid() == 0 {
		if cmd.SysProcAttr == nil {
			cmd.SysProcAttr = &syscall.SysProcAttr{}
		}
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	if cmd.Dir == "" {
		cmd.Dir = home
	}
	cmd.Env = userEnv(cmd.Environ(), uid, home)
	return home
}

func userEnv(env []string, uid int, home string) []string {
	name := accountOf(uid).name
	if name == "" {
		name = strconv.Itoa(uid)
	}
	kept := slices.DeleteFunc(env, func(kv string) bool {
		key, _, _ := strings.Cut(kv, "=")
		return slices.Contains(personal, key) || key == "PWD"
	})
	return append(kept, "HOME="+home, "USER="+name, "LOGNAME="+name)
}

// UserDir makes a folder of mode 0700 that belongs to the ids and lies where
// they can reach it. It goes with the test.
func UserDir(t testing.TB, uid, gid int) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "caisson-test-home-")
	if err != nil {
		t.Fatalf("testenv: make a home: %v", err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("testenv: remove %s: %v", dir, err)
		}
	})
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		t.Fatalf("testenv: make a home: %v", err)
	}
	if err := os.Lchown(dir, uid, gid); err != nil {
		t.Fatalf("testenv: give a home away: %v", err)
	}
	return dir
}

// testUID is CAISSON_TEST_UID, or an id of the ordinary range that no account
// and no process has. Test processes that run side by side start their search at
// different places.
var testUID = sync.OnceValues(func() (int, error) {
	if text := os.Getenv("CAISSON_TEST_UID"); text != "" {
		uid, err := strconv.Atoi(text)
		if err != nil || uid <= 0 {
			return 0, fmt.Errorf("CAISSON_TEST_UID=%q is no id of an ordinary user", text)
		}
		return uid, nil
	}
	taken, err := takenUIDs()
	if err != nil {
		return 0, err
	}
	const first, count = 2000, 50000
	for i := range count {
		uid := first + (os.Getpid()+i)%count
		if !taken[uid] {
			return uid, nil
		}
	}
	return 0, fmt.Errorf("every id from %d to %d is taken", first, first+count-1)
})

func takenUIDs() (map[int]bool, error) {
	taken := map[int]bool{}
	err := eachLine("/etc/passwd", func(line string) {
		if f := strings.Split(line, ":"); len(f) > 3 {
			if uid, err := strconv.Atoi(f[2]); err == nil {
				taken[uid] = true
			}
		}
	})
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue // it ended meanwhile
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			taken[int(st.Uid)] = true
		}
	}
	return taken, nil
}

type account struct {
	name string
	gid  int
}

// accountOf reads /etc/passwd; the zero value is an id without an account.
func accountOf(uid int) (a account) {
	_ = eachLine("/etc/passwd", func(line string) { // without the file nobody has an account
		f := strings.Split(line, ":")
		if len(f) > 3 && f[2] == strconv.Itoa(uid) && a.name == "" {
			gid, err := strconv.Atoi(f[3])
			if err == nil {
				a = account{f[0], gid}
			}
		}
	})
	return a
}
