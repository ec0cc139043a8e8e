//go:build linux

package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/caisson-dev/caisson/api"
)

// Entry is a sandbox as its folder shows it. If the folder is broken, Err says
// how, and of the sandbox only the ID is known.
type Entry struct {
	api.Sandbox
	Dir   string // its folder
	Alive bool   // a keeper holds the lock
	Err   error
}

// Kept reports whether the sandbox is there on purpose although it has no
// keeper: a box that is not to be kept is removed at its end, never "stopped".
func (e Entry) Kept() bool { return e.Err == nil && e.State == api.StateStopped }

// List returns every sandbox, the oldest first.
func (s *Store) List() ([]Entry, error) {
	names, err := s.names()
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, 0, len(names))
	for _, name := range names {
		if !validName(name) {
			continue // being made, being removed, or not ours
		}
		if e, ok := s.entry(name); ok {
			entries = append(entries, e)
		}
	}
	slices.SortFunc(entries, func(a, b Entry) int {
		if c := a.Created.Compare(b.Created); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return entries, nil
}

// names reads the folder of boxes anew: two readers do not share a position.
func (s *Store) names() ([]string, error) {
	dir, err := openDirAt(number(s.state), "boxes")
	if err != nil {
		return nil, fmt.Errorf("list sandboxes: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("list sandboxes: %w", err)
	}
	return names, nil
}

// entry looks at one folder; not ok is one that is gone by now.
func (s *Store) entry(id string) (e Entry, ok bool) {
	e = Entry{Sandbox: api.Sandbox{ID: id}, Dir: s.dirOf(id)}
	dir, err := openDirAt(number(s.boxes), id)
	if err != nil {
		e.Err = err
		return e, !errors.Is(err, unix.ENOENT)
	}
	defer dir.Close()
	// The lock first: a keeper that ends removes the folder, or writes its last
	// record before it lets go.
	alive, lockErr := s.alive(dir)
	e.Alive = alive
	e.Sandbox, e.Err = readRecord(number(dir), id)
	if e.Err == nil {
		e.Err = lockErr
	}
	if e.Err != nil && !s.same(id, dir) {
		return e, false // it went while we looked
	}
	return e, true
}

func (s *Store) alive(dir *os.File) (bool, error) {
	lock, err := openAt(number(dir), lockName, unix.O_RDWR)
	if err != nil {
		return false, err
	}
	defer lock.Close()
	return isLocked(lock)
}

// hasKeeper is the cheap half of entry.
func (s *Store) hasKeeper(id string) bool {
	dir, err := openDirAt(number(s.boxes), id)
	if err != nil {
		return false
	}
	defer dir.Close()
	alive, err := s.alive(dir)
	return alive && err == nil
}

// same reports whether the folder id is still the one that dir was opened as.
func (s *Store) same(id string, dir *os.File) bool {
	var a, b unix.Stat_t
	return unix.Fstatat(number(s.boxes), id, &a, unix.AT_SYMLINK_NOFOLLOW) == nil &&
		unix.Fstat(number(dir), &b) == nil && a.Ino == b.Ino && a.Dev == b.Dev
}

// Find returns the sandbox with that id, else that name, else the one whose id
// begins so.
func (s *Store) Find(what string) (Entry, error) {
	if validName(what) {
		if e, ok := s.entry(what); ok {
			return e, nil
		}
	}
	entries, err := s.List()
	if err != nil {
		return Entry{}, err
	}
	var begin []Entry
	for _, e := range entries {
		if e.Name == what && what != "" {
			return e, nil
		}
		if strings.HasPrefix(e.ID, what) && what != "" {
			begin = append(begin, e)
		}
	}
	switch len(begin) {
	case 0:
		return Entry{}, &api.Error{Code: api.CodeNotFound, Message: fmt.Sprintf("there is no sandbox %.80q", what), Hint: "caisson ls shows those that are there"}
	case 1:
		return begin[0], nil
	}
	return Entry{}, &api.Error{
		Code:    api.CodeUsage,
		Message: fmt.Sprintf("%d sandboxes have an id that begins with %q", len(begin), what),
		Hint:    "give more of it",
	}
}

// Acquire takes the folder of a sandbox that has no keeper, to start it again.
func (s *Store) Acquire(id string) (*Folder, error) {
	f, err := s.acquire(id)
	if err != nil {
		return nil, err
	}
	if f.rec, err = readRecord(number(f.dir), id); err == nil {
		err = f.resume()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open sandbox %s: %w", id, err), f.Close())
	}
	return f, nil
}

// acquire takes the lock before anything is read, and makes sure that the
// folder is then still there.
func (s *Store) acquire(id string) (f *Folder, err error) {
	f = &Folder{store: s, id: id}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("open sandbox %.80s: %w", id, err), f.Close())
			f = nil
		}
	}()
	if !validName(id) {
		return f, fmt.Errorf("%.80q is not an id", id)
	}
	if f.dir, err = openDirAt(number(s.boxes), id); err != nil {
		return f, err
	}
	// Ours always has a lock: whoever removed it must not keep us from sweeping.
	if f.lock, err = openAt(number(f.dir), lockName, unix.O_RDWR|unix.O_CREAT); err != nil {
		return f, err
	}
	if err = lockFile(f.lock, unix.F_WRLCK, false); err != nil {
		return f, err
	}
	if !s.same(id, f.dir) {
		return f, os.ErrNotExist
	}
	return f, nil
}

// Sweep removes what keepers that died have left: for each folder without
// keeper that is not kept it calls destroy, which ends what is left of the box, and then
// removes the folder. It holds the lock meanwhile, so that each folder is swept by one.
// A folder whose destroy fails stays; the others are swept all the same.
func (s *Store) Sweep(ctx context.Context, destroy func(Entry) error) error {
	names, err := s.names()
	if err != nil {
		return err
	}
	errs := []error{s.sweepHidden(names)}
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return errors.Join(append(errs, err)...)
		}
		if validName(name) {
			errs = append(errs, s.sweepOne(name, destroy))
		}
	}
	return errors.Join(errs...)
}

func (s *Store) sweepOne(id string, destroy func(Entry) error) error {
	if s.hasKeeper(id) {
		return nil // most do: looked at without touching
	}
	var st unix.Stat_t
	err := unix.Fstatat(number(s.boxes), id, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return unlink(number(s.boxes), id, 0) // a file or a link, not of ours
	}
	f, err := s.acquire(id)
	if errors.Is(err, errLocked) || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	e := Entry{Dir: s.dirOf(id)}
	e.Sandbox, e.Err = readRecord(number(f.dir), id)
	if e.Kept() {
		return nil
	}
	if err := destroy(e); err != nil {
		return fmt.Errorf("sweep sandbox %s: %w", id, err)
	}
	return f.Remove()
}

// sweepHidden removes what a creation or a removal left that did not end. With
// the exclusive lock no creation is under way.
func (s *Store) sweepHidden(names []string) error {
	var errs []error
	for _, name := range names {
		if strings.HasPrefix(name, ".gone-") {
			errs = append(errs, removeTree(number(s.boxes), name))
		}
	}
	if !slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, ".new-") }) {
		return errors.Join(errs...)
	}
	lock, err := openAt(number(s.state), "create.lock", unix.O_RDWR|unix.O_CREAT)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	defer lock.Close()
	if err := lockFile(lock, unix.F_WRLCK, false); err != nil {
		if errors.Is(err, errLocked) {
			err = nil
		}
		return errors.Join(append(errs, err)...)
	}
	for _, name := range names {
		if strings.HasPrefix(name, ".new-") {
			errs = append(errs, removeTree(number(s.boxes), name))
		}
	}
	return errors.Join(errs...)
}
