//go:build linux

// Package keeper is the process that owns a sandbox: `caisson run` in the
// foreground. It creates the box, gives the command its standard streams and
// its signals, and ends the box when the command ends; if the keeper dies, the
// box dies with it.
package keeper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caisson-dev/caisson/api"
	"github.com/caisson-dev/caisson/internal/driver"
	"github.com/caisson-dev/caisson/internal/guest"
	"github.com/caisson-dev/caisson/internal/policy"
	"github.com/caisson-dev/caisson/internal/sandbox"
	"github.com/caisson-dev/caisson/internal/store"
)

// Options say what to run and with what.
type Options struct {
	// Resolve gives the plan. It is called once, while the first of Drivers begins.
	Resolve func() (*policy.Plan, error)
	Drivers []driver.Driver
	Store   *store.Store
	Name    string // optional
	Keep    bool   // the record and its events stay
	Report  string // file for events as JSON lines; "" for none
	Stdin   *os.File
	Stdout  *os.File
	Stderr  *os.File
	Warn    func(line string) // one line for the person

	plan *policy.Plan
}

// startTime is how long a command may take to be started. A healthy start is
// some ms; a program that holds up its own exec is ended instead of waited for.
const startTime = 30 * time.Second

// Run runs the plan's command in a sandbox of its own and returns its exit code:
// the command's, 128+N for a signal, or one of api's codes with an error that
// says why. When it returns, nothing of the box is left.
func Run(ctx context.Context, o Options) (int, error) {
	report, err := openReport(o.Report)
	if err != nil {
		return api.ExitFailed, err
	}
	s, err := create(ctx, &o, report.event)
	if err != nil {
		return api.ExitFailed, err
	}
	swept := make(chan struct{})
	go func() { sandbox.SweepSometimes(ctx, o.Store); close(swept) }()
	k := &keeper{o: o, s: s}
	code, err := k.run(ctx)
	code, err = k.judge(code, err)
	reason := fmt.Sprintf("exit %d", code)
	if err != nil {
		reason = err.Error()
	}
	if e := s.End(o.Keep, reason); e != nil {
		err = errors.Join(err, e)
		code = api.ExitFailed
	}
	k.finish()
	<-swept
	return code, errors.Join(err, report.close())
}

// create makes the box. What needs no plan is begun before there is one: the
// start of two processes takes as long as the resolution of the policy.
func create(ctx context.Context, o *Options, observe func(api.Event)) (*sandbox.Sandbox, error) {
	begun, err := sandbox.Begin(o.Store, o.Drivers[0], o.Name)
	if err != nil {
		return nil, err
	}
	if o.plan, err = o.Resolve(); err != nil {
		return nil, errors.Join(err, begun.Abandon())
	}
	if o.plan.Tier != o.Drivers[0].Tier() {
		i := slices.IndexFunc(o.Drivers, func(d driver.Driver) bool { return d.Tier() == o.plan.Tier })
		if err := begun.Abandon(); err != nil || i < 0 {
			return nil, errors.Join(fmt.Errorf("no driver for tier %q", o.plan.Tier), err)
		}
		if begun, err = sandbox.Begin(o.Store, o.Drivers[i], o.Name); err != nil {
			return nil, err
		}
	}
	return begun.Create(ctx, o.plan, observe)
}

type keeper struct {
	o    Options
	s    *sandbox.Sandbox
	io   streams
	proc *guest.Process
}

// run starts the command and waits for its end.
func (k *keeper) run(ctx context.Context) (int, error) {
	cmd := k.s.Command()
	io, err := prepare(&k.o, &cmd)
	if err != nil {
		return api.ExitFailed, err
	}
	k.io = io // nil, for the end to see, where there is none
	signals := catch()
	defer signals.stop()
	startCtx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	// The start travels behind the set-up: no waiting in between.
	k.proc, err = k.s.Client.Start(startCtx, cmd)
	k.io.started()
	if ready := k.s.Ready(startCtx); ready != nil {
		return k.ending(ready)
	}
	var refused *guest.StartError
	switch {
	case err == nil:
	case errors.As(err, &refused), startCtx.Err() != nil:
		return startFailure(&k.o, err)
	default: // the box ended meanwhile: of its wall time, say
		return k.ending(err)
	}
	if err := k.s.Record(api.Event{Kind: api.EventStarted, Data: map[string]string{
		"pid": fmt.Sprint(k.proc.PID),
	}}); err != nil {
		return api.ExitFailed, err
	}
	if err := k.io.relay(k.proc); err != nil {
		return api.ExitFailed, err
	}
	exit, err := k.wait(ctx, signals)
	if err != nil {
		return k.ending(err)
	}
	code := exit.Code
	data := map[string]string{"code": fmt.Sprint(exit.Code)}
	if exit.Signal != 0 {
		code = 128 + exit.Signal
		data = map[string]string{"signal": fmt.Sprint(exit.Signal)}
	}
	return code, k.s.Record(api.Event{Kind: api.EventExited, Data: data})
}

// wait passes signals on until the command has ended.
func (k *keeper) wait(ctx context.Context, signals *signals) (guest.Exit, error) {
	type result struct {
		exit guest.Exit
		err  error
	}
	done := make(chan result, 1)
	go func() {
		exit, err := k.proc.Wait(ctx)
		done <- result{exit, err}
	}()
	for {
		select {
		case r := <-done:
			return r.exit, r.err
		case <-k.io.overflow():
			return guest.Exit{}, errOutput
		case sig := <-signals.c:
			k.signal(sig)
		case <-k.proc.Stopped():
			k.suspend(true)
		}
	}
}

// finish moves what the box had written, and gives back what it had not read.
func (k *keeper) finish() {
	if k.io != nil {
		k.io.finish()
	}
}

// startFailure tells why the command could not be executed, in a shell's codes.
func startFailure(o *Options, err error) (int, error) {
	var se *guest.StartError
	if !errors.As(err, &se) {
		return api.ExitFailed, fmt.Errorf("start command: %w", err)
	}
	name := o.plan.Argv[0]
	no := syscall.Errno(se.Errno)
	switch {
	case se.Step == "chdir":
		return api.ExitFailed, &api.Error{
			Code: api.CodeWorkspace, Message: fmt.Sprintf("the working directory %s cannot be entered inside: %v", o.plan.Dir, no),
			Hint: "start from within the workspace, or grant the folder with --read",
		}
	case se.Step != "exec":
		return api.ExitFailed, fmt.Errorf("start command: %w", err)
	case no == syscall.ENOENT || no == syscall.ENOTDIR:
		return api.ExitNotFound, &api.Error{
			Code: api.CodeNoCommand, Message: fmt.Sprintf("%q was not found inside the sandbox", name),
			Hint: "it must lie in a folder of PATH that is visible inside: --dry-run shows them, --read PATH adds one",
		}
	}
	return api.ExitNotExecutable, &api.Error{
		Code: api.CodeNotExec, Message: fmt.Sprintf("%q cannot be executed inside the sandbox: %v", name, no),
		Hint: "check its permissions and its first line",
	}
}

// report writes events as JSON lines to the file that the user named.
type report struct {
	f   *os.File
	err error
}

func openReport(name string) (*report, error) {
	if name == "" {
		return &report{}, nil
	}
	flags := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	if abs, err := filepath.Abs(name); err != nil || !strings.HasPrefix(abs, "/dev/") && !strings.HasPrefix(abs, "/proc/") {
		// A box before may have laid a link or a FIFO there, in a workspace: the one
		// would truncate any file of the user's, the other wait for ever.
		flags |= unix.O_NOFOLLOW | unix.O_NONBLOCK
	}
	f, err := os.OpenFile(name, flags, 0o600)
	if errors.Is(err, unix.ELOOP) {
		return nil, &api.Error{
			Code: api.CodeUsage, Message: "open report: " + name + " is a symbolic link, which a sandbox may have made",
			Hint: "name the file that it leads to, or remove it",
		}
	}
	if err != nil {
		return nil, &api.Error{Code: api.CodeUsage, Message: "open report: " + err.Error(), Hint: "name a file in a folder that exists and that you may write"}
	}
	return &report{f: f}, nil
}

func (r *report) event(e api.Event) {
	if r.f == nil || r.err != nil {
		return
	}
	b, err := json.Marshal(e)
	if err == nil {
		_, err = r.f.Write(append(b, '\n'))
	}
	r.err = err
}

func (r *report) close() error {
	if r.f == nil {
		return nil
	}
	if err := errors.Join(r.err, r.f.Close()); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}
