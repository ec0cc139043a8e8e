package drivertest

import (
	"context"

	"github.com/caisson-dev/caisson/internal/policy"
)

// checkBegin: what was begun becomes a box, or leaves nothing.
func checkBegin(s *scene) {
	first := s.spec()
	begun := s.driver.Begin(first.ID, first.Dir)
	if begun == nil {
		return // this driver begins nothing
	}
	begun.Abandon()
	s.gone()

	spec := s.spec()
	spec.Begun = s.driver.Begin(spec.ID, spec.Dir)
	b, err := s.driver.Create(s.ctx(), spec)
	if err != nil {
		s.Fatalf("Create of what was begun: %v", err)
	}
	s.keep(b)
	if _, exit := s.run(s.dial(b, spec), s.o.Programs.Exit(4), ""); exit.Code != 4 {
		s.Errorf("a box that was begun: exit %+v", exit)
	}
	s.destroy(b)
	s.gone()

	refused := s.spec()
	refused.Begun = s.driver.Begin(refused.ID, refused.Dir)
	refused.Plan.Mounts = append(refused.Plan.Mounts, policy.Mount{Target: "/mnt"})
	s.refused("begun, with a mount of no kind", refused)
	s.gone()

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	late := s.spec()
	late.Begun = s.driver.Begin(late.ID, late.Dir)
	if b, err := s.driver.Create(ctx, late); err == nil {
		s.keep(b)
		s.Fatalf("begun, with a ctx that has ended: the box was made")
	}
	s.gone()
}
