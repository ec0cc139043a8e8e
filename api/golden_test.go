package api_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caisson-dev/caisson/api"
)

// What programs of others read is stable: a change of these texts is a change of
// the API, with an entry in the change log.
func TestJSONIsStable(t *testing.T) {
	at := time.Date(2026, 11, 30, 23, 59, 1, 2, time.UTC)
	decision := api.Decision{
		Action: api.ActionAllow, Verb: "connect", Target: "api.github.com:443", Rule: "@github",
		Origin: api.Origin{Source: "policy.yaml", Line: 7, User: true}, Reason: "it is listed", Hint: "none",
	}
	for _, c := range []struct {
		name  string
		value any
		back  func() any
		want  string
	}{
		{"decision", decision, func() any { return new(api.Decision) }, `{"action":"allow","verb":"connect","target":"api.github.com:443","rule":"@github","origin":{"source":"policy.yaml","line":7,"user":true},"reason":"it is listed","hint":"none"}`},
		{"zero decision", api.Decision{}, func() any { return new(api.Decision) }, `{"action":"deny","verb":"","target":"","origin":{"source":""}}`},
		{
			"event",
			api.Event{
				Seq: 3, Time: at, Sandbox: "abc", Kind: api.EventDecision, Decision: &decision, Process: &api.Process{PID: 9, Executable: "/bin/x"},
				Data: map[string]string{"b": "2", "a": "1"}, Message: "m", Previous: "00ff",
			},
			func() any { return new(api.Event) },
			`{"seq":3,"time":"2026-11-30T23:59:01.000000002Z","sandbox":"abc","kind":"decision","decision":{"action":"allow","verb":"connect","target":"api.github.com:443","rule":"@github","origin":{"source":"policy.yaml","line":7,"user":true},"reason":"it is listed","hint":"none"},"process":{"pid":9,"executable":"/bin/x"},"data":{"a":"1","b":"2"},"message":"m","previous":"00ff"}`,
		},
		{"small event", api.Event{Seq: 1, Time: at, Sandbox: "abc", Kind: api.EventCreated}, func() any { return new(api.Event) }, `{"seq":1,"time":"2026-11-30T23:59:01.000000002Z","sandbox":"abc","kind":"created"}`},
		{
			"sandbox",
			api.Sandbox{ID: "abc", Tier: api.TierProcess, Image: "host", State: api.StateRunning, Created: at, Policy: "sha256:00", Points: []api.Point{{Name: "network", Value: "sealed", Strength: api.StrengthHard}}},
			func() any { return new(api.Sandbox) },
			`{"id":"abc","tier":"process","image":"host","state":"running","created":"2026-11-30T23:59:01.000000002Z","policy":"sha256:00","points":[{"name":"network","value":"sealed","strength":"hard","origin":{"source":""}}]}`,
		},
		{"error", &api.Error{Code: api.CodePolicy, Message: "m", Hint: "h"}, func() any { return new(api.Error) }, `{"code":"policy","message":"m","hint":"h"}`},
	} {
		got, err := json.Marshal(c.value)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if diff := cmp.Diff(c.want, string(got)); diff != "" {
			t.Errorf("%s: the JSON has changed (-want +got):\n%s", c.name, diff)
		}
		back := c.back()
		if err := json.Unmarshal([]byte(c.want), back); err != nil {
			t.Errorf("%s does not come back: %v", c.name, err)
		}
		if again, err := json.Marshal(back); err != nil || string(again) != c.want {
			t.Errorf("%s comes back as %s, %v", c.name, again, err)
		}
	}
}
