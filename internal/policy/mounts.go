package policy

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/caisson-dev/caisson/api"
)

// layRoot lays the system of base and what every box has of its own.
func (r *resolver) layRoot() error {
	if r.m.Image != "host" {
		r.layOwn()
		return r.promise(api.Point{
			Name: "filesystem", Value: "the image " + r.m.Image + "; nothing of the host but what follows", Strength: r.mountStrength().Strength,
			Reason: r.mountStrength().Reason, Origin: r.m.origin("image"),
		}, r.mountStrength().Fix)
	}
	var links []string
	var shown []string
	base := r.m.origin("filesystem.read")
	for _, p := range r.m.Filesystem.Read[:r.baseReads] {
		real, mode, err := r.files.real(p)
		if err != nil || !mode.IsDir() && !mode.IsRegular() {
			continue
		}
		shown = append(shown, p)
		if r.files.at(p).link != "" {
			links = append(links, p)
			continue
		}
		r.mounts = append(r.mounts, Mount{
			Kind: MountBind, Source: real, Target: p, Optional: true, Origin: base,
		})
	}
	r.keepLinks(links)
	r.layOwn()
	r.layBrowser()
	f := r.mountStrength()
	return r.promise(api.Point{
		Name: "filesystem", Value: "the host's system read-only (" + summary(shown) + "); nothing else of the host but what follows; private /tmp, /run and home",
		Strength: f.Strength, Reason: f.Reason, Origin: api.Origin{Source: "default"},
	}, f.Fix)
}

// keepLinks keeps a link as a link where all it leads through is visible, and
// else shows what it leads to in its place.
func (r *resolver) keepLinks(links []string) {
	for _, p := range links {
		real, _, _ := r.files.real(p) // looked at before, without error
		text := r.files.at(p).link
		hop := text
		if !path.IsAbs(hop) {
			hop = path.Join(path.Dir(p), hop)
		}
		hop = path.Clean(hop)
		origin := api.Origin{Source: "preset base"}
		if r.covered(real) && (r.covered(hop) || slices.Contains(links, hop)) {
			r.links[p] = true
			r.mounts = append(r.mounts, Mount{Kind: MountLink, Source: text, Target: p, Origin: origin})
			continue
		}
		r.mounts = append(r.mounts, Mount{Kind: MountBind, Source: real, Target: p, Optional: true, Origin: origin})
	}
}

// covered reports whether a host path is visible at its own name.
func (r *resolver) covered(p string) bool {
	m := r.cover(p)
	return m != nil && m.Kind == MountBind && m.Source+p[len(m.Target):] == p
}

// cover is the mount that a path inside lies in: the deepest one. Nil: only the
// empty root.
func (r *resolver) cover(p string) *Mount {
	var best *Mount
	for i := range r.mounts {
		m := &r.mounts[i]
		if within(p, m.Target) && (best == nil || len(m.Target) >= len(best.Target)) {
			best = m
		}
	}
	return best
}

// inSystem reports whether a path lies in the folders of base.
func (r *resolver) inSystem(p string) bool {
	return slices.ContainsFunc(r.m.Filesystem.Read[:r.baseReads], func(b string) bool { return within(p, b) })
}

// layOwn lays what is the box's own: kernel files, private folders, made-up
// files.
func (r *resolver) layOwn() {
	size := int64(r.m.Limits.Disk)
	own := api.Origin{Source: "default"}
	r.mounts = append(r.mounts,
		Mount{Kind: MountProc, Target: "/proc", Origin: own},
		Mount{Kind: MountDev, Target: "/dev", Writable: true, Origin: own},
		Mount{Kind: MountTmpfs, Target: "/tmp", Writable: true, Mode: 0o1777, Size: size, Origin: own},
		Mount{Kind: MountTmpfs, Target: "/var/tmp", Writable: true, Mode: 0o1777, Size: size, Origin: own},
		Mount{Kind: MountTmpfs, Target: "/run", Writable: true, Mode: 0o755, Size: size, Origin: own},
		Mount{Kind: MountTmpfs, Target: r.home, Writable: true, Mode: 0o700, Size: size, Origin: own},
		Mount{Kind: MountLink, Source: "/run", Target: "/var/run", Origin: own},
		Mount{Kind: MountLink, Source: "/proc/self/mounts", Target: "/etc/mtab", Origin: own},
	)
	for _, f := range madeUp(&r.plan.User) {
		r.mounts = append(r.mounts, Mount{Kind: MountFile, Target: "/etc/" + f.name, Mode: 0o644, Data: []byte(f.data), Origin: own})
	}
}

type madeFile struct{ name, data string }

// madeUp are the files of /etc that would say too much, or name people and
// places that are not inside.
func madeUp(u *User) []madeFile {
	uid, gid := strconv.Itoa(u.UID), strconv.Itoa(u.GID)
	passwd := "root:x:0:0:root:/:/usr/sbin/nologin\n" + u.Name + ":x:" + uid + ":" + gid + "::" + u.Home + ":" + u.Shell + "\n"
	group := "root:x:0:\n"
	if u.GID != 0 {
		group += u.Group + ":x:" + gid + ":\n"
	}
	if u.UID != nobody {
		passwd += "nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n"
	}
	if u.GID != nobody {
		group += "nogroup:x:65534:\n"
	}
	return []madeFile{
		{"passwd", passwd},
		{"group", group},
		{"nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\nprotocols: files\nservices: files\nethers: files\nrpc: files\n"},
		{"hosts", "127.0.0.1 localhost\n127.0.1.1 " + hostname + "\n::1 localhost ip6-localhost ip6-loopback\n"},
		// Sealed: nothing answers, and the loopback says so at once.
		{"resolv.conf", "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n"},
		{"hostname", hostname + "\n"},
		{"machine-id", machineID + "\n"},
	}
}

// machineID is the same in every box, so that it says nothing of the host.
const machineID = "ca155000ca155000ca155000ca155000"

// summary names the top of a list of paths, and counts those of /etc.
func summary(paths []string) string {
	var names []string
	etc := 0
	for _, p := range paths {
		if strings.HasPrefix(p, "/etc/") {
			etc++
			continue
		}
		names = append(names, p)
	}
	return strings.Join(names, ", ") + ", " + strconv.Itoa(etc) + " parts of /etc"
}

// settle puts the mounts in their order, parents first, and takes out what
// could not be made or would change nothing.
func (r *resolver) settle() error {
	slices.SortStableFunc(r.mounts, func(a, b Mount) int { return comparePaths(a.Target, b.Target) })
	all := r.mounts
	r.mounts = make([]Mount, 0, len(all))
	var above []int // the kept mounts that the next one may lie in, the deepest last
	for i := 0; i < len(all); {
		m := all[i]
		for i++; i < len(all) && all[i].Target == m.Target; i++ {
			m = stronger(m, all[i])
		}
		for len(above) > 0 && !within(m.Target, r.mounts[above[len(above)-1]].Target) {
			above = above[:len(above)-1]
		}
		var up *Mount
		if len(above) > 0 {
			up = &r.mounts[above[len(above)-1]]
		}
		if r.needed(m, up) {
			above = append(above, len(r.mounts))
			r.mounts = append(r.mounts, m)
		}
	}
	r.plan.Mounts = r.mounts
	if r.plan.Dir == "" {
		r.plan.Dir = r.home
		cwd, _, err := r.files.real(r.caller.Dir)
		if err == nil && r.covered(cwd) {
			r.plan.Dir = cwd
		}
	}
	return nil
}

// pastLinks moves what is named by a link in a folder that is shown to where
// that link leads: the link is there inside too, and nothing is mounted over it.
// It is done when all grants are known, since their order means nothing, and
// before hides look for the places that show something.
func (r *resolver) pastLinks() error {
	for i := range r.mounts {
		m := &r.mounts[i]
		if m.Kind != MountBind || m.Source == m.Target || m.Target == r.plan.Workspace.Target {
			continue
		}
		up := r.cover(path.Dir(m.Target))
		if up != nil && up.Kind == MountBind && join2(up.Source, m.Target[len(up.Target)+1:]) != m.Source {
			m.Target = m.Source
		}
	}
	return nil
}

// stronger chooses between two mounts of one target: a hide over all, what the
// host shows over what is made up, writable over read-only.
func stronger(a, b Mount) Mount {
	switch {
	case a.Kind == MountHide || b.Kind == MountHide:
		if a.Kind == MountHide {
			return a
		}
		return b
	case a.Kind != MountBind && b.Kind == MountBind:
		return b
	case a.Kind == MountBind && b.Kind != MountBind:
		return a
	case b.Writable && !a.Writable:
		return b
	}
	return a
}

// needed reports whether a mount can be made and changes something; up is the
// mount that it lies in, nil for the empty root.
func (r *resolver) needed(m Mount, up *Mount) bool {
	if up == nil || up.Kind != MountBind {
		return up == nil || up.Kind != MountHide
	}
	onHost := path.Join(up.Source, m.Target[len(up.Target):])
	switch m.Kind {
	case MountBind:
		// The same file, seen through its parent already.
		return r.pinned[m.Target] || onHost != m.Source || m.Writable && !up.Writable || m.IDMap && !up.IDMap
	case MountFile, MountLink:
		l := r.files.at(onHost)
		return l.err == nil && m.Kind == MountFile && l.mode&fs.ModeSymlink == 0
	}
	return true
}

// comparePaths orders a folder before what is in it.
func comparePaths(a, b string) int {
	for i := 0; i < len(a) && i < len(b); i++ {
		if a[i] == b[i] {
			continue
		}
		switch {
		case a[i] == '/':
			return -1
		case b[i] == '/':
			return 1
		}
		return int(a[i]) - int(b[i])
	}
	return len(a) - len(b)
}
