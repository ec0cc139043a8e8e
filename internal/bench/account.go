package bench

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
)

// account is who runs the measured commands.
type account struct {
	name     string
	home     string
	uid, gid int
	switched bool     // another user than the caller
	env      []string // the commands' environment
}

// lookUser returns the caller for an empty name. Another user gets a small
// environment of its own and nothing of the caller's.
func lookUser(name string) (account, error) {
	if name == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return account{}, fmt.Errorf("find the home folder: %w", err)
		}
		name := strconv.Itoa(os.Getuid())
		if u, err := user.LookupId(name); err == nil {
			name = u.Username
		}
		return account{name: name, home: home, uid: os.Getuid(), gid: os.Getgid(), env: os.Environ()}, nil
	}
	if os.Getuid() != 0 {
		return account{}, fmt.Errorf("only root can measure as %s", name)
	}
	u, err := user.Lookup(name)
	if err != nil {
		return account{}, fmt.Errorf("find user %s: %w", name, err)
	}
	a := account{name: u.Username, home: u.HomeDir, switched: true}
	if a.uid, err = strconv.Atoi(u.Uid); err != nil {
		return account{}, fmt.Errorf("read the uid of %s: %w", name, err)
	}
	if a.gid, err = strconv.Atoi(u.Gid); err != nil {
		return account{}, fmt.Errorf("read the gid of %s: %w", name, err)
	}
	a.env = []string{"HOME=" + u.HomeDir, "USER=" + u.Username, "LOGNAME=" + u.Username, "PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8"}
	return a, nil
}
