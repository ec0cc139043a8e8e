package escape

import (
	"slices"
	"strings"
	"testing"
)

func corpus(t *testing.T) []Probe {
	t.Helper()
	c, err := Corpus()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCorpusIsStrict(t *testing.T) {
	row := "A-1\tc\tw\trun\t\tnoop\tsecret\tP\thigh\tbare\t"
	for name, text := range map[string]string{
		"another header":   "id\tclass\n" + row,
		"a column missing": columns + "\nA-1\tc\tw",
		"a row twice":      columns + "\n" + row + "\n" + row,
		"a severity":       columns + "\n" + strings.Replace(row, "high", "hihg", 1),
	} {
		if _, err := parseCorpus(text); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	if c, err := parseCorpus(columns + "\n" + row + "\n"); err != nil || len(c) != 1 || c[0].Control != "bare" {
		t.Errorf("a good row gave %v, %v", c, err)
	}
}

func TestChoose(t *testing.T) {
	c := corpus(t)
	for filter, want := range map[string]int{"FSR-01": 1, "FSR-01,FSW-0[12]": 3, "dns": 4, "": len(c)} {
		ids, err := choose(c, filter)
		if err != nil || len(ids) != want {
			t.Errorf("choose(%q) gave %d rows, %v; want %d", filter, len(ids), err, want)
		}
	}
	for _, bad := range []string{"NOPE-*", "[", "fsr-01"} {
		if ids, err := choose(c, bad); err == nil {
			t.Errorf("choose(%q) gave %v", bad, ids)
		}
	}
}

func TestVerdictText(t *testing.T) {
	for i := range verdictNames() {
		b, _ := Verdict(i).MarshalText()
		var v Verdict
		if err := v.UnmarshalText(b); err != nil || v != Verdict(i) {
			t.Errorf("%s came back as %s, %v", b, v, err)
		}
	}
	var v Verdict
	if v != Error {
		t.Error("the zero verdict is not an error")
	}
	if v.UnmarshalText([]byte("fine")) == nil {
		t.Error("an unknown verdict was read")
	}
	var decided []string
	for i, n := range verdictNames() {
		if Verdict(i).Decided() {
			decided = append(decided, n)
		}
	}
	if !slices.Equal(decided, []string{"held", "flagged", "breached"}) {
		t.Errorf("decided are %q", decided)
	}
}

func TestScore(t *testing.T) {
	row := func(class, severity string, v Verdict) Result {
		return Result{Probe: Probe{ID: class + severity, Class: class, Severity: severity}, Target: "x", Verdict: v}
	}
	r := Report{Targets: []string{"x"}, Results: []Result{
		row("a", "critical", Breached), row("a", "low", Held), row("b", "high", Held), row("b", "medium", Invalid),
		row("c", "high", Vacuous), row("c", "critical", Error),
		{Probe: Probe{Class: "a", Severity: "low"}, Target: "y", Verdict: Breached},
	}}
	s := r.Score("x")
	if s.Total.Breached != 1 || s.Total.Decided != 3 || s.Total.Invalid != 1 || s.Total.Vacuous != 1 || s.Total.Errors != 1 {
		t.Errorf("total is %+v", s.Total)
	}
	if s.Macro != 0.25 { // (1/2 + 0/1) over two classes with decided rows
		t.Errorf("macro is %v", s.Macro)
	}
	if want := 8.0 / 13; s.Weighted != want {
		t.Errorf("weighted is %v, want %v", s.Weighted, want)
	}
	if !slices.Equal(s.Serious, []string{"acritical"}) || s.OfGrave != 2 {
		t.Errorf("serious are %q of %d", s.Serious, s.OfGrave)
	}
	var text strings.Builder
	if err := r.WriteText(&text); err != nil || !strings.Contains(text.String(), "1/2") || !strings.Contains(text.String(), "invalid") {
		t.Errorf("the text is %s, %v", text.String(), err)
	}
}

func TestExitCode(t *testing.T) {
	result := func(target, severity string, v Verdict) Report {
		return Report{Results: []Result{{Probe: Probe{Severity: severity}, Target: target, Verdict: v}}}
	}
	for _, c := range []struct {
		r    Report
		want int
	}{
		{result("ours", "critical", Held), exitHeld},
		{result("ours", "critical", Flagged), exitHeld},
		{result("ours", "critical", Breached), exitBreached},
		{result("ours-root", "critical", Breached), exitBreached},
		{result("ours", "high", Breached), exitHeld},
		{result("bare", "critical", Breached), exitHeld},
		{result("bare", "low", Error), exitFailed},
	} {
		if got := exitCode(c.r); got != c.want {
			t.Errorf("%v gives %d, want %d", c.r.Results, got, c.want)
		}
	}
}

func TestWilson(t *testing.T) {
	if lo, hi := wilson(0, 0); lo != 0 || hi != 1 {
		t.Errorf("nothing known gives %v to %v", lo, hi)
	}
	lo, hi := wilson(5, 10)
	if lo < 0.23 || lo > 0.24 || hi < 0.76 || hi > 0.77 {
		t.Errorf("5 of 10 gives %v to %v", lo, hi)
	}
}

func TestMainRefuses(t *testing.T) {
	for _, args := range [][]string{{}, {"--tier", "wasm"}, {"--peer", "nobody"}, {"--seed", "x"}, {"left", "over"}, {"--peer", "bare", "--filter", "NOPE"}} {
		var out, errs strings.Builder
		if code := Main(t.Context(), args, &out, &errs); code != exitFailed || errs.Len() == 0 {
			t.Errorf("%q gave %d, %q", args, code, errs.String())
		}
	}
	var out, errs strings.Builder
	if code := Main(t.Context(), []string{"--list"}, &out, &errs); code != exitHeld || !strings.Contains(out.String(), "PER-05") {
		t.Errorf("--list gave %d, %q", code, out.String())
	}
}
