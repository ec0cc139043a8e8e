//go:build linux

package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/caisson-dev/caisson/api"
)

// StateDirs lists every folder in which StateDir may have put a user's
// sandboxes under one environment or another: a login with XDG_RUNTIME_DIR and a job
// without it have two. The first is StateDir's; none need be there.
func StateDirs(getenv func(string) string, uid int) ([]string, error) {
	dir, err := StateDir(getenv, uid)
	if err != nil {
		return nil, err
	}
	dirs := []string{dir}
	for _, hide := range [][]string{{"CAISSON_STATE"}, {"CAISSON_STATE", "XDG_RUNTIME_DIR"}, {"CAISSON_STATE", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"}} {
		without := func(name string) string {
			if slices.Contains(hide, name) {
				return ""
			}
			return getenv(name)
		}
		if dir, err := StateDir(without, uid); err == nil && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs, nil
}

// Clear removes every sandbox, those that were kept too, and the state folder
// itself; destroy ends what is left of a box, as in Sweep. While a keeper lives nothing is
// removed. What is not of this package stays, and is an error. The store can then
// only be closed.
func (s *Store) Clear(ctx context.Context, destroy func(Entry) error) error {
	lock, err := s.lockCreation(true)
	if err != nil {
		return err
	}
	defer lock.Close() // and with it the lock, of a file that is gone
	names, err := s.names()
	if err != nil {
		return err
	}
	var alive []string
	for _, name := range names {
		if validName(name) && s.hasKeeper(name) {
			alive = append(alive, name)
		}
	}
	if len(alive) > 0 {
		return &api.Error{
			Code: api.CodeHost, Message: "sandboxes are running: " + strings.Join(alive, ", "),
			Hint: "end their commands first; caisson ls shows them",
		}
	}
	var errs []error
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return errors.Join(append(errs, err)...)
		}
		switch {
		case validName(name):
			errs = append(errs, s.clearOne(name, destroy))
		case strings.HasPrefix(name, ".gone-"), strings.HasPrefix(name, ".new-"):
			errs = append(errs, removeTree(number(s.boxes), name))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return s.removeState()
}

func (s *Store) clearOne(id string, destroy func(Entry) error) error {
	f, err := s.acquire(id)
	if err != nil {
		return err
	}
	defer f.Close()
	e := Entry{Dir: s.dirOf(id)}
	e.Sandbox, e.Err = readRecord(number(f.dir), id)
	if err := destroy(e); err != nil {
		return fmt.Errorf("clear sandbox %s: %w", id, err)
	}
	return f.Remove()
}

// removeState removes the empty folders. The name of the lock goes last but for
// them: whoever waits for it then finds no place to make a sandbox in.
func (s *Store) removeState() error {
	for _, e := range []struct {
		name  string
		flags int
	}{{"boxes", unix.AT_REMOVEDIR}, {"swept", 0}, {"create.lock", 0}} {
		if err := unlink(number(s.state), e.name, e.flags); err != nil {
			return s.foreign(err)
		}
	}
	if err := os.Remove(s.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return s.foreign(err)
	}
	return nil
}

// foreign names what else lies in the state folder.
func (s *Store) foreign(err error) error {
	if !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("remove state folder: %w", err)
	}
	var left []string
	for _, dir := range []string{s.path, filepath.Join(s.path, "boxes")} {
		entries, _ := os.ReadDir(dir) // one of them may be gone
		for _, e := range entries {
			if e.Name() != "boxes" && e.Name() != "swept" && e.Name() != "create.lock" {
				left = append(left, filepath.Join(dir, e.Name()))
			}
		}
	}
	return &api.Error{
		Code: api.CodeHost, Message: "not everything in " + s.path + " is Caisson's: " + strings.Join(left, ", ") + " stay",
		Hint: "remove them by hand",
	}
}
