//go:build linux

package store

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/caisson-dev/caisson/api"
)

const (
	lockName   = "lock"
	recordName = "record.json"
)

// Folder is a sandbox's folder in the hands of its keeper, who holds the lock.
// Its methods may be called concurrently.
type Folder struct {
	store *Store
	id    string
	dir   *os.File
	lock  *os.File

	mu      sync.Mutex
	rec     api.Sandbox
	closed  bool
	segment segment
}

// ID is the sandbox's id.
func (f *Folder) ID() string { return f.id }

// Path is the folder, absolute if the state folder is.
func (f *Folder) Path() string { return f.store.dirOf(f.id) }

// Record is the record as it was last written. It shares its slices with the
// folder's.
func (f *Folder) Record() api.Sandbox {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rec
}

// Update changes the record. The id and the name stay as they are. If it
// cannot be written, the old one stands, here and on disk.
func (f *Folder) Update(change func(*api.Sandbox)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return fmt.Errorf("update sandbox %s: %w", f.id, os.ErrClosed)
	}
	rec := f.rec
	change(&rec)
	rec.ID, rec.Name = f.rec.ID, f.rec.Name
	abbreviate(&rec)
	if err := f.replace(rec); err != nil {
		return fmt.Errorf("update sandbox %s: %w", f.id, err)
	}
	f.rec = rec
	return nil
}

// replace writes rec beside the record and exchanges the two, so that readers
// see one or the other, whole. (A rename over the old one would make ext4 start writing the
// file out at once.) The old file is not written again: somebody may be reading it.
func (f *Folder) replace(rec api.Sandbox) error {
	const next = recordName + ".next"
	dir := number(f.dir)
	if err := unlink(dir, next, 0); err != nil { // of a keeper that died in between
		return err
	}
	if err := f.write(next, rec); err != nil {
		return err
	}
	if unix.Renameat2(dir, next, dir, recordName, unix.RENAME_EXCHANGE) == nil {
		return unlink(dir, next, 0)
	}
	// A file system that cannot exchange, or somebody removed the record.
	return unix.Renameat(dir, next, dir, recordName)
}

func (f *Folder) write(name string, rec api.Sandbox) error {
	data, err := encodeRecord(&rec)
	if err != nil {
		return fmt.Errorf("encode record: %w", err)
	}
	file, err := openAt(number(f.dir), name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
	if err != nil {
		return err
	}
	_, err = file.Write(append(data, '\n'))
	return errors.Join(err, file.Close())
}

// Close gives the folder up and leaves it as it is: the lock is free. It may
// be repeated.
func (f *Folder) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.close()
}

func (f *Folder) close() error {
	if f.closed {
		return nil
	}
	f.closed = true
	var errs []error
	for _, file := range []*os.File{f.segment.file, f.dir, f.lock} { // the lock last
		if file != nil {
			errs = append(errs, file.Close())
		}
	}
	return errors.Join(errs...)
}

// Remove removes the folder with all that is in it, and closes it. The lock is
// held to the end, and nobody sees a half-removed folder. A mount below the folder is an
// error, and stays.
func (f *Folder) Remove() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return fmt.Errorf("remove sandbox %s: %w", f.id, os.ErrClosed)
	}
	err := f.remove()
	if err != nil {
		err = fmt.Errorf("remove sandbox %s: %w", f.id, err)
	}
	return errors.Join(err, f.close())
}

func (f *Folder) remove() error {
	suffix, err := newID()
	if err != nil {
		return err
	}
	boxes, gone := number(f.store.boxes), ".gone-"+f.id+"-"+suffix
	if err := unix.Renameat(boxes, f.id, boxes, gone); err != nil {
		return err
	}
	return removeTree(boxes, gone)
}
