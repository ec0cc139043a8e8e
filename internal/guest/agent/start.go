//go:build linux

package agent

import (
	"errors"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/caisson-dev/caisson/internal/guest"
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

// fork starts the program from the calling thread. With limits on the number of processes
// it comes back stopped at its exec, before its first instruction, and release lets it
// go.
func fork(path string, argv []string, cmd *guest.Command, files []uintptr, sys *syscall.SysProcAttr) (int, error) {
	attr := &syscall.ProcAttr{Dir: cmd.Dir, Env: cmd.Env, Files: files, Sys: sys}
	pid, err := syscall.ForkExec(path, argv, attr)
	if err == unix.ENOEXEC {
		// A script without "#!": execvp gives it to the shell.
		sh := append([]string{"sh", path}, argv[1:]...)
		pid, err = syscall.ForkExec("/bin/sh", sh, attr)
	}
	if err != nil {
		return 0, startError("exec", err)
	}
	return pid, nil
}

// launch starts a program with the given descriptors and the command's limits.
func (a *Agent) launch(cmd *guest.Command, shim bool, files []uintptr, exited func(guest.Exit)) (int, error) {
	if len(cmd.Argv) == 0 {
		return 0, startError("exec", unix.EINVAL)
	}
	limited := cmd.Processes > 0 || cmd.DataSize > 0 || cmd.FileSize > 0 || cmd.OpenFiles > 0
	sys := &syscall.SysProcAttr{Setsid: true, Ptrace: limited, Setctty: shim}
	pid, c, err := a.reaper.start(func() (pid int, err error) {
		a.stem.Do(func() {
			if err = unix.Access(cmd.Dir, unix.X_OK); err != nil {
				err = startError("chdir", err)
				return
			}
			path, argv := "", cmd.Argv
			if shim {
				path, argv = shimPath, append([]string{"caisson-guest", "tty"}, cmd.Argv...)
			} else if path, err = lookup(cmd); err != nil {
				return
			}
			pid, err = fork(path, argv, cmd, files, sys)
		})
		return pid, err
	}, exited)
	if err != nil || !limited {
		return pid, err
	}
	<-c.stopped
	err = limit(pid, cmd)
	a.stem.Do(func() {
		// Only the thread that forked it may let it go. ESRCH: it was killed meanwhile.
		if e := syscall.PtraceDetach(pid); err == nil && e != nil && e != unix.ESRCH {
			err = startError("detach", e)
		}
	})
	if err != nil {
		_ = unix.Kill(pid, unix.SIGKILL) // not yet reaped, or gone: in the box all pids are its own
		return 0, err
	}
	return pid, nil
}

// limit sets the limits of a program that has not run yet. They are set from
// outside its bounds: programs may not change another's.
func limit(pid int, cmd *guest.Command) error {
	for _, l := range []struct {
		resource int
		value    uint64
	}{
		{unix.RLIMIT_NPROC, cmd.Processes},
		{unix.RLIMIT_DATA, cmd.DataSize},
		{unix.RLIMIT_FSIZE, cmd.FileSize},
		{unix.RLIMIT_NOFILE, cmd.OpenFiles},
	} {
		if l.value == 0 {
			continue
		}
		err := unix.Prlimit(pid, l.resource, &unix.Rlimit{Cur: l.value, Max: l.value}, nil)
		if err != nil && err != unix.ESRCH {
			return startError("limit", err)
		}
	}
	return nil
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
