package drivertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caisson-dev/caisson/api"
	"github.com/caisson-dev/caisson/internal/driver"
	"github.com/caisson-dev/caisson/internal/guest"
	"github.com/caisson-dev/caisson/internal/policy"
)

// checkProbe: what a quick look says is what a full one finds, which may tell
// more.
func checkProbe(s *scene) {
	quick := s.driver.Probe(s.ctx(), driver.ProbeQuick)
	full := s.driver.Probe(s.ctx(), driver.ProbeFull)
	for _, p := range []api.Probe{quick, full} {
		if p.Tier != s.driver.Tier() {
			s.Errorf("a probe of tier %q by the driver of %q", p.Tier, s.driver.Tier())
		}
		usable := len(p.Features) > 0
		seen := map[string]bool{}
		for _, f := range p.Features {
			if f.Name == "" || seen[f.Name] {
				s.Errorf("the feature %q is without name, or twice", f.Name)
			}
			seen[f.Name] = true
			if f.Strength != api.StrengthHard && f.Reason == "" {
				s.Errorf("%s is %s, and no reason is given", f.Name, f.Strength)
			}
			if f.Required && f.Strength == api.StrengthNone {
				usable = false
				if f.Fix == "" {
					s.Errorf("%s is required and missing, and no fix is given", f.Name)
				}
			}
		}
		if p.Usable != usable {
			s.Errorf("usable is %v, by the features it is %v", p.Usable, usable)
		}
	}
	if quick.Usable != full.Usable {
		s.Errorf("usable is %v at a quick look, %v at a full one: %+v", quick.Usable, full.Usable, full.Features)
	}
	for _, q := range quick.Features {
		if f := full.Feature(q.Name); q.Strength != f.Strength || q.Required != f.Required {
			s.Errorf("a quick probe says %+v, a full one %+v", q, f)
		}
	}
	if !full.Usable {
		s.Errorf("the tier is not usable here: %+v", full.Features)
	}
}

func checkCreate(s *scene) {
	if s.driver.Tier() == "" || s.driver.Tier() == api.TierAuto {
		s.Errorf("%q is no tier", s.driver.Tier())
	}
	b, spec := s.create()
	if g := b.Generation(); g != 1 {
		s.Errorf("a new box has generation %d", g)
	}
	if b.Stream().ReadWriteCloser != b.Stream().ReadWriteCloser {
		s.Errorf("a generation has more than one stream")
	}
	switch pid := b.PID(); {
	case s.caps.Remote && pid != 0:
		s.Errorf("a box elsewhere has PID %d here", pid)
	case pid != 0:
		if err := syscall.Kill(pid, 0); err != nil {
			s.Errorf("PID %d: %v", pid, err)
		}
	}
	entries, err := os.ReadDir(spec.Dir)
	if err != nil {
		s.Errorf("read the box's folder: %v", err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "driver-") {
			s.Errorf("the driver made %s in the box's folder: its names begin with driver-", e.Name())
		}
	}
	c := s.dial(b, spec)
	if h := c.Hello(); h.Sandbox != spec.ID || h.Version != guest.Version || h.PID != 1 {
		s.Errorf("the guest says %+v", h)
	}
	s.destroy(b)
	s.gone()
	select {
	case <-c.Done():
	case <-time.After(s.o.Within):
		s.Errorf("the box is gone, and its stream has no end")
	}
}

// checkRefusedCreate: what cannot be realised is an error, and nothing is left.
func checkRefusedCreate(s *scene) {
	spoil := map[string]func(testing.TB, *driver.Spec){
		"a mount of no kind": func(_ testing.TB, spec *driver.Spec) {
			spec.Plan.Mounts = append(spec.Plan.Mounts, policy.Mount{Target: "/mnt"})
		},
		"a bind mount of nothing": func(_ testing.TB, spec *driver.Spec) {
			spec.Plan.Mounts = append(spec.Plan.Mounts, policy.Mount{Kind: policy.MountBind, Source: "/no/such/folder", Target: "/mnt"})
		},
	}
	for name, f := range s.o.Spoil {
		spoil[name] = f
	}
	for name, f := range spoil {
		spec := s.spec()
		f(s.TB, &spec)
		s.refused(name, spec)
		s.gone()
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if b, err := s.driver.Create(ctx, s.spec()); err == nil {
		s.keep(b)
		s.Fatalf("a ctx that has ended: the box was made")
	}
	s.gone()
	s.destroy(firstOf(s.create())) // the control: as it is, it works
}

// refused checks that a spec is refused: by Create, or by the guest, whose box
// has then ended.
func (s *scene) refused(name string, spec driver.Spec) {
	s.Helper()
	b, err := s.driver.Create(s.ctx(), spec)
	if err != nil {
		return
	}
	s.keep(b)
	c, err := guest.Dial(s.ctx(), b.Stream())
	if err == nil {
		_ = c.Close()
	}
	if refusal := (*guest.SetupError)(nil); !errors.As(err, &refusal) || refusal.Hello.Step == "" {
		s.Fatalf("%s: the box was made, and its guest says %v", name, err)
	}
	if exit, err := b.Wait(s.in(s.o.Within)); err != nil || exit.Destroyed {
		s.Errorf("%s: the guest has failed, and its box is there: %+v, %v", name, exit, err)
	}
	if err := b.Destroy(s.in(s.o.Within)); err != nil {
		s.Errorf("%s: Destroy: %v", name, err)
	}
}

func firstOf(b driver.Box, _ driver.Spec) driver.Box { return b }

// checkAbandonedCreate gives Create less and less time. It makes a whole box or
// nothing.
func checkAbandonedCreate(s *scene) {
	begin := time.Now()
	s.destroy(firstOf(s.create()))
	took := time.Since(begin)
	for i := range 8 {
		ctx, cancel := context.WithTimeout(context.Background(), took*time.Duration(8-i)/8)
		b, err := s.driver.Create(ctx, s.spec())
		cancel()
		if err == nil {
			s.keep(b)
			s.destroy(b)
		}
		s.gone()
	}
}

func checkStats(s *scene) {
	b, spec := s.create()
	c := s.dial(b, spec)
	s.start(c, s.o.Programs.Sleep)
	st, err := b.Stats(s.ctx())
	if err != nil {
		s.Fatalf("Stats: %v", err)
	}
	if st.CPU < 0 || st.Memory < 0 || st.Processes < 0 || st.Disk < 0 {
		s.Errorf("Stats: %+v", st)
	}
	s.destroy(b)
	if _, err := b.Stats(s.ctx()); err == nil {
		s.Errorf("Stats of a box that is gone")
	}
}

// checkWait: many wait, each is told the same, and none before the end.
func checkWait(s *scene) {
	b, _ := s.create()
	type result struct {
		exit driver.Exit
		err  error
	}
	results := make(chan result, 8)
	for range cap(results) {
		go func() {
			exit, err := b.Wait(s.ctx())
			results <- result{exit, err}
		}()
	}
	if _, err := b.Wait(s.in(s.o.Moment)); !errors.Is(err, context.DeadlineExceeded) {
		s.Errorf("Wait with a ctx that ends: %v", err)
	}
	select {
	case r := <-results:
		s.Fatalf("Wait returned while the box lives: %+v", r)
	default:
	}
	s.destroy(b)
	deadline := time.After(s.o.Within)
	for range cap(results) {
		select {
		case r := <-results:
			if r.err != nil || !r.exit.Destroyed {
				s.Errorf("Wait: %+v", r)
			}
		case <-deadline:
			s.Fatalf("the box is gone, and not all who wait are told")
		}
	}
}

// checkEnd: a box whose first process dies has ended, and says why.
func checkEnd(s *scene) {
	b, spec := s.create()
	c := s.dial(b, spec)
	switch {
	case b.PID() != 0:
		if err := syscall.Kill(b.PID(), syscall.SIGKILL); err != nil {
			s.Fatalf("kill PID %d: %v", b.PID(), err)
		}
	case s.o.Programs.End != nil:
		if _, err := c.Start(s.ctx(), s.command(s.o.Programs.End)); err != nil && c.Err() == nil {
			s.Fatalf("start the program that ends the box: %v", err)
		}
	default:
		s.Skipf("the box has no PID here and no program that ends it")
	}
	exit, err := b.Wait(s.in(s.o.Within))
	if err != nil || exit.Destroyed || exit.Reason == "" {
		s.Errorf("Wait for a box that died: %+v, %v", exit, err)
	}
	select {
	case <-c.Done():
	case <-time.After(s.o.Within):
		s.Errorf("the box died, and its stream has no end")
	}
	if err := b.Destroy(s.in(s.o.Within)); err != nil {
		s.Errorf("Destroy of a box that died: %v", err)
	}
	again, err := b.Wait(s.ctx())
	if err != nil || !reflect.DeepEqual(again, exit) {
		s.Errorf("Wait after that: %+v, %v, before it was %+v", again, err, exit)
	}
	s.gone()
}

// checkMany: boxes of two drivers side by side never meet.
func checkMany(s *scene) {
	drivers := []driver.Driver{s.driver, s.other}
	specs := make([]driver.Spec, s.o.Boxes)
	for i := range specs {
		specs[i] = s.spec()
	}
	errs := make(chan error, len(specs))
	for i, spec := range specs {
		go func() { errs <- s.live(drivers[i%2], spec, i) }()
	}
	for range specs {
		if err := <-errs; err != nil {
			s.Errorf("%v", err)
		}
	}
	s.gone()
}

// live is the whole life of one box of many.
func (s *scene) live(d driver.Driver, spec driver.Spec, i int) error {
	b, err := d.Create(s.ctx(), spec)
	if err != nil {
		return fmt.Errorf("create box %d: %w", i, err)
	}
	s.keep(b)
	c, err := guest.Dial(s.ctx(), b.Stream())
	if err != nil {
		return fmt.Errorf("dial box %d: %w", i, err)
	}
	defer c.Close()
	if h := c.Hello(); h.Sandbox != spec.ID {
		return fmt.Errorf("box %d is %s, its guest says %s", i, spec.ID, h.Sandbox)
	}
	p, err := c.Start(s.ctx(), s.command(s.o.Programs.Exit(i)))
	if err != nil {
		return fmt.Errorf("start in box %d: %w", i, err)
	}
	if exit, err := p.Wait(s.ctx()); err != nil || exit.Code != i {
		return fmt.Errorf("box %d: exit %+v, %w", i, exit, err)
	}
	if err := b.Destroy(s.ctx()); err != nil {
		return fmt.Errorf("destroy box %d: %w", i, err)
	}
	return nil
}
