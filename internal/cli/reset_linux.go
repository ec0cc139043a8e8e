package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/caisson-dev/caisson/internal/driver/place"
	"github.com/caisson-dev/caisson/internal/sandbox"
	"github.com/caisson-dev/caisson/internal/store"
)

// trace is a folder of Caisson's, and how it is removed.
type trace struct {
	path   string
	remove func(ctx context.Context, path string) error
}

// reset removes what is there of the user's traces.
func (a *app) reset(ctx context.Context, f *resetFlags) error {
	traces, err := a.traces(f.all)
	if err != nil {
		return err
	}
	answer := resetAnswer{Removed: []string{}}
	if len(traces) > 0 && !f.yes {
		if yes, err := a.askReset(traces); err != nil || !yes {
			return err
		}
	}
	for _, t := range traces {
		if err := t.remove(ctx, t.path); err != nil {
			return hostError("remove "+t.path, "look at the folder; what was removed before is gone", err)
		}
		answer.Removed = append(answer.Removed, t.path)
	}
	return a.ui.print(answer, func(w *bytes.Buffer) { resetText(w, answer) })
}

// traces finds them: the sandboxes first, which may refuse to go.
func (a *app) traces(all bool) ([]trace, error) {
	states, err := store.StateDirs(a.getenv, os.Getuid())
	if err != nil {
		return nil, err
	}
	var traces []trace
	for _, dir := range states {
		traces = append(traces, trace{dir, clearState})
	}
	cache, err := place.Dir(a.getenv, os.Getuid())
	if err == nil {
		traces = append(traces, trace{cache, clearCache})
	}
	if config := a.configDir(); all && config != "" {
		// A link goes, and what it leads to stays: that is where the user keeps it.
		traces = append(traces, trace{config, func(_ context.Context, path string) error { return os.RemoveAll(path) }})
	}
	there := traces[:0]
	for _, t := range traces {
		if _, err := os.Lstat(t.path); err == nil {
			there = append(there, t)
		}
	}
	return there, nil
}

// clearState removes a folder of sandboxes.
func clearState(ctx context.Context, path string) error {
	st, err := store.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(sandbox.Clear(ctx, st), st.Close())
}

// clearCache removes the guests, by their names: the folder may be a link to
// one that has more in it.
func clearCache(_ context.Context, path string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return fmt.Errorf("read cache: %w", err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "guest-") && !strings.HasPrefix(e.Name(), ".guest-") {
			continue
		}
		if err := os.Remove(filepath.Join(path, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove guest: %w", err)
		}
	}
	return os.Remove(path)
}

// askReset asks who is at the terminal. There is no other yes than y or yes.
func (a *app) askReset(traces []trace) (bool, error) {
	if a.ui.json || !asks(os.Stdin) || !asks(os.Stderr) {
		return false, usage("add --yes to remove it without being asked", "reset: nobody is at a terminal to say yes")
	}
	var b strings.Builder
	for _, t := range traces {
		fmt.Fprintf(&b, "caisson: reset removes %s\n", oneLine(t.path))
	}
	b.WriteString("caisson: remove all of it? [y/N] ")
	if _, err := io.WriteString(a.ui.err, b.String()); err != nil {
		return false, hostError("ask", "add --yes", err)
	}
	line, err := bufio.NewReader(io.LimitReader(os.Stdin, 64)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return false, hostError("read the answer", "add --yes", err)
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return true, nil
	}
	a.ui.warn("nothing was removed")
	return false, exit(1)
}

// asks reports whether f is a terminal at which somebody may sit.
func asks(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
