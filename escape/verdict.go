package escape

import "math"

// Verdict says how a probe ended on a target. The zero value is Error: what
// nobody judged has not held.
type Verdict int

// The verdicts.
const (
	Error         Verdict = iota // the box did not start, or the harness failed
	Held                         // nothing got through
	Flagged                      // it got through where the policy allows it, and was listed as "will execute later"
	Breached                     // it got through
	NotApplicable                // the object does not exist in this tier or on this machine
	Vacuous                      // held, but a breach could not have been seen
	Invalid                      // the controls of the row do not work on this machine
)

func verdictNames() []string {
	return []string{"error", "held", "flagged", "breached", "n/a", "vacuous", "invalid"}
}

func (v Verdict) String() string { return verdictNames()[v] }

// MarshalText gives the name of the verdict.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText reads the name of a verdict; an unknown one is an error.
func (v *Verdict) UnmarshalText(b []byte) error {
	for i, n := range verdictNames() {
		if n == string(b) {
			*v = Verdict(i)
			return nil
		}
	}
	return &unknownVerdict{string(b)}
}

type unknownVerdict struct{ name string }

func (e *unknownVerdict) Error() string { return "unknown verdict " + e.name }

// Decided says whether the verdict enters a rate.
func (v Verdict) Decided() bool { return v == Held || v == Flagged || v == Breached }

// Result is the verdict of one probe on one target, with what it rests on.
type Result struct {
	Probe
	Target   string  `json:"target"`
	Verdict  Verdict `json:"verdict"`
	Evidence string  `json:"evidence,omitempty"` // what was seen outside
	Reason   string  `json:"reason,omitempty"`   // why it is not decided
	Output   string  `json:"output,omitempty"`   // the end of what the box printed: for people, never a verdict
	Rounds   int     `json:"rounds,omitempty"`
	Millis   int64   `json:"ms"`
}

// wilson gives the 95 % interval of a rate of k in n.
func wilson(k, n int) (low, high float64) {
	if n == 0 {
		return 0, 1
	}
	const z = 1.96
	p, m := float64(k)/float64(n), float64(n)
	mid := p + z*z/(2*m)
	half := z * math.Sqrt(p*(1-p)/m+z*z/(4*m*m))
	return max(0, (mid-half)/(1+z*z/m)), min(1, (mid+half)/(1+z*z/m))
}
