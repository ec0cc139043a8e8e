package escape

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// signed are rows of high severity that are accepted though neither a loss nor
// a part that is not built yet: each was looked at by a person.
func signed() map[string]bool { return map[string]bool{"KRN-11": true} }

// checkExpected says what is wrong with a text of expected.tsv.
func checkExpected(corpus []Probe, text string) (wrong []string) {
	rows := map[string]Probe{}
	for _, p := range corpus {
		rows[p.ID] = p
	}
	reason := regexp.MustCompile(`^(not built|loss [a-z-]+): .`)
	seen := map[string]bool{}
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if lines[0] != "probe\ttier\tmode\tuid\texpected\twhy" {
		wrong = append(wrong, "another header")
	}
	for _, line := range lines[1:] {
		say := func(what string) { wrong = append(wrong, what+": "+line) }
		f := strings.Split(line, "\t")
		if len(f) != 6 {
			say("not six columns")
			continue
		}
		p, ok := rows[f[0]]
		uids := []string{f[3]}
		if f[3] == "any" {
			uids = []string{"user", "root"}
		}
		for _, uid := range uids {
			key := strings.Join(append(f[:3:3], uid), " ")
			if seen[key] {
				say("twice")
			}
			seen[key] = true
		}
		switch {
		case !ok || f[1] == "process" && !strings.Contains(p.Tiers, "P"):
			say("no such row")
		case f[3] != "any" && f[3] != "user" && f[3] != "root":
			say("uid")
		case f[4] != "held" && f[4] != "flagged" && f[4] != "accepted" && f[4] != "n/a":
			say("expected")
		case f[4] != "held" && f[5] == "":
			say("no reason")
		case f[4] == "accepted" && weights()[p.Severity] >= weights()["high"] && !reason.MatchString(f[5]) && !signed()[f[0]]:
			say("high, and neither a loss nor a part that is not built")
		}
	}
	return wrong
}

// missingExpected lists the rows for the process tier of which a text of
// expected.tsv expects nothing.
func missingExpected(corpus []Probe, text string) (missing []string) {
	for _, p := range corpus {
		for _, uid := range []string{"user", "root"} {
			line := regexp.MustCompile(`(?m)^` + p.ID + `\tprocess\tdirect\t(any|` + uid + `)\t`)
			if strings.Contains(p.Tiers, "P") && !line.MatchString(text) {
				missing = append(missing, p.ID+" as "+uid)
			}
		}
	}
	return missing
}

func TestExpected(t *testing.T) {
	text, err := os.ReadFile("expected.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range checkExpected(corpus(t), string(text)) {
		t.Error(w)
	}
	if m := missingExpected(corpus(t), string(text)); m != nil {
		t.Errorf("nothing is expected of %q", m)
	}
}

func TestExpectedIsStrict(t *testing.T) {
	const header = "probe\ttier\tmode\tuid\texpected\twhy\n"
	for name, row := range map[string]string{
		"no row":        "XXX-01\tprocess\tdirect\tany\theld\t",
		"an uid":        "FSR-01\tprocess\tdirect\tme\theld\t",
		"a word":        "FSR-01\tprocess\tdirect\tany\tbreached\tso it is",
		"no reason":     "INF-02\tprocess\tdirect\tany\taccepted\t",
		"n/a, and why":  "INF-02\tprocess\tdirect\tany\tn/a\t",
		"too severe":    "FSR-01\tprocess\tdirect\tany\taccepted\tso it is",
		"twice":         "FSR-01\tprocess\tdirect\tany\theld\t\nFSR-01\tprocess\tdirect\troot\theld\t",
		"column beside": "FSR-01\tprocess\tdirect\tany\theld\t\t",
	} {
		if checkExpected(corpus(t), header+row) == nil {
			t.Errorf("%s was passed", name)
		}
	}
	if w := checkExpected(corpus(t), header+"FSR-01\tprocess\tdirect\tany\taccepted\tloss nested: asked for"); w != nil {
		t.Error(w)
	}
	if m := missingExpected(corpus(t), header+"FSR-01\tprocess\tdirect\troot\theld\t"); !slices.Contains(m, "FSR-01 as user") ||
		slices.Contains(m, "FSR-01 as root") || !slices.Contains(m, "FSR-02 as root") {
		t.Errorf("missing are %q", m)
	}
}
