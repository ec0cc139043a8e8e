package bench

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSummarise(t *testing.T) {
	for _, c := range []struct {
		name   string
		values []float64
		want   Summary
	}{
		{"none", nil, Summary{}},
		{"one", []float64{3}, Summary{3, 3, 3}},
		{"even", []float64{4, 1, 3, 2}, Summary{1, 2.5, 4}},
		{"ten", []float64{10, 9, 8, 7, 6, 5, 4, 3, 2, 1}, Summary{1, 5.5, 9}},
	} {
		if diff := cmp.Diff(c.want, summarise(c.values)); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

func TestRatiosReferToBubblewrap(t *testing.T) {
	ms := func(values ...int) (s []sample) {
		for _, v := range values {
			s = append(s, sample{wall: time.Duration(v) * time.Millisecond, cpu: time.Millisecond})
		}
		return s
	}
	var r Report
	r.summarise([]peer{{name: "bubblewrap"}, {name: "caisson"}}, [][]sample{ms(4, 8, 6), ms(6, 9, 12)})
	if got := r.Peers[1]; r.Baseline != "bubblewrap" || got.RatioMin != 1.5 || got.RatioMedian != 1.5 || got.CPUMS.Min != 1 {
		t.Errorf("caisson against %q: %+v", r.Baseline, got)
	}
	var alone Report
	alone.summarise([]peer{{name: "caisson"}}, [][]sample{ms(1)})
	if alone.Baseline != "" || alone.Peers[0].RatioMin != 0 {
		t.Errorf("without the baseline there is no ratio: %+v", alone)
	}
	var text bytes.Buffer
	r.WriteText(&text)
	if !strings.Contains(text.String(), "1.50") {
		t.Errorf("the table holds no ratio:\n%s", &text)
	}
}

func TestRoundsInterleave(t *testing.T) {
	peers := []peer{{name: "a", argv: []string{"a"}}, {name: "b", argv: []string{"b"}}, {name: "c", argv: []string{"c"}}}
	run := func(seed uint64) string {
		var order []string
		samples, err := rounds(t.Context(), Options{Rounds: 20, Seed: seed}, peers, func(_ context.Context, argv []string) (sample, error) {
			order = append(order, argv[0])
			return sample{wall: 1}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range samples {
			if len(s) != 20 {
				t.Errorf("peer %d has %d samples, want 20: warm-ups do not count", i, len(s))
			}
		}
		for round := range slices.Chunk(order, 3) {
			if got := strings.Join(slices.Sorted(slices.Values(round)), ""); got != "abc" {
				t.Errorf("a round ran %q, not every peer once", round)
			}
		}
		return strings.Join(order, "")
	}
	first := run(1)
	if first != run(1) {
		t.Error("the same seed gave another order")
	}
	if first == run(2) || first == strings.Repeat("abc", 23) {
		t.Errorf("the order is not random: %s", first)
	}
}

func TestRoundsStopAtAFailure(t *testing.T) {
	broken := errors.New("broken")
	_, err := rounds(t.Context(), Options{Rounds: 1}, []peer{{name: "caisson"}}, func(context.Context, []string) (sample, error) { return sample{}, broken })
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "caisson") {
		t.Errorf("error %v names neither peer nor cause", err)
	}
}

func TestParseTrace(t *testing.T) {
	got, err := parseTrace("caisson", `init runtime @0.045 ms, 0.035 ms clock, 0 bytes, 0 allocs
init errors @0.50 ms, 0.002 ms clock, 128 bytes, 3 allocs
caisson 1.0
init broken
init net @1 ms, 0.5 ms clock, 1024 bytes, 7 allocs
`)
	if err != nil {
		t.Fatal(err)
	}
	want := Trace{Binary: "caisson", Packages: 3, EndMS: 1.5, ClockMS: 0.537, Bytes: 1152, Slowest: []PackageInit{
		{"net", 1, 0.5, 1024, 7}, {"runtime", 0.045, 0.035, 0, 0}, {"errors", 0.5, 0.002, 128, 3},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := parseTrace("x", "nothing"); err == nil {
		t.Error("a binary without a trace is not an error")
	}
}

func TestOptionsAreRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		o    Options
		want string
	}{
		{"unknown peer", Options{Peers: []string{"docker"}}, "bare, bubblewrap, caisson"},
		{"no rounds", Options{Rounds: -1}, "measure nothing"},
		{"no binary", Options{Caisson: "/nonexistent/caisson"}, "/nonexistent/caisson"},
		{"no user", Options{User: "nobody-of-that-name"}, "nobody-of-that-name"},
	} {
		if _, err := Start(t.Context(), c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one that says %q", c.name, err, c.want)
		}
	}
}
