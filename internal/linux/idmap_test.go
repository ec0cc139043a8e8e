//go:build linux

package linux

import "testing"

func TestKernelVersion(t *testing.T) {
	for _, c := range []struct {
		release      string
		major, minor int
		ok           bool
	}{
		{"6.18.44-fc-v669", 6, 18, true},
		{"5.15.0", 5, 15, true},
		{"6.1-rc1", 6, 1, true},
		{"6", 0, 0, false},
		{"", 0, 0, false},
		{"x.y", 0, 0, false},
	} {
		major, minor, ok := kernelVersion(c.release)
		if ok != c.ok || ok && (major != c.major || minor != c.minor) {
			t.Errorf("kernelVersion(%q) = %d, %d, %v", c.release, major, minor, ok)
		}
	}
}

func TestCanIDMap(t *testing.T) {
	if CanIDMap("/proc/self") {
		t.Error("proc can translate ids")
	}
	if CanIDMap("/does/not/exist") {
		t.Error("a folder that is not there can translate ids")
	}
}
