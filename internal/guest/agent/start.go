//go:build linux

package agent

import (
	"errors"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/caisson-dev/caisson/internal/guest"
	"github.com/caisson-dev/caisson/internal/linux"
)

// defaultPath is where programs are looked for without a PATH; the same as
// glibc's confstr(_CS_PATH), with /usr/local/bin before.
const defaultPath = "/usr/local/bin:/usr/bin:/bin"

// lookup finds the executable of cmd as execvp would. It runs on the stem, with
// a program's rights.
func lookup(cmd *guest.Command) (string, error) {
	name := cmd.Argv[0]
	if strings.Contains(name, "/") {
		return name, nil // the exec itself says what is wrong with it
	}
	if name == "" {
		return "", startError("exec", unix.ENOENT)
	}
	dirs := defaultPath
	for _, kv := range cmd.Env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			dirs = v
		}
	}
	var found error = unix.ENOENT
	for _, dir := range strings.Split(dirs, ":") {
		if dir == "" {
			dir = "."
		}
		if !strings.HasPrefix(dir, "/") {
			dir = cmd.Dir + "/" + dir
		}
		p := dir + "/" + name
		var st unix.Stat_t
		if unix.Stat(p, &st) != nil || st.Mode&unix.S_IFMT == unix.S_IFDIR {
			continue
		}
		if err := unix.Access(p, unix.X_OK); err != nil {
			found = unix.EACCES // like a shell: one that may not be executed is found, if no other is
			continue
		}
		return p, nil
	}
	return "", startError("exec", found)
}

func startError(step string, err error) *guest.StartError {
	e := &guest.StartError{Step: step, Text: err.Error()}
	var no syscall.Errno
	if errors.As(err, &no) {
		e.Errno = int(no)
	}
	return e
}

// fork starts the program from the calling thread and returns at once;
// started then waits for its exec.
func fork(path string, argv []string, cmd *guest.Command, files []int, how linux.Child) (*linux.Started, error) {
	how.Path, how.Argv, how.Env, how.Dir, how.Files = path, argv, cmd.Env, cmd.Dir, files
	s, err := how.Fork()
	if err != nil {
		return nil, startError("exec", err)
	}
	return s, nil
}

// limits are the command's, set before the program's first instruction.
func limits(cmd *guest.Command) []linux.Limit {
	var list []linux.Limit
	for _, l := range []struct {
		resource int
		value    uint64
	}{
		{unix.RLIMIT_NPROC, cmd.Processes},
		{unix.RLIMIT_DATA, cmd.DataSize},
		{unix.RLIMIT_FSIZE, cmd.FileSize},
		{unix.RLIMIT_NOFILE, cmd.OpenFiles},
	} {
		var own unix.Rlimit
		if l.value > 0 && unix.Getrlimit(l.resource, &own) == nil {
			v := min(l.value, own.Max) // the caller's own hard limit may be lower, and cannot be raised
			list = append(list, linux.Limit{Resource: l.resource, Soft: v, Hard: v})
		}
	}
	if cmd.OpenFiles > 0 {
		return list
	}
	// Go raised the soft limit to the hard one at its start. Programs get what
	// most systems give them: select(2) cannot take more descriptors.
	var rl unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &rl) == nil {
		list = append(list, linux.Limit{Resource: unix.RLIMIT_NOFILE, Soft: min(rl.Max, selectable), Hard: rl.Max})
	}
	return list
}

// selectable is FD_SETSIZE of every Linux libc.
const selectable = 1024

// launch starts a program with the given descriptors and the command's limits.
func (a *Agent) launch(cmd *guest.Command, shim bool, files []int, exited func(guest.Exit)) (int, error) {
	if len(cmd.Argv) == 0 {
		return 0, startError("exec", unix.EINVAL)
	}
	path, argv := shimPath, append([]string{"caisson-guest", "tty"}, cmd.Argv...)
	if !shim {
		var err error
		a.stem.Do(func() { path, err = lookup(cmd) })
		if err != nil {
			return 0, err
		}
		argv = cmd.Argv
	}
	how := linux.Child{Setsid: true, Terminal: shim, Limits: limits(cmd)}
	pid, err := a.exec(path, argv, cmd, files, how, exited)
	if !shim && errors.Is(err, unix.ENOEXEC) {
		// A script without "#!": execvp gives it to the shell.
		return a.exec("/bin/sh", append([]string{"sh", path}, cmd.Argv[1:]...), cmd, files, how, exited)
	}
	return pid, err
}

// exec forks on the stem and waits for the exec here: a program that stalls its
// own exec holds up its caller and nobody else.
func (a *Agent) exec(path string, argv []string, cmd *guest.Command, files []int, how linux.Child, exited func(guest.Exit)) (int, error) {
	var s *linux.Started
	// Until the exec has succeeded the end of the child is a failed start, and not the
	// program's.
	ran := make(chan bool, 1)
	pid, err := a.reaper.start(func() (pid int, err error) {
		a.stem.Do(func() { s, err = fork(path, argv, cmd, files, how) })
		if err != nil {
			return 0, err
		}
		return s.PID, nil
	}, func(e guest.Exit) {
		go func() {
			if <-ran {
				exited(e)
			}
		}()
	})
	if err != nil {
		return 0, err
	}
	if err := s.Executed(); err != nil {
		ran <- false
		var child *linux.ChildError
		if errors.As(err, &child) {
			return 0, startError(child.Step, err)
		}
		return 0, startError("exec", err)
	}
	ran <- true
	return pid, nil
}

// pipes makes the ends of a program's standard streams, and ours.
func pipes() (theirs, ours [3]*os.File, err error) {
	for i := range 3 {
		var p [2]int
		if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
			closeAll(theirs[:])
			closeAll(ours[:])
			return theirs, ours, startError("pipe", err)
		}
		mine, his := p[0], p[1]
		if i == 0 {
			mine, his = p[1], p[0]
		}
		theirs[i] = os.NewFile(uintptr(his), "pipe")
		if ours[i], err = pollable(mine, "pipe"); err != nil {
			closeAll(theirs[:])
			closeAll(ours[:])
			return theirs, ours, startError("pipe", err)
		}
	}
	return theirs, ours, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}
