package policy

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/caisson-dev/caisson/api"
)

// explained is a plan with a point of each kind, and text that a person could
// have written to bend a terminal.
func explained() *Plan {
	return &Plan{
		Tier: api.TierProcess, Image: "host", Digest: "sha256:00", Warnings: []string{"careful"}, Accepted: []api.Loss{api.LossSoftLimits},
		Points: []api.Point{
			{Name: "network", Value: "sealed", Strength: api.StrengthHard, Origin: api.Origin{Source: "default"}},
			{
				Name: "limits.memory", Value: "at most 2GiB", Strength: api.StrengthSoft, Reason: "no cgroup", Loss: api.LossSoftLimits,
				Origin: api.Origin{Source: "p.yaml", Line: 3, User: true},
			},
			{Name: "limits.pids", Value: "at most 9", Reason: "no way to count", Origin: api.Origin{Source: "preset base", Line: 10}},
			{Name: "filesystem.read[0]", Value: "/a\x1b[2J read-only", Strength: api.StrengthHard, Origin: api.Origin{Source: "flag --read", User: true}},
		},
	}
}

func TestExplain(t *testing.T) {
	want := strings.Join([]string{
		`network             hard  sealed (default)`,
		`limits.memory       soft  at most 2GiB (p.yaml:3)`,
		`                          because no cgroup`,
		`                          accepted: soft-limits`,
		`limits.pids         none  at most 9 (preset base:10)`,
		`                          because no way to count`,
		`filesystem.read[0]  hard  /a\x1b[2J read-only (flag --read)`,
		`warning: careful`,
		`policy sha256:00`,
		``,
	}, "\n")
	if diff := cmp.Diff(want, Explain(explained())); diff != "" {
		t.Error(diff)
	}
}

func TestExplainJSON(t *testing.T) {
	p := explained()
	text, err := ExplainJSON(p)
	if err != nil {
		t.Fatal(err)
	}
	var e Explanation
	if err := json.Unmarshal(text, &e); err != nil {
		t.Fatal(err)
	}
	want := Explanation{Tier: p.Tier, Image: p.Image, Digest: p.Digest, Points: p.Points, Accepted: p.Accepted, Warnings: p.Warnings}
	if diff := cmp.Diff(want, e); diff != "" {
		t.Error(diff)
	}
}

// TestPolicyJSON: a policy survives JSON, with lists that are empty and lists
// that are absent kept apart.
func TestPolicyJSON(t *testing.T) {
	_, example, _ := strings.Cut(policyDoc(t), "```yaml\n")
	example, _, _ = strings.Cut(example, "```")
	for name, text := range map[string]string{
		"example": example,
		"empty":   "version: 1\nworkspace: {home: []}\nfilesystem: {read: []}\nnetwork: {allow: [{host: a.example.org, methods: [], ports: []}], deny: []}\nenv: {}\n",
		"absent":  "version: 1\nnetwork: {allow: [{host: a.example.org}]}\n",
	} {
		f, err := Parse(name, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(f.Policy)
		if err != nil {
			t.Fatal(err)
		}
		var back api.Policy
		if err := json.Unmarshal(b, &back); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(f.Policy, back); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}
