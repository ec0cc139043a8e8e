package cli

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/caisson-dev/caisson/api"
)

func TestAsErrors(t *testing.T) {
	ours := &api.Error{Code: api.CodeLimit, Message: "too long", Hint: "raise it"}
	other := errors.New("destroy box: busy")
	unexpected := asError(other)
	for name, c := range map[string]struct {
		err  error
		want []*api.Error
	}{
		"ours":        {ours, []*api.Error{ours}},
		"wrapped":     {fmt.Errorf("create sandbox: %w", ours), []*api.Error{ours}},
		"other":       {other, []*api.Error{unexpected}},
		"both":        {&failure{137, errors.Join(ours, other)}, []*api.Error{ours, unexpected}},
		"both, twice": {errors.Join(errors.Join(other, nil), errors.Join(ours)), []*api.Error{unexpected, ours}},
	} {
		if diff := cmp.Diff(c.want, asErrors(c.err)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestExitCode(t *testing.T) {
	bad := usage("", "wrong")
	host := &api.Error{Code: api.CodeHost}
	for _, c := range []struct {
		cmd  string
		err  error
		want int
	}{
		{"run", bad, 125},
		{"run", host, 125},
		{"run", errors.New("unexpected"), 125},
		{"run", &failure{127, host}, 127},
		{"ls", bad, 2},
		{"ls", host, 1},
		{"ls", errors.New("unexpected"), 1},
	} {
		if got := exitCode(&cobra.Command{Use: c.cmd}, c.err); got != c.want {
			t.Errorf("exit code of %s after %v: %d, want %d", c.cmd, c.err, got, c.want)
		}
	}
	if got := exitCode(nil, bad); got != 2 {
		t.Errorf("exit code without a command: %d, want 2", got)
	}
}
