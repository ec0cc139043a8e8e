package policy

import (
	"os"
	"path"
	"slices"
	"strings"

	"github.com/caisson-dev/caisson/api"
)

// bindPathFolders shows those folders of PATH that lie in the real home, which
// is hidden, at the same place and read-only, each with what its programs need:
// the toolchain that it belongs to, and where its links lead.
func (r *resolver) bindPathFolders() error {
	if r.m.Image != "host" {
		return nil // an image has its own programs
	}
	home := path.Clean(r.caller.Home)
	var shown []string
	for dir := range strings.SplitSeq(envOf(r.caller.Env, "PATH"), ":") {
		if !path.IsAbs(dir) || hasControl(dir) {
			continue // relative ones mean another folder inside
		}
		dir = path.Clean(dir)
		if slices.Contains(r.path, dir) {
			continue
		}
		r.path = append(r.path, dir)
		if home == "/" || !within(dir, home) || dir == home {
			continue
		}
		real, mode, err := r.files.real(dir)
		if err != nil || !mode.IsDir() || slices.ContainsFunc(r.open, func(o string) bool { return within(real, o) }) {
			continue // in the workspace it is visible as it is, and its links are not ours to follow
		}
		need := []string{dir}
		if ownTools(dir[len(home)+1:]) {
			need = r.toolchain(dir, real, home)
		} else if dir != real {
			continue
		}
		for _, p := range need {
			if r.showTool(p) {
				shown = append(shown, p)
			}
		}
	}
	if len(shown) == 0 {
		return nil
	}
	f := r.mountStrength()
	return r.promise(api.Point{
		Name: "filesystem.path", Value: strings.Join(shown, ", ") + " read-only, for PATH", Strength: f.Strength, Reason: f.Reason,
		Origin: api.Origin{Source: "default"},
	}, f.Fix)
}

// ownTools reports whether a folder of the home is one into which people
// install programs, and no project that a box may have written: only there are
// links followed, and the folders beside it shown.
func ownTools(rel string) bool {
	first, _, _ := strings.Cut(rel, "/")
	switch first {
	case "bin", "go", "sdk", "opt", "miniconda3", "miniforge3", "mambaforge", "anaconda3":
		return true
	}
	return first[0] == '.'
}

// showTool binds one path of the home read-only, unless it is not for boxes or
// visible already.
func (r *resolver) showTool(p string) bool {
	real, mode, err := r.files.real(p)
	if err != nil || r.throughOpen() != "" {
		return false
	}
	if what, _ := r.ungrantable(real, mode, false); what != "" || r.secretIn(real) != "" {
		return false
	}
	if top := r.in.Ceiling; top != nil && top.Policy.Filesystem.Read != nil {
		b := &bounder{caller: r.caller, files: r.files}
		if !b.below(real, top.Policy.Filesystem.Read) {
			return false
		}
	}
	if ws := r.plan.Workspace; ws.Source != "" && within(real, ws.Source) && p == real {
		return false
	}
	if m := r.cover(p); m != nil && m.Kind == MountBind && m.Source+p[len(m.Target):] == real {
		return false
	}
	r.mounts = append(r.mounts, Mount{Kind: MountBind, Source: real, Target: p, Optional: true, Origin: api.Origin{Source: "PATH"}})
	return true
}

// toolchain lists what a folder of PATH needs: dir is its name, real the folder
// itself.
func (r *resolver) toolchain(dir, real, home string) []string {
	rel := dir[len(home)+1:]
	if root := knownRoot(rel); root != "" {
		return []string{home + "/" + root}
	}
	need := []string{dir}
	if first, _, _ := strings.Cut(rel, "/"); r.files.exists(home + "/" + first + "/.git") {
		return need // a repository is a workspace of some box
	}
	if rel == ".cargo/bin" {
		return append(need, home+"/.rustup")
	}
	// An install prefix: bin beside lib. Its other folders come along, not its
	// settings. The home and ~/.local are no prefixes: they hold everything.
	if up := path.Dir(dir); path.Base(dir) == "bin" && up != home && rel != ".local/bin" && rel != "go/bin" {
		need = append(need, r.prefix(up)...)
	}
	return append(need, r.behindLinks(real, home)...)
}

// prefix lists the folders of an install prefix that programs read.
func (r *resolver) prefix(up string) []string {
	var need []string
	parts := []string{"lib", "lib64", "libexec", "share", "include"}
	if r.files.exists(join2(up, "bin/go")) && r.files.exists(join2(up, "src/runtime")) {
		parts = append(parts, "src", "pkg", "VERSION", "go.env") // a Go toolchain
	}
	for _, part := range parts {
		if l := r.files.at(join2(up, part)); l.err == nil && (l.mode.IsDir() || l.mode.IsRegular()) {
			need = append(need, join2(up, part))
		}
	}
	return need
}

// maxLinks bounds how many entries of one folder are looked at.
const maxLinks = 1024

// behindLinks lists where the links of a folder lead, if into the home.
func (r *resolver) behindLinks(dir, home string) []string {
	f, err := os.Open(r.in.Root + dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	entries, _ := f.ReadDir(maxLinks) // what cannot be read is not shown
	var need []string
	for _, e := range entries {
		if e.Type()&os.ModeSymlink == 0 {
			continue
		}
		real, _, err := r.files.real(join2(dir, e.Name()))
		if err != nil || !within(real, home) || within(real, dir) || !r.executable(real) {
			continue
		}
		for _, p := range append([]string{linkRoot(real, home)}, r.hops(join2(dir, e.Name()), home)...) {
			if !slices.Contains(need, p) {
				need = append(need, p)
			}
		}
	}
	slices.Sort(need)
	return need
}

// executable reports whether a real path is a program. A link in a folder of
// programs that leads to anything else, to a folder or a document, may have been left by a box that had
// the folder as its workspace, for the next one to read.
func (r *resolver) executable(real string) bool {
	info, err := os.Stat(r.in.Root + real)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

// hops lists the roots that a chain of links leads through.
func (r *resolver) hops(name, home string) []string {
	var need []string
	for range 8 {
		l := r.files.at(name)
		if l.err != nil || l.link == "" {
			return need
		}
		next := l.link
		if !path.IsAbs(next) {
			next = path.Join(path.Dir(name), next)
		}
		if name = path.Clean(next); within(name, home) {
			need = append(need, linkRoot(name, home))
		}
	}
	return need
}

// linkRoot is how much of the home a program needs that lies at p: the folder
// of its installation where the layout says which, else the file alone.
func linkRoot(p, home string) string {
	rel := strings.TrimPrefix(p, home+"/")
	if root := knownRoot(rel); root != "" {
		return home + "/" + root
	}
	for _, shared := range [...]string{".local/share/", ".local/lib/", ".local/opt/", ".local/"} {
		rest, ok := strings.CutPrefix(rel, shared)
		if !ok {
			continue
		}
		if first, _, deeper := strings.Cut(rest, "/"); deeper {
			return home + "/" + shared + first
		}
		return p
	}
	if i := strings.Index(p, "/node_modules/"); i > len(home) {
		return p[:i+len("/node_modules")]
	}
	return p
}

// knownRoot is the toolchain of the home that a path lies in: folders that
// hold programs and no secrets. "" if it lies in none.
func knownRoot(rel string) string {
	first, rest, _ := strings.Cut(rel, "/")
	switch first {
	case ".pyenv", ".nvm", ".rbenv", ".nodenv", ".asdf", ".volta", ".fnm", ".goenv", ".gvm", ".jenv", ".jdks", ".phpenv", ".rye", ".rustup", ".ghcup", ".opam",
		".linuxbrew", ".proto", "miniconda3", "miniforge3", "mambaforge", "anaconda3", ".npm-global", ".tfenv", ".rvm":
		return first
	case ".sdkman":
		if strings.HasPrefix(rest, "candidates") {
			return ".sdkman/candidates"
		}
	case ".local":
		for _, r := range [...]string{"share/mise", "share/fnm", "share/pnpm"} {
			if within(rest, r) {
				return ".local/" + r
			}
		}
	}
	return ""
}

// pathInside is PATH with the folders that exist inside.
func (r *resolver) pathInside() []string {
	var dirs []string
	for _, dir := range r.path {
		if m := r.cover(r.inside(dir)); m == nil || m.Kind != MountBind {
			continue
		}
		if _, mode, err := r.files.real(dir); err == nil && mode.IsDir() {
			dirs = append(dirs, dir)
		}
	}
	if len(dirs) == 0 {
		return []string{"/usr/local/bin", "/usr/bin", "/bin"}
	}
	return dirs
}
