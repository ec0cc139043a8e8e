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
	"testing"

	"github.com/caisson-dev/caisson/api"
	"github.com/caisson-dev/caisson/internal/driver"
	"github.com/caisson-dev/caisson/internal/guest"
	"github.com/caisson-dev/caisson/internal/policy"
)

// Remote puts a driver behind a unix socket, as if it were on another host: the
// box's folder and its checkpoints are other folders there, descriptors do not pass, and
// all that crosses is bytes. What passes the suite this way assumes nothing of
// files on the same host.
//
// Each call is a connection: a request and an answer, as JSON, and a last byte
// that says that the answer arrived; the stream to a guest is one too.
func Remote(t testing.TB, d driver.Driver) driver.Driver {
	t.Helper()
	dir, err := os.MkdirTemp("", "caisson-remote-") // a socket's path is short
	if err != nil {
		t.Fatalf("make a folder for the socket: %v", err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	far := &farSide{driver: d, dir: t.TempDir(), boxes: map[int]*farBox{}}
	var calls sync.WaitGroup
	calls.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // closed
			}
			calls.Go(func() { far.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		calls.Wait()
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove the socket's folder: %v", err)
		}
	})
	return &nearSide{tier: d.Tier(), can: farCapabilities(d), path: l.Addr().String()}
}

func farCapabilities(d driver.Driver) driver.Capabilities {
	can := d.Capabilities()
	can.Descriptors, can.SharedFiles, can.Remote = false, false, true
	return can
}

type request struct {
	Op         string
	Depth      driver.Depth
	Box        int
	Specs      []farSpec
	Checkpoint map[string][]byte
}

type farSpec struct {
	ID   string
	Plan *policy.Plan
}

type answer struct {
	Error       string
	Unsupported bool
	Probe       api.Probe
	Boxes       []int
	Generation  uint64
	Exit        driver.Exit
	Stats       driver.Stats
	Checkpoint  map[string][]byte
}

// send writes a message and nothing after it: what follows on the connection is
// no JSON.
func send(conn net.Conn, message any) error {
	data, err := json.Marshal(message)
	if err != nil {
		return err
	}
	_, err = conn.Write(data)
	return err
}

// nearSide is the driver as the caller has it.
type nearSide struct {
	tier api.Tier
	can  driver.Capabilities
	path string
}

func (n *nearSide) Tier() api.Tier                  { return n.tier }
func (*nearSide) Begin(string, string) driver.Begun { return nil }

func (n *nearSide) Capabilities() driver.Capabilities { return n.can }

// call makes one call. It gives up when ctx ends: the other side sees that.
func (n *nearSide) call(ctx context.Context, r request) (a answer, err error) {
	if err := ctx.Err(); err != nil && r.Op != "destroy" {
		return a, err
	}
	conn, err := net.Dial("unix", n.path)
	if err != nil {
		return a, err
	}
	defer conn.Close()
	if err := send(conn, r); err != nil {
		return a, err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if err := json.NewDecoder(conn).Decode(&a); err != nil {
		return a, errors.Join(ctx.Err(), fmt.Errorf("call %s: %w", r.Op, err))
	}
	if _, err := conn.Write([]byte{0}); err != nil {
		return a, errors.Join(ctx.Err(), fmt.Errorf("call %s: %w", r.Op, err))
	}
	switch {
	case a.Unsupported:
		return a, driver.ErrUnsupported
	case a.Error != "":
		return a, errors.New(a.Error)
	}
	return a, nil
}

func (n *nearSide) Probe(ctx context.Context, depth driver.Depth) api.Probe {
	a, err := n.call(ctx, request{Op: "probe", Depth: depth})
	if err != nil {
		return api.Probe{Tier: n.tier}
	}
	return a.Probe
}

func (n *nearSide) Create(ctx context.Context, spec driver.Spec) (driver.Box, error) {
	return n.one(ctx, request{Op: "create"}, spec)
}

func (n *nearSide) Restore(ctx context.Context, spec driver.Spec, checkpoint string) (driver.Box, error) {
	files, err := readFiles(checkpoint)
	if err != nil {
		return nil, err
	}
	return n.one(ctx, request{Op: "restore", Checkpoint: files}, spec)
}

func (n *nearSide) one(ctx context.Context, r request, spec driver.Spec) (driver.Box, error) {
	boxes, err := n.boxes(ctx, r, []driver.Spec{spec})
	if err != nil {
		return nil, err
	}
	return boxes[0], nil
}

// boxes makes a call that gives boxes, and opens their streams.
func (n *nearSide) boxes(ctx context.Context, r request, specs []driver.Spec) (boxes []driver.Box, err error) {
	for _, spec := range specs {
		if _, err := os.Stat(spec.Dir); err != nil {
			return nil, fmt.Errorf("the folder of box %s: %w", spec.ID, err)
		}
		r.Specs = append(r.Specs, farSpec{spec.ID, spec.Plan})
	}
	a, err := n.call(ctx, r)
	if err != nil {
		return nil, err
	}
	for _, id := range a.Boxes {
		b := &nearBox{near: n, id: id, generation: a.Generation}
		boxes = append(boxes, b)
		if err == nil {
			err = b.open()
		}
	}
	if err != nil {
		for _, b := range boxes {
			err = errors.Join(err, b.Destroy(context.WithoutCancel(ctx)))
		}
		return nil, err
	}
	return boxes, nil
}

type nearBox struct {
	near       *nearSide
	id         int
	generation uint64
	conn       net.Conn
}

// open connects the stream. The first byte says that the other side has it.
func (b *nearBox) open() error {
	conn, err := net.Dial("unix", b.near.path)
	if err != nil {
		return err
	}
	b.conn = conn
	if err := send(conn, request{Op: "stream", Box: b.id}); err != nil {
		return err
	}
	_, err = io.ReadFull(conn, make([]byte, 1))
	return err
}

func (b *nearBox) Generation() uint64   { return b.generation }
func (b *nearBox) Stream() guest.Stream { return guest.Stream{ReadWriteCloser: b.conn} }
func (b *nearBox) PID() int             { return 0 }

func (b *nearBox) do(ctx context.Context, op string) (answer, error) {
	return b.near.call(ctx, request{Op: op, Box: b.id})
}

func (b *nearBox) Pause(ctx context.Context) error {
	_, err := b.do(ctx, "pause")
	return err
}

func (b *nearBox) Resume(ctx context.Context) error {
	_, err := b.do(ctx, "resume")
	return err
}

func (b *nearBox) Checkpoint(ctx context.Context, dir string) error {
	entries, err := os.ReadDir(dir)
	if err == nil && len(entries) > 0 {
		err = fmt.Errorf("%s is not empty", dir)
	}
	if err != nil {
		return err
	}
	a, err := b.do(ctx, "checkpoint")
	if err != nil {
		return err
	}
	return writeFiles(dir, a.Checkpoint)
}

func (b *nearBox) Fork(ctx context.Context, specs []driver.Spec) ([]driver.Box, error) {
	return b.near.boxes(ctx, request{Op: "fork", Box: b.id}, specs)
}

func (b *nearBox) Stats(ctx context.Context) (driver.Stats, error) {
	a, err := b.do(ctx, "stats")
	return a.Stats, err
}

func (b *nearBox) Wait(ctx context.Context) (driver.Exit, error) {
	a, err := b.do(ctx, "wait")
	return a.Exit, err
}

func (b *nearBox) Kill(ctx context.Context) error { return b.Destroy(ctx) }

func (b *nearBox) Destroy(ctx context.Context) error {
	_, err := b.do(ctx, "destroy")
	return err
}
