//go:build linux

package store

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/caisson-dev/caisson/api"
)

func BenchmarkLife(b *testing.B) {
	for _, place := range []string{"/dev/shm", os.TempDir()} {
		b.Run(strings.ReplaceAll(place[1:], "/", "-"), func(b *testing.B) {
			dir, err := os.MkdirTemp(place, "caisson-store-")
			if err != nil {
				b.Skip(err)
			}
			defer os.RemoveAll(dir)
			s, err := Open(dir)
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			rec := api.Sandbox{Tier: api.TierProcess, Image: "host", Command: []string{"true"}, Points: make([]api.Point, 20)}
			for b.Loop() {
				if err := life(s, rec); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func life(s *Store, rec api.Sandbox) error {
	f, err := s.Create(rec)
	if err != nil {
		return err
	}
	return errors.Join(
		f.Append(api.Event{Kind: api.EventCreated, Data: map[string]string{"tier": "process"}}),
		f.Update(func(r *api.Sandbox) { r.State = api.StateRunning }),
		f.Append(api.Event{Kind: api.EventExited, Data: map[string]string{"code": "0"}}),
		f.Remove())
}

func BenchmarkList100(b *testing.B) {
	s := open(b)
	for i := range 100 {
		create(b, s, api.Sandbox{Name: fmt.Sprintf("n%d", i), Points: make([]api.Point, 20)})
	}
	for b.Loop() {
		if _, err := s.List(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSweep100(b *testing.B) {
	s := open(b)
	for range 100 {
		create(b, s, api.Sandbox{Points: make([]api.Point, 20)})
	}
	for b.Loop() {
		if err := s.Sweep(b.Context(), func(e Entry) error { return fmt.Errorf("%s is alive", e.ID) }); err != nil {
			b.Fatal(err)
		}
	}
}
