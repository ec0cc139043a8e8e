package escape

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every row must be whole: a program inside, an observer outside, a positive
// control that can be made, and an action to take out for the negative one.
func TestEveryRowIsWhole(t *testing.T) {
	inside := programActions(t)
	for _, p := range corpus(t) {
		if strings.HasPrefix(p.Observe, "metric ") {
			continue // a number: no verdict rests on it
		}
		if courses()[p.How] == nil {
			t.Errorf("%s: no course %q", p.ID, p.How)
		}
		for _, cell := range strings.Split(p.Action, " | ") {
			if name, _ := cut(cell); !inside[name] {
				t.Errorf("%s: no program %q", p.ID, name)
			}
		}
		if name, _ := cut(p.Observe); observers()[name] == nil {
			t.Errorf("%s: no observer %q", p.ID, name)
		}
		for _, cell := range strings.Split(p.Plant, "; ") {
			if name, _ := cut(cell); name != "" && plants()[name] == nil {
				t.Errorf("%s: no plant %q", p.ID, name)
			}
		}
		l := &lab{spec: spec{Root: true}}
		if _, _, err := l.controlTarget(p); err != nil {
			t.Errorf("%s: %v", p.ID, err)
		}
		name, _ := cut(p.Action)
		observer, _ := cut(p.Observe)
		state := observer == "caps" || observer == "joined" // the negative control is the lab's whole box
		if name == "noop" && !state && !strings.Contains(p.Action, " | ") {
			t.Errorf("%s: no action that a negative control could take out", p.ID)
		}
	}
}

// programActions reads the names that the program inside knows.
func programActions(t *testing.T) map[string]bool {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("probe", "actions_linux.go"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(b), "return map[string]func(escape.Job){")
	if !ok {
		t.Fatal("no table of actions")
	}
	names := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\t\t"([a-z0-9]+)":`).FindAllStringSubmatch(table, -1) {
		names[m[1]] = true
	}
	return names
}

func TestWindows(t *testing.T) {
	const marker = "00ff"
	mark := func(tid uint32, at, which uint64) sysCall {
		return sysCall{tid: tid, time: at, nr: 3, args: []uint64{MarkerCall | 0xff<<32 | 0xfffff000 | which}}
	}
	calls := []sysCall{
		{tid: 1, time: 1, nr: 425, done: true}, // before the mark: not the probe's
		mark(1, 2, 1),
		{tid: 2, time: 3, nr: 425, done: true}, // another thread
		{tid: 1, time: 5, nr: 425, ret: -14, done: true},
		{tid: 1, time: 4, nr: 425, args: []uint64{1}}, // out of order, as from another processor
		mark(1, 6, 2),
		{tid: 1, time: 7, nr: 425, done: true},
	}
	ws := windows(calls, marker)
	if len(ws) != 1 || len(ws[0]) != 2 || ws[0][1].ret != -14 {
		t.Fatalf("windows are %+v", ws)
	}
	if hit, text := reached(calls, marker, "io_uring"); !hit || text != "R:425=-14" {
		t.Errorf("a call that entered gives %v %q", hit, text)
	}
	filtered := slices.DeleteFunc(slices.Clone(calls), func(c sysCall) bool { return c.time == 4 })
	if hit, _ := reached(filtered, marker, "io_uring"); hit {
		t.Error("a call that a filter refused counts as reached")
	}
	if hit, text := reached(calls, "0001", "io_uring"); hit || !strings.HasPrefix(text, "A") {
		t.Errorf("another job's marks give %v %q", hit, text)
	}
	if ws := windows(calls[:5], marker); len(ws) != 1 {
		t.Errorf("a killed program gives %d windows", len(ws))
	}
}

func TestReportIsNotTheBoxes(t *testing.T) {
	dir := t.TempDir()
	tr := &trial{l: &lab{home: dir}, name: "n", ws: dir}
	report := `{"kind":"flagged","data":{"path":".mcp.json"}}
{"kind":"decision","data":{"path":"other"}}
not json
`
	if err := os.WriteFile(tr.reportPath(), []byte(report), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := (ours{}).reported(tr); !slices.Equal(got, []string{".mcp.json"}) {
		t.Errorf("reported are %q", got)
	}
	for reported, want := range map[string]bool{".mcp.json": true, "/w/.mcp.json": true, ".": true, ".mcp": false, "/other": false} {
		if covers(reported, "/w/.mcp.json", "/w") != want {
			t.Errorf("%q covers /w/.mcp.json: %v", reported, !want)
		}
	}
}

func TestPolicyOfATrial(t *testing.T) {
	tr := &trial{ws: `/w "x"`, grant: grant{deny: []string{"/w/.env"}, limits: map[string]string{"pids": "5"}, wall: 2e9}}
	want := `version: 1
tier: process
workspace:
  path: "/w \"x\""
  mode: direct
filesystem:
  hide: ["/w/.env"]
accept: ["host-edits", "soft-limits"]
limits:
  pids: 5
lifetime:
  wall: 2s
`
	if got := tr.policy(); got != want {
		t.Errorf("the policy is\n%s", got)
	}
}
