package api_test

import (
	"testing"

	"github.com/caisson-dev/caisson/api"
)

func TestBytesText(t *testing.T) {
	for _, c := range []struct {
		in   string
		want api.Bytes
		out  string // "": refused
	}{
		{"4GiB", 4 << 30, "4GiB"},
		{"64KiB", 64 << 10, "64KiB"},
		{"1048576", 1 << 20, "1MiB"},
		{"1500", 1500, "1500"},
		{"0", 0, "0"},
		{"2TiB", 2 << 40, "2TiB"},
		{"9223372036854775807", 1<<63 - 1, "9223372036854775807"},
		{"8388608TiB", 0, ""},
		{"4GB", 0, ""},
		{"4G", 0, ""},
		{"1.5GiB", 0, ""},
		{"-1", 0, ""},
		{"+1", 0, ""},
		{"", 0, ""},
		{"GiB", 0, ""},
		{" 4GiB", 0, ""},
	} {
		var b api.Bytes
		err := b.UnmarshalText([]byte(c.in))
		if (err != nil) != (c.out == "") {
			t.Errorf("%q: error %v", c.in, err)
			continue
		}
		if err == nil && (b != c.want || b.String() != c.out) {
			t.Errorf("%q: %d %q, want %d %q", c.in, b, b, c.want, c.out)
		}
	}
}

func TestDurationText(t *testing.T) {
	for in, out := range map[string]string{
		"2h": "2h", "90s": "1m30s", "1h30m": "1h30m", "10m": "10m", "1h0m5s": "1h0m5s", "250ms": "250ms",
		"-2h": "", "+2h": "", "2": "", "": "", "1d": "", "2 h": "",
	} {
		var d api.Duration
		err := d.UnmarshalText([]byte(in))
		if (err != nil) != (out == "") {
			t.Errorf("%q: error %v", in, err)
			continue
		}
		if err == nil && d.String() != out {
			t.Errorf("%q: %q, want %q", in, d, out)
		}
	}
}
