//go:build linux

package store

import (
	"errors"
	"os/exec"
	"testing"

	"github.com/caisson-dev/caisson/api"
)

// What a keeper starts must not keep its lock when it is gone.
func TestLockIsNotInherited(t *testing.T) {
	s := open(t)
	f := create(t, s, api.Sandbox{})
	cmd := exec.Command("sleep", "100")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	if _, err := s.Acquire(f.ID()); !errors.Is(err, errLocked) { // the control
		t.Fatalf("beside a living keeper: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := s.Acquire(f.ID())
	if err != nil {
		t.Fatalf("the keeper is gone, its child lives: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

// Looking never takes the lock: whoever lists in a loop keeps nobody from
// acquiring.
func TestListingIsInNobodysWay(t *testing.T) {
	s := open(t)
	f := create(t, s, api.Sandbox{State: api.StateStopped})
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				_, _ = s.List() // its errors are other tests'
			}
		}
	}()
	for range 300 {
		f, err := s.Acquire(f.ID())
		if err != nil {
			t.Fatalf("while somebody lists: %v", err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	<-stopped
}
