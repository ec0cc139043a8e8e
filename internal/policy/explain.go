package policy

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/caisson-dev/caisson/api"
)

// Explain says a plan in words: each promise with its strength on this host
// and who asked for it.
func Explain(p *Plan) string {
	var b strings.Builder
	width := 0
	for _, pt := range p.Points {
		width = max(width, len(pt.Name))
	}
	for _, pt := range p.Points {
		fmt.Fprintf(&b, "%-*s  %-4s  %s (%s)\n", width, pt.Name, pt.Strength, oneLine(pt.Value), oneLine(place(pt.Origin)))
		if pt.Strength != api.StrengthHard && pt.Reason != "" {
			fmt.Fprintf(&b, "%-*s        because %s\n", width, "", oneLine(pt.Reason))
		}
		if pt.Loss != "" && pt.Origin.User {
			fmt.Fprintf(&b, "%-*s        accepted: %s\n", width, "", pt.Loss)
		}
	}
	for _, w := range p.Warnings {
		fmt.Fprintf(&b, "warning: %s\n", w)
	}
	fmt.Fprintf(&b, "policy %s\n", p.Digest)
	return b.String()
}

// Explanation is a plan for programs.
type Explanation struct {
	Tier     api.Tier    `json:"tier"`
	Image    string      `json:"image"`
	Digest   string      `json:"digest"`
	Points   []api.Point `json:"points"`
	Accepted []api.Loss  `json:"accepted,omitzero"`
	Warnings []string    `json:"warnings,omitzero"`
}

// ExplainJSON says a plan as JSON.
func ExplainJSON(p *Plan) ([]byte, error) {
	text, err := json.MarshalIndent(Explanation{
		Tier: p.Tier, Image: p.Image, Digest: p.Digest, Points: p.Points, Accepted: p.Accepted, Warnings: p.Warnings,
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("marshal plan: %w", err)
	}
	return append(text, '\n'), nil
}
