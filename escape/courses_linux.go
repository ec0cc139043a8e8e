package escape

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// courses are the ways in which a trial can run. The observer looks at the
// end, unless the course has it look while a box lives.
func courses() map[string]func(*trial) error {
	return map[string]func(*trial) error{
		"run":     runToEnd,
		"hold":    runHeld,
		"pair":    runPair,
		"trace":   runTraced,
		"elastic": runElastic,
		"pty":     runTerminal,
		"after":   runAfter,
		"kill":    runKilled,
		"storm":   runStorm,
		"residue": runResidue,
		"sigkill": runSigkillResidue,
	}
}

// runToEnd runs the box to its end; what is to happen on the host meanwhile
// happens once the program has started.
func runToEnd(t *trial) error {
	b, err := t.start(t.p.Action, false, false)
	if err != nil {
		return err
	}
	if t.onStart != nil && b.await(lineStart, boxTime) {
		if err := t.onStart(); err != nil {
			return err
		}
	}
	return b.finish()
}

// runHeld has the observer look while the program stays after its action.
func runHeld(t *trial) error {
	b, err := t.start(t.p.Action, true, false)
	if err != nil {
		return err
	}
	if t.onStart != nil && b.await(lineStart, boxTime) {
		if err := t.onStart(); err != nil {
			return err
		}
	}
	if b.ready() {
		t.during = t.observe()
	} else if t.during = t.observe(); !t.during.breached {
		t.during.evidence = "the program ended before it was looked at; " + t.during.evidence
	}
	return b.finish()
}

// runPair runs two boxes at once, the second against the first. They have a
// workspace each.
func runPair(t *trial) error {
	first, second, _ := strings.Cut(t.p.Action, " | ")
	negative := t.negative
	t.negative = false // what the first offers stays; the second's action is taken out
	a, err := t.start(first, true, false)
	t.negative = negative
	if err != nil {
		return err
	}
	if !a.ready() {
		_ = a.finish()
		return nil
	}
	t.firstWS, t.firstPID = t.ws, a.pid
	if err := t.prepare(); err != nil {
		return err
	}
	shared := t.facts["share"]
	delete(t.facts, "share") // the second box never has it
	defer func() { t.facts["share"] = shared }()
	b, err := t.start(second, false, false)
	if err != nil {
		return err
	}
	if err := b.finish(); err != nil {
		return err
	}
	a.out.mu.Lock()
	a.out.buf.Reset() // only what the second box shows counts
	a.out.buf.WriteString(lineStart + a.token)
	a.out.mu.Unlock()
	t.during = t.observe()
	return a.finish()
}

// runTraced runs the box with its system calls recorded.
func runTraced(t *trial) error {
	b, err := t.start(t.p.Action, false, true)
	if err != nil {
		return err
	}
	defer b.trace.close()
	if err := b.finish(); err != nil {
		return err
	}
	calls, lost := b.trace.calls()
	if lost > 0 {
		return fmt.Errorf("trace of system calls: %d records lost", lost)
	}
	t.calls = calls
	return nil
}

// runElastic counts the distinct calls of an ordinary and of a hostile program.
func runElastic(t *trial) error {
	var sets [2]map[int64]bool
	for i, action := range []string{"benign", t.p.Action} {
		b, err := t.start(action, false, true)
		if err != nil {
			return err
		}
		err = b.finish()
		calls, lost := b.trace.calls()
		b.trace.close()
		if err != nil {
			return err
		}
		if lost > 0 {
			return fmt.Errorf("trace of system calls: %d records lost", lost)
		}
		sets[i] = distinct(calls)
	}
	extra := 0
	for nr := range sets[1] {
		if !sets[0][nr] {
			extra++
		}
	}
	t.during = outcome{
		breached: extra > elasticBudget,
		evidence: fmt.Sprintf("%d distinct calls for the ordinary program, %d more for the hostile one (budget %d)", len(sets[0]), extra, elasticBudget),
	}
	return nil
}

// elasticBudget is how many further system calls a hostile program may add in
// the process tier.
const elasticBudget = 12

// runTerminal runs the box in the foreground of a terminal whose outer side is
// the lab's, and keeps what was typed into the terminal meanwhile.
func runTerminal(t *trial) error {
	master, slave, err := openTerminal()
	if err != nil {
		return err
	}
	defer slave.Close()
	_ = t.l.give(slave.Name())
	typedR, typedW, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make pipe: %w", err)
	}
	t.typed = newCapture(typedR)
	err = t.startOnTerminal(master, slave, typedW)
	_ = typedW.Close()
	if err != nil {
		return err
	}
	b := t.boxes[len(t.boxes)-1]
	if !b.ready() {
		_ = unix.Kill(b.pid, unix.SIGKILL)
	}
	if _, ended := t.l.procs.wait(b.pid, boxTime); !ended {
		return fmt.Errorf("the box did not end in %v", boxTime)
	}
	select {
	case <-t.typed.done:
	case <-time.After(time.Second):
	}
	return nil
}

// runAfter has the observer look after the end of the box, at what is left
// of it.
func runAfter(t *trial) error {
	b, err := t.start(t.p.Action, false, false)
	if err != nil {
		return err
	}
	if t.grant.wall > 0 {
		b.await(lineReady, boxTime)
		time.Sleep(t.grant.wall + 2*time.Second)
		t.during = t.observe()
		_ = unix.Kill(b.pid, unix.SIGKILL)
	}
	if err := b.finish(); err != nil {
		return err
	}
	if t.grant.wall == 0 {
		time.Sleep(time.Second)
	}
	return nil
}

// runKilled kills the launcher while the box runs.
func runKilled(t *trial) error {
	b, err := t.start(t.p.Action, true, false)
	if err != nil {
		return err
	}
	if !b.ready() {
		return b.finish()
	}
	_ = unix.Kill(b.pid, unix.SIGKILL)
	t.l.procs.wait(b.pid, boxTime)
	time.Sleep(time.Second)
	t.during = t.observe()
	b.release()
	return nil
}

// runStorm stops the box while it starts programs as fast as it can, and
// measures until the last is gone.
func runStorm(t *trial) error {
	b, err := t.start(t.p.Action, true, false)
	if err != nil {
		return err
	}
	if t.negative {
		return b.finish()
	}
	if !b.ready() {
		return b.finish()
	}
	time.Sleep(200 * time.Millisecond)
	most := len(t.probeTasks())
	begin := time.Now()
	_ = unix.Kill(b.pid, unix.SIGTERM)
	for time.Since(begin) < 2*time.Second && len(t.probeTasks()) > 0 {
		if time.Since(begin) > 500*time.Millisecond {
			_ = unix.Kill(b.pid, unix.SIGKILL)
		}
		time.Sleep(5 * time.Millisecond)
	}
	left := len(t.probeTasks())
	t.during = outcome{breached: left > 0, evidence: fmt.Sprintf("%d programs ran, %d were left %v after the stop", most, left, time.Since(begin).Round(time.Millisecond))}
	b.release()
	return nil
}

// runResidue compares the lab before the box and after it. A first box comes
// before the comparison: a product may keep a folder for its records, but
// nothing of a box.
func runResidue(t *trial) error { return t.compareAround(func(b *box) error { return b.finish() }) }

// runSigkillResidue does so after a kill of the launcher.
func runSigkillResidue(t *trial) error {
	return t.compareAround(func(b *box) error {
		_ = unix.Kill(b.pid, unix.SIGKILL)
		if _, ended := t.l.procs.wait(b.pid, boxTime); !ended {
			return fmt.Errorf("the launcher did not die in %v", boxTime)
		}
		b.release()
		return nil
	})
}

func (t *trial) compareAround(end func(*box) error) error {
	wrap := t.wrap
	t.wrap = ""
	first, err := t.start("noop", false, false)
	if err != nil {
		return err
	}
	if err := first.finish(); err != nil {
		return err
	}
	t.wrap = wrap
	before := takeHost(nil, "")
	b, err := t.start(t.p.Action, true, false)
	if err != nil {
		return err
	}
	if !b.ready() {
		return b.finish()
	}
	groups := foreignGroups(t.probeTasks())
	if err := end(b); err != nil {
		return err
	}
	t.residue(before, groups)
	return nil
}

// residue waits until nothing is left, two seconds at the most. Control groups
// are the whole machine's, and others make them too: those count that the box
// was in.
func (t *trial) residue(before hostState, groups []string) {
	var left []string
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		left = slices.DeleteFunc(before.diff(takeHost(nil, ""), t.ws), func(s string) bool { return strings.Contains(s, " cgroup ") })
		for _, g := range groups {
			if _, err := os.Stat(g); err == nil {
				left = append(left, "+ cgroup "+g)
			}
		}
		if len(left) == 0 {
			break
		}
	}
	t.during = outcome{breached: len(left) > 0, evidence: fmt.Sprintf("left on the host: %q", left)}
}
