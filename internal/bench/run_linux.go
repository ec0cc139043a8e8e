package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// runner starts commands the same way for every peer: forked from here, no
// shell, stdin and stdout empty.
type runner struct {
	dir string
	who account
}

// deadline of one command: a box that hangs is a failure, not a sample.
const deadline = 30 * time.Second

var errHung = fmt.Errorf("it did not end within %v", deadline)

// measure runs argv to its end and returns what it needed. A command that does
// not exit with 0 is an error that quotes what it said; one that outlives ctx or the
// deadline is killed.
func (r runner) measure(ctx context.Context, argv []string) (s sample, err error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return sample{}, err
	}
	defer func() { err = errors.Join(err, null.Close()) }()
	said, stderr, err := os.Pipe()
	if err != nil {
		return sample{}, err
	}
	defer func() { err = errors.Join(err, said.Close()) }()

	attr := &syscall.ProcAttr{Dir: r.dir, Env: r.who.env, Files: []uintptr{null.Fd(), null.Fd(), stderr.Fd()}}
	pidfd := -1
	attr.Sys = r.who.attr()
	attr.Sys.PidFD = &pidfd
	runtime.GC() // a collection of ours must not fall into the measured span
	begin := time.Now()
	pid, err := syscall.ForkExec(argv[0], argv, attr)
	if err != nil {
		return sample{}, errors.Join(fmt.Errorf("start %s: %w", argv[0], err), stderr.Close())
	}
	defer func() { err = errors.Join(err, unix.Close(pidfd)) }()
	ctx, cancel := context.WithTimeoutCause(ctx, deadline, errHung)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0) }) // fails only if it has ended
	var status syscall.WaitStatus
	var usage syscall.Rusage
	for {
		_, err = syscall.Wait4(pid, &status, 0, &usage)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	s.wall = time.Since(begin)
	s.cpu = time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	if !stop() {
		err = errors.Join(err, context.Cause(ctx))
	}
	if err := errors.Join(err, stderr.Close()); err != nil {
		return sample{}, fmt.Errorf("wait for %s: %w", argv[0], err)
	}
	if !status.Exited() || status.ExitStatus() != 0 {
		return sample{}, fmt.Errorf("%s ended with %s", argv[0], describe(status, said))
	}
	return s, nil
}

// describe says how a command ended, with the first of what it wrote to stderr. A pipe
// holds 64 KiB, which no failing start fills.
func describe(status syscall.WaitStatus, said io.Reader) string {
	text, err := io.ReadAll(io.LimitReader(said, 2048))
	if err != nil {
		text = []byte(err.Error())
	}
	how := fmt.Sprintf("exit code %d", status.ExitStatus())
	if status.Signaled() {
		how = "signal " + status.Signal().String()
	}
	return how + ": " + string(bytes.TrimSpace(text))
}

func (a account) attr() *syscall.SysProcAttr {
	if !a.switched {
		return &syscall.SysProcAttr{}
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid), Groups: []uint32{}}}
}
