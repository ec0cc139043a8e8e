package drivertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"

	"github.com/caisson-dev/caisson/internal/driver"
)

type farSide struct {
	driver driver.Driver
	dir    string

	mu    sync.Mutex
	count int
	boxes map[int]*farBox
}

type farBox struct {
	driver.Box
	dir string
}

// serve answers one connection. Its ctx ends when the other side hangs up.
func (f *farSide) serve(conn net.Conn) {
	defer conn.Close()
	var r request
	if err := json.NewDecoder(conn).Decode(&r); err != nil {
		return
	}
	if r.Op == "stream" {
		f.stream(conn, f.box(r.Box))
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	arrived := make(chan bool, 1)
	go func() {
		_, err := io.ReadFull(conn, make([]byte, 1))
		arrived <- err == nil
		cancel()
	}()
	a, err := f.do(ctx, r)
	if err != nil {
		a.Error, a.Unsupported = err.Error(), errors.Is(err, driver.ErrUnsupported)
	}
	if send(conn, a) == nil && <-arrived {
		return
	}
	for _, id := range a.Boxes { // nobody will ever ask for them
		f.drop(id)
	}
}

func (f *farSide) box(id int) *farBox {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.boxes[id]
}

func (f *farSide) drop(id int) {
	b := f.box(id)
	_ = b.Destroy(context.Background()) // the near side has no use for an error
	_ = b.Stream().Close()
	_ = os.Remove(b.dir) // unless the driver left something: the near side sees that
}

// stream joins the connection with the guest's stream, until either ends.
func (f *farSide) stream(conn net.Conn, b *farBox) {
	if _, err := conn.Write([]byte{0}); err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(b.Stream(), conn)
		_ = b.Stream().Close() // the near side hung up
	}()
	_, _ = io.Copy(conn, b.Stream())
}

func (f *farSide) do(ctx context.Context, r request) (a answer, err error) {
	switch r.Op {
	case "probe":
		a.Probe = f.driver.Probe(ctx, r.Depth)
		return a, nil
	case "create", "restore":
		return f.start(ctx, r)
	}
	b := f.box(r.Box)
	switch r.Op {
	case "pause":
		err = b.Pause(ctx)
	case "resume":
		err = b.Resume(ctx)
	case "checkpoint":
		a.Checkpoint, err = f.checkpoint(ctx, b)
	case "fork":
		return f.fork(ctx, b, r.Specs)
	case "stats":
		a.Stats, err = b.Stats(ctx)
	case "wait":
		a.Exit, err = b.Wait(ctx)
	case "destroy":
		if err = b.Destroy(ctx); err == nil {
			err = emptied(b.dir)
		}
	default:
		err = fmt.Errorf("no operation %q", r.Op)
	}
	return a, err
}

// emptied removes the folder of a box that is gone. It may be gone as well.
func emptied(dir string) error {
	if err := os.Remove(dir); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("the driver left files: %w", err)
	}
	return nil
}

func (f *farSide) spec(s farSpec) (driver.Spec, error) {
	dir, err := os.MkdirTemp(f.dir, "box-")
	return driver.Spec{ID: s.ID, Plan: s.Plan, Dir: dir}, err
}

func (f *farSide) add(b driver.Box, dir string, a *answer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count++
	f.boxes[f.count] = &farBox{b, dir}
	a.Boxes = append(a.Boxes, f.count)
	a.Generation = b.Generation()
}

func (f *farSide) start(ctx context.Context, r request) (a answer, err error) {
	spec, err := f.spec(r.Specs[0])
	if err != nil {
		return a, err
	}
	var b driver.Box
	if r.Op == "create" {
		b, err = f.driver.Create(ctx, spec)
	} else {
		var dir string
		if dir, err = os.MkdirTemp(f.dir, "checkpoint-"); err != nil {
			return a, err
		}
		defer os.RemoveAll(dir)
		if err = writeFiles(dir, r.Checkpoint); err != nil {
			return a, err
		}
		b, err = f.driver.Restore(ctx, spec, dir)
	}
	if err != nil {
		return a, errors.Join(err, emptied(spec.Dir))
	}
	f.add(b, spec.Dir, &a)
	return a, nil
}

func (f *farSide) fork(ctx context.Context, b *farBox, specs []farSpec) (a answer, err error) {
	var far []driver.Spec
	for _, s := range specs {
		spec, err := f.spec(s)
		if err != nil {
			return a, err
		}
		far = append(far, spec)
	}
	boxes, err := b.Fork(ctx, far)
	for i, child := range boxes {
		f.add(child, far[i].Dir, &a)
	}
	if err != nil {
		for _, spec := range far {
			err = errors.Join(err, emptied(spec.Dir))
		}
	}
	return a, err
}

func (f *farSide) checkpoint(ctx context.Context, b *farBox) (map[string][]byte, error) {
	dir, err := os.MkdirTemp(f.dir, "checkpoint-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := b.Checkpoint(ctx, dir); err != nil {
		return nil, err
	}
	return readFiles(dir)
}

func readFiles(dir string) (map[string][]byte, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, e := range entries {
		if files[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			return nil, err
		}
	}
	return files, nil
}

func writeFiles(dir string, files map[string][]byte) error {
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}
