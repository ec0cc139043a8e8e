package api

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Bytes is a size in bytes, written "4GiB", "64KiB" or "1048576" in files.
type Bytes int64

// byteUnits are the units of Bytes, the largest first.
var byteUnits = [...]struct {
	name string
	size int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

// String writes the size in the largest unit that divides it: "4GiB", "1500".
func (b Bytes) String() string {
	for _, u := range byteUnits {
		if b != 0 && int64(b)%u.size == 0 {
			return strconv.FormatInt(int64(b)/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(b), 10)
}

// MarshalText writes the form of String.
func (b Bytes) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText accepts a whole number of bytes, or one followed by KiB, MiB,
// GiB or TiB. Decimal units are refused: half the world means something else.
func (b *Bytes) UnmarshalText(text []byte) error {
	s, unit := string(text), int64(1)
	for _, u := range byteUnits {
		if rest, ok := strings.CutSuffix(s, u.name); ok {
			s, unit = rest, u.size
			break
		}
	}
	n, err := wholeNumber(s)
	if err != nil || n > (1<<63-1)/unit {
		return fmt.Errorf("api: %q is no size: write 512MiB, 4GiB or a number of bytes", text)
	}
	*b = Bytes(n * unit)
	return nil
}

// Duration is a span of time, written "2h" or "1m30s" in files.
type Duration time.Duration

// String writes the span without parts that are zero: "2h", "1m30s".
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

// MarshalText writes the form of String.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText accepts what time.ParseDuration does, without a sign.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil || len(text) == 0 || text[0] == '-' || text[0] == '+' {
		return fmt.Errorf("api: %q is no span of time: write 30s, 10m or 2h", text)
	}
	*d = Duration(v)
	return nil
}

// wholeNumber reads decimal digits and nothing else.
func wholeNumber(s string) (int64, error) {
	if s == "" || s[0] == '+' || s[0] == '-' {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseInt(s, 10, 64)
}
