package bench

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestMeasure(t *testing.T) {
	who, err := lookUser("")
	if err != nil {
		t.Fatal(err)
	}
	run := runner{dir: t.TempDir(), who: who}

	s, err := run.measure(t.Context(), []string{"/bin/sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"})
	if err != nil || s.wall <= 0 || s.cpu <= 0 || s.cpu > s.wall*2 {
		t.Errorf("a busy command: %+v, %v", s, err)
	}
	if _, err := run.measure(t.Context(), []string{"/bin/sh", "-c", "echo the reason >&2; exit 3"}); err == nil ||
		!strings.Contains(err.Error(), "exit code 3: the reason") {
		t.Errorf("a failing command is not reported with what it said: %v", err)
	}
	if _, err := run.measure(t.Context(), []string{"/nonexistent"}); err == nil {
		t.Error("a missing command is a sample")
	}

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	begin := time.Now()
	if _, err := run.measure(ended, []string{"/bin/sleep", "60"}); !errors.Is(err, context.Canceled) || time.Since(begin) > 10*time.Second {
		t.Errorf("a hanging command was not ended with its context: %v after %v", err, time.Since(begin))
	}
}
