package policy

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/caisson-dev/caisson/api"
)

// findOpen lists the host folders that the box may write. A link in one of them
// may be the work of an earlier box: what it leads to is nobody's grant.
func (r *resolver) findOpen() error {
	if ws := r.plan.Workspace.Source; ws != "" {
		r.open = append(r.open, ws)
	}
	for _, p := range r.m.Filesystem.Write {
		if real, _, err := r.files.real(expand(p, r.caller)); err == nil {
			r.open = append(r.open, real)
		}
	}
	return nil
}

// throughOpen names a link that the last resolved path went through and that a
// box can change, "" if there is none.
func (r *resolver) throughOpen() string {
	for _, link := range r.files.passed {
		if slices.ContainsFunc(r.open, func(dir string) bool { return within(link, dir) }) {
			return link
		}
	}
	return ""
}

// grant makes visible what the policy names beyond base.
func (r *resolver) grant() error {
	for i, p := range r.m.Filesystem.Read[r.baseReads:] {
		if err := r.grantOne("filesystem.read", i, i+r.baseReads, p, false); err != nil {
			return err
		}
	}
	for i, p := range r.m.Filesystem.Write {
		if err := r.grantOne("filesystem.write", i, i, p, true); err != nil {
			return err
		}
	}
	return nil
}

func (r *resolver) grantOne(key string, i, at int, p string, write bool) error {
	if r.m.leftOut[item(key, at)] {
		return nil
	}
	origin := r.m.origin(item(key, at))
	name := expand(p, r.caller)
	real, mode, err := r.files.real(name)
	if err != nil {
		if !origin.User {
			return nil // presets name more than a host has
		}
		return fail(api.CodePolicy, origin, "check the name, or remove it", "%s %s: %s", key, quote(name), reason(err))
	}
	link := r.throughOpen()
	what, hint := r.ungrantable(real, mode, write)
	if what == "" && link != "" {
		what, hint = "the link "+quote(link)+" leads there, which the sandbox can change", "name what is meant itself: "+oneLine(real)
	}
	if what != "" {
		if !origin.User {
			r.warn(place(origin) + ": left out: " + key + " " + quote(p) + ": " + what)
			return nil
		}
		return fail(api.CodePolicy, origin, hint, "%s %s: %s", key, quote(p), what)
	}
	if s := r.secretIn(real); s != "" && origin.User {
		r.warn(place(origin) + ": " + key + " " + quote(p) + " shows keys to the sandbox (" + s + ")")
	}
	r.mounts = append(r.mounts, Mount{
		Kind: MountBind, Source: real, Target: r.inside(name), Writable: write,
		IDMap: origin.User && r.plan.User.IDMap && r.caller.CanIDMap(real), Optional: !origin.User, Origin: origin,
	})
	access := "read-only"
	if write {
		access = "read-write"
	}
	f := r.mountStrength()
	return r.promise(api.Point{
		Name: item(key, i), Value: name + " " + access, Strength: f.Strength, Reason: f.Reason, Origin: origin,
	}, f.Fix)
}

// inside is where a host path appears: at its own name, past those links of
// the system that are links inside too.
func (r *resolver) inside(name string) string {
	for i := 1; i < len(name); i++ {
		if name[i] != '/' || !r.links[name[:i]] {
			continue
		}
		if real, _, err := r.files.real(name[:i]); err == nil {
			return real + name[i:]
		}
	}
	if r.links[name] {
		if real, _, err := r.files.real(name); err == nil {
			return real
		}
	}
	return name
}

// ungrantable tells what may never be shown, by the path behind all links.
func (r *resolver) ungrantable(real string, mode fs.FileMode, write bool) (what, hint string) {
	const part = "name the folders in it that are needed"
	switch {
	case real == "/":
		return "it is the whole host", part
	case within(real, "/proc"), within(real, "/sys"), within(real, "/dev"):
		return "a box has its own " + real[:strings.IndexByte(real[1:]+"/", '/')+1], "remove it"
	case within(real, "/run"), within(real, "/var/run"):
		return "it holds the host's sockets, through which a program could act outside", "remove it"
	case r.holdsHome(real):
		return "it is your home or holds it, with every key in it", part
	case !mode.IsDir() && !mode.IsRegular():
		return "it is neither a file nor a folder; sockets and devices are ways out", "remove it"
	case hasControl(real):
		return "a control character in " + quote(real), "rename it"
	case write && slices.ContainsFunc([]string{"/etc", "/usr", "/boot", "/home", "/var", "/tmp", "/opt"}, func(s string) bool { return s == real }):
		return "it is a folder of the system", part
	}
	if own := r.ownFolder(real); own != "" {
		return "Caisson's own folder " + quote(own) + " lies there", part
	}
	return "", ""
}

// secretIn names a well-known place of keys that a path is, holds or lies in.
func (r *resolver) secretIn(real string) string {
	home := r.realOr(r.caller.Home)
	for _, s := range [...]string{
		".ssh", ".aws", ".gnupg", ".azure", ".kube", ".docker", ".netrc", ".npmrc", ".pypirc", ".git-credentials", ".vault-token",
		".config/gcloud", ".config/gh", ".config/op", ".config/google-chrome", ".mozilla", ".password-store", ".cargo/credentials.toml",
		".claude/.credentials.json", ".codex/auth.json", ".local/share/keyrings", ".terraform.d", ".pgpass", ".m2/settings.xml",
	} {
		p := home + "/" + s
		if within(p, real) || within(real, p) {
			return "~/" + s
		}
	}
	return ""
}

// bindWorkspace shows the workspace, writable, at its place.
func (r *resolver) bindWorkspace() error {
	ws := r.plan.Workspace
	f := r.mountStrength()
	mode := api.Point{Name: "workspace.mode", Value: string(ws.Mode), Strength: f.Strength, Reason: f.Reason, Origin: r.m.origin("workspace.mode")}
	if ws.Source == "" {
		return r.promise(mode, f.Fix)
	}
	origin := r.m.origin("workspace.path")
	r.mounts = append(r.mounts, Mount{
		Kind: MountBind, Source: ws.Source, Target: ws.Target, Writable: true, IDMap: r.plan.User.IDMap, Origin: origin,
	})
	if alias := path.Clean(r.given); alias != ws.Target && ws.Source == ws.Target && r.freeForAlias(alias) {
		r.mounts = append(r.mounts, Mount{Kind: MountLink, Source: ws.Target, Target: alias, Origin: origin})
	}
	if err := r.promise(api.Point{
		Name: "workspace", Value: ws.Source + " read-write at " + ws.Target, Strength: f.Strength, Reason: f.Reason, Origin: origin,
	}, f.Fix); err != nil {
		return err
	}
	if err := r.promise(mode, f.Fix); err != nil {
		return err
	}
	if ws.Mode != api.WorkspaceDirect || r.built.DirectGit || !r.files.exists(join2(ws.Source, ".git")) {
		return nil
	}
	return r.promise(api.Point{
		Name: "workspace.git", Value: "the git directory is the host's own", Strength: api.StrengthNone,
		Reason: "a private git directory is not in this build", Origin: api.Origin{Source: "default"},
	}, "")
}

// freeForAlias reports whether a link can be made at a path: it lies in the
// empty root or a private folder, and holds no mount.
func (r *resolver) freeForAlias(p string) bool {
	for i := range r.mounts {
		if within(r.mounts[i].Target, p) {
			return false
		}
	}
	m := r.cover(p)
	return m == nil || m.Kind == MountTmpfs
}
