//go:build linux

package stage

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSetupRoundTrip(t *testing.T) {
	s := &Setup{
		ID: "a1", Generation: 3, Hostname: "caisson", UID: 1000, GID: 1001, FromRoot: true, IDMap: true, Nested: true,
		Disk: 1 << 33, OpenFiles: 4096, CPUs: 1.5, Memory: 1 << 30, Pids: 77, Processors: 3,
		Mounts: []Mount{
			{Kind: MountBind, Source: "/a\xffb", Target: "/c", Writable: true, NoExec: true, Optional: true, IDMap: true},
			{Kind: MountFile, Target: "/etc/x", Mode: 0o600, Data: []byte{0, 1, 2}},
			{Kind: MountHide, Target: "/c/secret"},
		},
	}
	got, err := decodeSetup(s.encode())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s, got, cmp.AllowUnexported(Setup{})); diff != "" {
		t.Error(diff)
	}
}

func FuzzDecodeSetup(f *testing.F) {
	f.Add((&Setup{ID: "a", Mounts: []Mount{{Kind: MountProc, Target: "/proc"}}}).encode())
	f.Fuzz(func(t *testing.T, p []byte) {
		s, err := decodeSetup(p)
		if err != nil {
			return
		}
		again, err := decodeSetup(s.encode())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(s, again, cmp.AllowUnexported(Setup{})); diff != "" {
			t.Error(diff)
		}
	})
}

func TestRootRefusesUncleanTargets(t *testing.T) {
	r := &root{}
	for _, target := range []string{"", "/", "relative", "/a/../b", "/a/", "//a"} {
		if err := r.add(&Mount{Kind: MountLink, Target: target}); err == nil {
			t.Errorf("target %q was taken", target)
		}
	}
	if err := r.add(&Mount{Target: "/a"}); err == nil {
		t.Error("the zero kind of mount was taken")
	}
}
