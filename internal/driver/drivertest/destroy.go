package drivertest

import (
	"context"
	"errors"
	"io"
	"sync"
	"syscall"
	"time"

	"github.com/caisson-dev/caisson/internal/driver"
	"github.com/caisson-dev/caisson/internal/guest"
)

func checkDestroyAgain(s *scene) {
	b, _ := s.create()
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() { s.destroy(b) })
	}
	all.Wait()
	s.destroy(b)
	s.gone()
}

// checkDestroyStubborn: nothing inside can hold the end up.
func checkDestroyStubborn(s *scene) {
	for name, hinder := range map[string]func(b driver.Box, c *guest.Client){
		"programs that ignore signals": func(_ driver.Box, c *guest.Client) {
			for range 3 {
				if up := s.line(s.start(c, s.o.Programs.Stubborn), s.o.Patience); up == "" {
					s.Fatalf("the stubborn program says nothing")
				}
			}
			s.start(c, s.o.Programs.Flood)
		},
		"a guest that is stopped": func(b driver.Box, _ *guest.Client) {
			if b.PID() != 0 {
				_ = syscall.Kill(b.PID(), syscall.SIGSTOP) // if it is gone, so much the better
			}
		},
		"a paused box": func(b driver.Box, c *guest.Client) {
			if !s.caps.Pause {
				return
			}
			s.start(c, s.o.Programs.Sleep)
			if err := b.Pause(s.ctx()); err != nil {
				s.Errorf("Pause: %v", err)
			}
		},
	} {
		b, spec := s.create()
		hinder(b, s.dial(b, spec))
		begin := time.Now()
		s.destroy(b)
		if took := time.Since(begin); took > s.o.Within {
			s.Errorf("%s: Destroy took %v", name, took)
		}
		s.gone()
	}
}

// checkDestroyUnused: of a box whose stream nobody has used nothing is left
// either, and whoever reads it then sees its end.
func checkDestroyUnused(s *scene) {
	b, _ := s.create()
	s.destroy(b)
	s.gone()
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, b.Stream())
		ended <- err
	}()
	select {
	case <-ended: // io.EOF is nil here; a closed stream is an error: an end too
	case <-time.After(s.o.Within):
		s.Errorf("the box is gone, and its stream has no end")
	}
}

func checkDestroyContext(s *scene) {
	b, _ := s.create()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := b.Destroy(ctx); err != nil && !errors.Is(err, context.Canceled) {
		s.Errorf("Destroy with a ctx that has ended: %v", err)
	}
	if exit, err := b.Wait(s.in(s.o.Within)); err != nil || !exit.Destroyed {
		s.Errorf("Destroy with a ctx that has ended does not kill: %+v, %v", exit, err)
	}
}

func checkAfterDestroy(s *scene) {
	b, _ := s.create()
	s.destroy(b)
	for name, err := range map[string]error{
		"Pause":      b.Pause(s.ctx()),
		"Resume":     b.Resume(s.ctx()),
		"Checkpoint": b.Checkpoint(s.ctx(), s.TempDir()),
	} {
		if err == nil {
			s.Errorf("%s of a box that is gone", name)
		}
	}
	if boxes, err := b.Fork(s.ctx(), []driver.Spec{s.spec()}); err == nil || len(boxes) > 0 {
		s.Errorf("Fork of a box that is gone: %d boxes", len(boxes))
	}
}
