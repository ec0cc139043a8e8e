package escape

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// control is what the two controls of a row showed on this machine.
type control struct {
	ok     bool
	reason string
}

// run judges every probe against every target and gives each result as soon
// as it is there. The order is the seed's.
func (l *lab) run(ctx context.Context, emit func(Result) error) error {
	corpus, err := Corpus()
	if err != nil {
		return err
	}
	corpus = slices.DeleteFunc(corpus, func(p Probe) bool { return !slices.Contains(l.IDs, p.ID) })
	l.rng.Shuffle(len(corpus), func(i, j int) { corpus[i], corpus[j] = corpus[j], corpus[i] })
	for _, name := range l.Targets {
		for _, p := range corpus {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			begin := time.Now()
			r := l.judge(p, name)
			r.Millis = time.Since(begin).Milliseconds()
			if err := emit(r); err != nil {
				return fmt.Errorf("write verdict: %w", err)
			}
		}
	}
	return nil
}

// judge gives the verdict of one probe on one target.
func (l *lab) judge(p Probe, name string) Result {
	tg := l.targets[name]
	r := Result{Probe: p, Target: name}
	if !strings.Contains(p.Tiers, tg.tier()) {
		r.Verdict, r.Reason = NotApplicable, "the row is not for this tier"
		return r
	}
	if why, ok := strings.CutPrefix(p.Observe, "metric "); ok {
		r.Verdict, r.Reason = NotApplicable, why
		return r
	}
	out := l.rounds(p, tg, &r)
	if out.err == nil && out.na == "" && out.started && name == "bare" && p.Control == "bare" && out.breached {
		// The run itself is the positive control.
		l.setControl(p, control{ok: true})
	}
	switch {
	case out.na != "":
		r.Verdict, r.Reason = NotApplicable, strings.TrimPrefix(out.na, errNotHere.Error()+": ")
		return r
	case out.err != nil && !out.breached:
		r.Verdict, r.Reason = Error, out.err.Error()
	case out.breached:
		r.Verdict = Breached
	case !out.started && tg.refused(out.output):
		// It said so, and ran nothing: as safe as can be, and no answer to the row.
		r.Verdict, r.Reason = NotApplicable, "the product refuses what the row asks here"+lastLines(out.output)
		return r
	case !out.started && p.Observe != "ran" && !strings.HasPrefix(p.Observe, "ran "):
		r.Verdict, r.Reason = Error, "the program inside did not start"+lastLines(out.output)
	case out.flagged:
		r.Verdict = Flagged
	default:
		r.Verdict = Held
	}
	r.Evidence, r.Output = out.evidence, out.output
	if r.Verdict == Error {
		return r
	}
	if c := l.control(p); !c.ok {
		r.Verdict, r.Reason = Invalid, c.reason
		return r
	}
	if r.Verdict == Held {
		if gate := l.gate(p, name); gate != "" {
			r.Verdict, r.Reason = Vacuous, gate
		}
	}
	return r
}

// rounds runs a row as often as asked; one breach in any round counts. A
// harness error is tried once more: the machine may be busy.
func (l *lab) rounds(p Probe, tg target, r *Result) outcome {
	var out outcome
	for n := range max(1, l.Rounds) {
		got := l.try(p, tg, false)
		if got.err != nil || !got.started && got.na == "" {
			got = l.try(p, tg, false)
		}
		r.Rounds++
		if n == 0 || got.breached || got.err != nil {
			out = got
		}
		if out.breached || out.na != "" {
			break
		}
	}
	return out
}

func (l *lab) setControl(p Probe, c control) {
	if _, known := l.controls[p.ID]; known {
		return
	}
	if c.ok {
		c = l.negative(p, bare{})
	}
	l.controls[p.ID] = c
}

// control runs the two controls of a row once: the positive must breach, the
// negative must hold.
func (l *lab) control(p Probe) control {
	if c, known := l.controls[p.ID]; known {
		return c
	}
	tg, wrap, err := l.controlTarget(p)
	if err != nil {
		c := control{reason: err.Error()}
		l.controls[p.ID] = c
		return c
	}
	if wrap != "" {
		p.Plant = strings.TrimPrefix(p.Plant+"; launcher "+wrap, "; ")
	}
	out := l.try(p, tg, false)
	if !out.breached { // a busy machine gets a second chance
		out = l.try(p, tg, false)
	}
	var c control
	switch {
	case out.na != "":
		c = control{reason: "the positive control cannot be made: " + strings.TrimPrefix(out.na, errNotHere.Error()+": ")}
	case out.err != nil && !out.breached:
		c = control{reason: "the positive control failed: " + out.err.Error()}
	case !out.breached:
		c = control{reason: "the positive control (" + p.Control + ") did not breach: " + out.evidence + lastLines(out.output)}
	default:
		if wrap == "litter" { // it is the launcher that acts
			p.Plant = strings.ReplaceAll(p.Plant, "launcher litter", "")
		}
		c = l.negative(p, tg)
	}
	l.controls[p.ID] = c
	return c
}

// negative runs a row with its action taken out: nothing may breach. Rows that
// look at a state, and need no action for it, run in the lab's own whole box
// instead.
func (l *lab) negative(p Probe, tg target) control {
	out := outcome{}
	if observer, _ := cut(p.Observe); observer == "caps" || observer == "joined" {
		if !l.Root {
			return control{reason: "the box of the negative control needs root"}
		}
		out = l.try(p, weak{kind: whole}, false)
	} else {
		out = l.try(p, tg, true)
	}
	if out.breached {
		return control{reason: "the negative control breached: " + out.evidence}
	}
	if out.err != nil {
		return control{reason: "the negative control failed: " + out.err.Error()}
	}
	if !out.started && out.na == "" {
		return control{reason: "the negative control did not start" + lastLines(out.output)}
	}
	return control{ok: true}
}

func lastLines(s string) string {
	if s = strings.TrimSpace(s); s == "" {
		return ""
	}
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }), " / ")
	return " (" + s[max(0, len(s)-200):] + ")"
}

// controlTarget finds what must breach: the run without a sandbox, a weak box
// of the lab, or a careless launcher around the bare program.
func (l *lab) controlTarget(p Probe) (target, string, error) {
	kind, what, _ := strings.Cut(p.Control, ":")
	switch {
	case p.Control == "bare":
		return bare{}, "", nil
	case kind == "launcher":
		return bare{}, what, nil
	case kind == "weakbox" && !l.Root:
		return nil, "", errors.New("the weak box of the positive control needs root")
	case kind == "weakbox" && slices.Contains(weakKinds(), what):
		return weak{kind: what}, "", nil
	}
	return nil, "", fmt.Errorf("unknown control %s", p.Control)
}

// gate asks once per target and kind of proof whether a breach could have
// been seen at all: what a program prints comes out, what it writes into its
// workspace reaches the host.
func (l *lab) gate(p Probe, name string) string {
	observer, _ := cut(p.Observe)
	probe := Probe{ID: "gate-print", Tiers: "PCGVW", How: "run", Plant: "secret WS/gate", Action: "fs read WS/gate", Observe: "secret"}
	text := "what programs print does not come out"
	switch observer {
	case "marker", "exists", "refs", "size", "count", "beating", "special", "owner":
		probe = Probe{ID: "gate-write", Tiers: "PCGVW", How: "run", Action: "fs write WS/gate", Observe: "marker WS/gate"}
		text = "what programs write into the workspace does not reach the host"
	}
	key := name + " " + probe.ID
	if known, ok := l.gates[key]; ok {
		return known
	}
	if out := l.try(probe, l.targets[name], false); out.breached || out.flagged {
		text = ""
	}
	l.gates[key] = text
	return text
}
