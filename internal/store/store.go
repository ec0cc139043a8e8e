//go:build linux

package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caisson-dev/caisson/api"
)

const (
	maxRecord   = 1 << 20  // bytes of a record that is read
	maxCommand  = 16 << 10 // bytes of a command line that is kept for display
	maxEvent    = 1 << 20  // bytes of one event
	segmentSize = 8 << 20  // bytes after which the next segment is begun
	maxSegments = 16       // with more, the oldest but the first is removed
)

// Store is a state folder. Its methods may be called concurrently, in any
// number of processes.
type Store struct {
	path  string
	state *os.File
	boxes *os.File

	segmentSize int64
	maxSegments int
}

// Open opens the state folder and makes it if it is not there. It refuses one
// that another user owns or may write.
func Open(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the state folder: %w", err)
	}
	state, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, fmt.Errorf("open the state folder: %w", err)
	}
	if err := checkOwn(number(state), dir); err != nil {
		return nil, errors.Join(err, state.Close())
	}
	if err := unix.Mkdirat(number(state), "boxes", 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, errors.Join(fmt.Errorf("make %s/boxes: %w", dir, err), state.Close())
	}
	boxes, err := openDirAt(number(state), "boxes")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open %s/boxes: %w", dir, err), state.Close())
	}
	return &Store{path: dir, state: state, boxes: boxes, segmentSize: segmentSize, maxSegments: maxSegments}, nil
}

// Close closes the store. Folders that it gave stay usable, but for Remove.
func (s *Store) Close() error { return errors.Join(s.boxes.Close(), s.state.Close()) }

// Path is the state folder.
func (s *Store) Path() string { return s.path }

// Create makes the folder of a new sandbox, locked for the caller, with rec as
// its record. Without rec.ID it gets a new one; rec.Name must be free. Nobody sees the
// folder before it is whole.
func (s *Store) Create(rec api.Sandbox) (*Folder, error) {
	if rec.Name != "" && !validName(rec.Name) {
		return nil, &api.Error{
			Code:    api.CodeUsage,
			Message: fmt.Sprintf("%.80q cannot be the name of a sandbox", rec.Name),
			Hint:    "a name has " + nameRule,
		}
	}
	if rec.ID != "" && !validName(rec.ID) {
		return nil, fmt.Errorf("create sandbox: %.80q cannot be an id: it has %s", rec.ID, nameRule)
	}
	if rec.Created.IsZero() {
		rec.Created = time.Now().UTC()
	}
	lock, err := s.lockCreation(rec.Name != "")
	if err != nil {
		return nil, err
	}
	defer lock.Close() // and with it the lock
	if rec.Name != "" {
		if err := s.nameIsFree(rec.Name); err != nil {
			return nil, err
		}
	}
	given := rec.ID != ""
	for try := 0; ; try++ {
		if !given {
			if rec.ID, err = newID(); err != nil {
				return nil, err
			}
		}
		f, err := s.create(rec)
		if !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EEXIST) {
			return f, err
		}
		if given || try == 10 {
			return nil, &api.Error{Code: api.CodeUsage, Message: fmt.Sprintf("there is a sandbox %s already", rec.ID)}
		}
	}
}

// lockCreation keeps sweepers away from folders that are being made; an
// exclusive one keeps other creations away too, so that a name stays free.
func (s *Store) lockCreation(exclusive bool) (*os.File, error) {
	f, err := openAt(number(s.state), "create.lock", unix.O_RDWR|unix.O_CREAT)
	if err != nil {
		return nil, fmt.Errorf("lock the state folder: %w", err)
	}
	kind := int16(unix.F_RDLCK)
	if exclusive {
		kind = unix.F_WRLCK
	}
	if err := lockFile(f, kind, true); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (s *Store) nameIsFree(name string) error {
	entries, err := s.List()
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name == name || e.ID == name {
			return &api.Error{
				Code:    api.CodeUsage,
				Message: fmt.Sprintf("the name %s is taken by sandbox %s (%s)", name, e.ID, e.State),
				Hint:    "choose another name, or: caisson rm " + name,
			}
		}
	}
	return nil
}

// create makes the folder under a name that nobody looks at and renames it. An
// existing folder is never empty, so the rename cannot replace one.
func (s *Store) create(rec api.Sandbox) (f *Folder, err error) {
	suffix, err := newID() // a creation that died may have left one of this id
	if err != nil {
		return nil, err
	}
	boxes, hidden := number(s.boxes), ".new-"+rec.ID+"-"+suffix
	if err := unix.Mkdirat(boxes, hidden, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of sandbox %s: %w", rec.ID, err)
	}
	f = &Folder{store: s, id: rec.ID, rec: rec}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("create sandbox %s: %w", rec.ID, err), removeTree(boxes, hidden), f.Close())
			f = nil
		}
	}()
	if f.dir, err = openDirAt(boxes, hidden); err != nil {
		return f, err
	}
	if f.lock, err = openAt(number(f.dir), lockName, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL); err != nil {
		return f, err
	}
	if err = lockFile(f.lock, unix.F_WRLCK, false); err != nil {
		return f, err
	}
	abbreviate(&f.rec)
	if err = f.write(recordName, f.rec); err != nil {
		return f, err
	}
	return f, unix.Renameat(boxes, hidden, boxes, rec.ID)
}

// abbreviate cuts a command line that is too long to show.
func abbreviate(rec *api.Sandbox) {
	room := maxCommand
	for i, arg := range rec.Command {
		if len(arg) > room {
			rec.Command = append(append([]string(nil), rec.Command[:i]...), arg[:room]+"…")
			return
		}
		room -= len(arg)
	}
	if n := maxCommand / 16; len(rec.Command) > n {
		rec.Command = append(append([]string(nil), rec.Command[:n]...), "…")
	}
}

// readRecord reads the record of the folder id, which may hold anything.
func readRecord(dir int, id string) (rec api.Sandbox, err error) {
	data, err := readAt(dir, recordName, maxRecord)
	if err != nil {
		return api.Sandbox{ID: id}, err
	}
	if err := json.Unmarshal(data, &rec); err != nil {
		return api.Sandbox{ID: id}, fmt.Errorf("decode %s: %w", recordName, err)
	}
	if rec.ID != id {
		return api.Sandbox{ID: id}, fmt.Errorf("decode %s: it is of sandbox %.80q", recordName, rec.ID)
	}
	if rec.Name != "" && !validName(rec.Name) {
		return api.Sandbox{ID: id}, fmt.Errorf("decode %s: the name %.80q cannot be one", recordName, rec.Name)
	}
	return rec, nil
}

// dirOf is the absolute path of a sandbox's folder.
func (s *Store) dirOf(id string) string { return filepath.Join(s.path, "boxes", id) }
