//go:build linux

package keeper

import (
	"bytes"
	"context"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// signals are those that the keeper passes on instead of dying of them.
type signals struct{ c chan os.Signal }

func catch() *signals {
	s := &signals{c: make(chan os.Signal, 16)}
	signal.Notify(s.c, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT,
		unix.SIGUSR1, unix.SIGUSR2, unix.SIGTSTP, unix.SIGWINCH)
	return s
}

// stop gives the signals back: from here on they end the keeper.
func (s *signals) stop() { signal.Stop(s.c) }

// signal passes one on. What a terminal would send to a whole foreground group
// goes to the program's group; the rest to the program alone, as kill(1) would.
func (k *keeper) signal(sig os.Signal) {
	switch sig {
	case unix.SIGWINCH:
		if t, ok := k.io.(*terminal); ok {
			t.resized()
		}
	case unix.SIGTSTP:
		k.suspend(false)
	default:
		group := sig == unix.SIGINT || sig == unix.SIGQUIT
		// The program may have ended; its exit is on the way.
		_ = k.proc.Signal(int(sig.(syscall.Signal)), group)
	}
}

// freezeTime bounds the freeze before a stop; a box that does not answer is
// left running rather than the person waiting.
const freezeTime = 2 * time.Second

// suspend stops the keeper as ^Z would stop the program: the box is frozen, its
// wall clock goes on. When somebody continues the keeper, all goes on.
func (k *keeper) suspend(byProgram bool) {
	if orphaned() {
		if byProgram {
			_ = k.proc.Continue() // as the kernel ignores ^Z there
		}
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), freezeTime)
	defer cancel()
	_ = k.s.Freeze(ctx) // also undone if it only went half way
	k.io.suspended()
	// SIGSTOP, since SIGTSTP is caught. The shell sees the whole job stopped.
	_ = unix.Kill(0, unix.SIGSTOP)
	k.io.resumed()
	ctx, cancel = context.WithTimeout(context.Background(), freezeTime)
	defer cancel()
	_ = k.s.Thaw(ctx)
	k.signal(unix.SIGWINCH) // the guest was frozen too, and could not be told before
	if byProgram {
		_ = k.proc.Continue()
	}
}

// orphaned reports whether nobody is there who could continue our process group:
// no job control above it, as under `ssh -t HOST caisson run`. A stop would be
// for ever, and any program inside can ask for one.
func orphaned() bool {
	session, err := unix.Getsid(0)
	if err != nil {
		return false
	}
	group := unix.Getpgrp()
	for _, parent := range [...]int{unix.Getppid(), parentOf(group)} {
		s, err := unix.Getsid(parent)
		if err != nil || parent == 0 || s != session {
			continue
		}
		if g, err := unix.Getpgid(parent); err == nil && g != group {
			return false
		}
	}
	return true
}

// parentOf is the parent of a process, 0 if there is no telling.
func parentOf(pid int) int {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	// The name may hold anything; state and parent follow it.
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(f) < 2 {
		return 0
	}
	parent, _ := strconv.Atoi(string(f[1]))
	return parent
}
