//go:build linux

package stage

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestViews(t *testing.T) {
	got := views([]byte("30 24 0:26 / /a rw shared:9 - ext4 /dev/vda rw\n" +
		"31 24 0:27 / /a/my\\040root/proc rw,nosuid shared:9 master:2 - proc none rw\n" +
		"32 24 0:28 / /a/sys rw - sysfs sysfs rw\n" +
		"33 24 0:29 / /a/x rw - tmpfs proc rw\nbroken\n"))
	if d := cmp.Diff([]string{"/a/my root/proc", "/a/sys"}, got); d != "" {
		t.Error(d)
	}
	s := &Setup{Mounts: []Mount{{Kind: MountBind, Target: "/a"}, {Kind: MountProc, Target: "/proc"}}}
	for p, want := range map[string]bool{"/a": true, "/a/sys": true, "/ab": false, "/proc": false} {
		if inBind(s, p) != want {
			t.Errorf("%s: %v", p, !want)
		}
	}
}
