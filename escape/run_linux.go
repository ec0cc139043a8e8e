package escape

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Run judges targets with probes, in a lab that is gone afterwards. The error
// says that the lab could not do its work; what a target let through is in the
// report. The lab dies with the calling process, however that ends.
func Run(ctx context.Context, o Options) (Report, error) {
	corpus, err := Corpus()
	if err != nil {
		return Report{}, err
	}
	ids, err := choose(corpus, o.Filter)
	if err != nil {
		return Report{}, err
	}
	if len(o.Targets) == 0 {
		o.Targets = []string{"bare"}
	}
	if o.Limit == 0 {
		o.Limit = 30 * time.Minute
	}
	if o.Lab == "" {
		o.Lab = o.Probe
	}
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return Report{}, fmt.Errorf("read kernel version: %w", err)
	}
	r := Report{
		Seed: o.Seed, Kernel: unix.ByteSliceToString(u.Release[:]), Root: os.Geteuid() == 0,
		Started: time.Now().UTC(), Targets: slices.Clone(o.Targets),
	}
	mine := labOnly(o.Probe, o.Lab, o.Caisson)
	before := takeHost(mine, "")
	err = onThread(func() error { return runLab(ctx, o, ids, &r, &before.lab) })
	r.Seconds = time.Since(r.Started).Seconds()
	r.Residue = settle(before)
	order := map[string]int{}
	for i, p := range corpus {
		order[p.ID] = i
	}
	slices.SortStableFunc(r.Results, func(a, b Result) int {
		if a.Target != b.Target {
			return slices.Index(o.Targets, a.Target) - slices.Index(o.Targets, b.Target)
		}
		return order[a.ID] - order[b.ID]
	})
	return r, err
}

// settle compares the host until it is as it was, for a second at the most:
// the kernel takes namespaces down in its own time.
func settle(before hostState) []string {
	var left []string
	for range 50 {
		if left = before.diff(takeHost(before.mine, before.lab)); len(left) == 0 {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return left
}

// runLab starts the lab and reads its verdicts. The calling thread is the
// lab's parent: with it dies the lab. The lab's pid namespace is told, so that
// what is left of it can be found.
func runLab(ctx context.Context, o Options, ids []string, r *Report, namespace *string) (bad error) {
	group, noGroup := "", ""
	if plantsGroup(ids) {
		g, err := newLabGroup(ctx, o.Lab)
		switch {
		case errors.Is(err, errNoGroup):
			noGroup = err.Error()
		case err != nil:
			return err
		default:
			group = g.path
			defer func() { bad = errors.Join(bad, g.close()) }()
		}
	}
	task, err := json.Marshal(spec{
		Targets: o.Targets, IDs: ids, Seed: o.Seed, Rounds: o.Rounds, Probe: o.Probe, Caisson: o.Caisson,
		Root: r.Root, Limit: o.Limit, Group: group, NoGroup: noGroup,
	})
	if err != nil {
		return fmt.Errorf("write the lab's task: %w", err)
	}
	cmd := exec.CommandContext(ctx, o.Lab, "lab")
	cmd.SysProcAttr = &unix.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		Pdeathsig:  unix.SIGKILL,
		Setpgid:    true, // a terminal's interrupt is the caller's to handle
	}
	if !r.Root {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	if o.Log != nil {
		cmd.Stderr = io.MultiWriter(&said, o.Log)
	}
	cmd.WaitDelay = 2 * time.Second
	stdin, err := cmd.StdinPipe() // stays open: its end tells the lab that this process is gone
	if err != nil {
		return fmt.Errorf("make pipe: %w", err)
	}
	verdicts, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make pipe: %w", err)
	}
	defer verdicts.Close()
	cmd.ExtraFiles = []*os.File{w}
	runtime.LockOSThread()
	err = cmd.Start()
	_ = w.Close()
	if err != nil {
		return fmt.Errorf("start the lab: %w", err)
	}
	*namespace = pidNamespace(cmd.Process.Pid)
	_, _ = stdin.Write(append(task, '\n')) // if it is gone, Wait says why
	dec := json.NewDecoder(verdicts)
	for {
		var v Result
		if err := dec.Decode(&v); err != nil {
			if !errors.Is(err, io.EOF) {
				bad = fmt.Errorf("read verdict: %w", err)
			}
			break
		}
		r.Results = append(r.Results, v)
		if o.Progress != nil {
			o.Progress(v)
		}
	}
	err = cmd.Wait()
	if err != nil {
		err = fmt.Errorf("the lab failed: %w: %s", err, bytes.TrimSpace(said.Bytes()))
	}
	return errors.Join(err, bad)
}
