//go:build unix

package policy

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/caisson-dev/caisson/api"
)

// goldens runs one function over each archive of a folder. Sections that it
// returns replace those of the archive with -update, and are compared without.
func goldens(t *testing.T, dir string, run func(t *testing.T, a *txtar.Archive) map[string]string) {
	base, err := os.Getwd() // a golden may change it
	if err != nil {
		t.Fatal(err)
	}
	names, _ := filepath.Glob(filepath.Join(base, "testdata", dir, "*.txtar"))
	if len(names) == 0 {
		t.Fatal("no goldens in " + dir)
	}
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			got := run(t, a)
			for i, f := range a.Files {
				text, ok := got[f.Name]
				if !ok {
					continue
				}
				delete(got, f.Name)
				if *update {
					a.Files[i].Data = []byte(text)
				} else if diff := cmp.Diff(string(f.Data), text); diff != "" {
					t.Errorf("%s (-want +got):\n%s", f.Name, diff)
				}
			}
			if *update {
				if err := os.WriteFile(name, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if len(got) > 0 {
				t.Errorf("results without a section: %v", got)
			}
		})
	}
}

func section(a *txtar.Archive, name string) (string, bool) {
	for _, f := range a.Files {
		if f.Name == name {
			return string(f.Data), true
		}
	}
	return "", false
}

func errorText(err error) string {
	e, ok := errors.AsType[*api.Error](err)
	if !ok {
		return fmt.Sprintf("NO api.Error: %v\n", err)
	}
	return fmt.Sprintf("error %s: %s\nhint: %s\n", e.Code, e.Message, e.Hint)
}

// TestParseGoldens: NAME.yaml is parsed, NAME.want is "ok" or the error.
func TestParseGoldens(t *testing.T) {
	goldens(t, "parse", func(t *testing.T, a *txtar.Archive) map[string]string {
		got := map[string]string{}
		for _, f := range a.Files {
			name, ok := strings.CutSuffix(f.Name, ".yaml")
			if !ok {
				continue
			}
			// A section ends with a newline; \NNN gives other bytes.
			text, err := strconv.Unquote(`"` + strings.ReplaceAll(strings.ReplaceAll(string(f.Data), `"`, `\"`), "\n", `\n`) + `"`)
			if err != nil {
				t.Fatal(err)
			}
			want := "ok\n"
			if _, err := Parse("p.yaml", []byte(text)); err != nil {
				want = errorText(err)
			}
			got[name+".want"] = want
		}
		return got
	})
}

// TestResolveGoldens: facts, host, policy.yaml, ceiling.yaml, presets/*.yaml
// and flags give want: the plan, or the error.
func TestResolveGoldens(t *testing.T) {
	goldens(t, "resolve", func(t *testing.T, a *txtar.Archive) map[string]string {
		p, err := resolveArchive(t, a)
		if err != nil {
			return map[string]string{"want": errorText(err)}
		}
		return map[string]string{"want": planText(p)}
	})
}

func resolveArchive(t *testing.T, a *txtar.Archive) (*Plan, error) {
	in := Input{Root: t.TempDir(), Probes: hardProbe(), Caller: Caller{
		UID: 1000, GID: 1000, Name: "me", Group: "us", Home: "/home/me", Dir: "/home/me/app", Argv: []string{"true"},
		StateDir: "/home/me/.local/state/caisson", Env: []string{"PATH=/usr/bin:/bin", "TERM=xterm"},
	}}
	host, _ := section(a, "host")
	makeHost(t, in.Root, host)
	facts, _ := section(a, "facts")
	for line := range strings.Lines(facts) {
		fact(t, &in, strings.TrimSpace(line))
	}
	var files []*File
	if text, ok := section(a, "policy.yaml"); ok {
		f, err := Parse("policy.yaml", []byte(text))
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	var flags []Flag
	text, _ := section(a, "flags")
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		flags = append(flags, Flag{name, value})
	}
	top, err := Flags(flags, in.Caller.Env)
	if err != nil {
		return nil, err
	}
	if text, ok := section(a, "ceiling.yaml"); ok {
		if in.Ceiling, err = ParseCeiling("ceiling.yaml", []byte(text)); err != nil {
			return nil, err
		}
	}
	if in.Layers, err = Stack(userPresets(t, a), append(files, top)...); err != nil {
		return nil, err
	}
	return Resolve(in)
}

// userPresets writes presets/NAME.yaml of an archive into a config folder,
// whose name is kept out of results: it is the working directory.
func userPresets(t *testing.T, a *txtar.Archive) string {
	dir := t.TempDir()
	for _, f := range a.Files {
		if strings.HasPrefix(f.Name, "presets/") {
			if err := os.MkdirAll(dir+"/presets", 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(dir+"/"+f.Name, f.Data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Chdir(dir)
	return "."
}

// makeHost makes files below root: "d PATH", "f PATH", "l PATH TEXT", "h PATH OTHER"
// (a hard link), "p PATH" (a FIFO). A small system is always there.
func makeHost(t *testing.T, root, host string) {
	const system = "d /usr/bin\nd /usr/lib\nf /usr/bin/bash\nl /bin usr/bin\nl /lib usr/lib\nd /etc/ssl/certs\nf /etc/ld.so.cache\n" +
		"d /usr/share/zoneinfo\nf /usr/share/zoneinfo/UTC\nl /etc/localtime /usr/share/zoneinfo/UTC\nf /etc/shadow\nd /home/me/app\nd /home/me/.local/state/caisson\nd /tmp\nd /var\n"
	for line := range strings.Lines(system + host) {
		w := strings.Fields(line)
		if len(w) < 2 {
			continue
		}
		name := root + w[1]
		err := os.MkdirAll(filepath.Dir(name), 0o755)
		switch w[0] {
		case "d":
			err = errors.Join(err, os.MkdirAll(name, 0o755))
		case "f":
			err = errors.Join(err, os.WriteFile(name, []byte(strings.Join(w[2:], " ")), 0o644))
		case "x": // a program
			err = errors.Join(err, os.WriteFile(name, []byte(strings.Join(w[2:], " ")), 0o755))
		case "l":
			err = errors.Join(err, os.Symlink(w[2], name))
		case "h":
			err = errors.Join(err, os.Link(root+w[2], name))
		case "p":
			err = errors.Join(err, syscall.Mkfifo(name, 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// fact sets one fact of the caller, the host or the build.
func fact(t *testing.T, in *Input, line string) {
	name, value, _ := strings.Cut(line, " ")
	n, _ := strconv.Atoi(value)
	switch name {
	case "":
	case "uid":
		in.Caller.UID, in.Caller.GID = n, n
	case "gid":
		in.Caller.GID = n
	case "box":
		in.Caller.BoxUID, in.Caller.BoxGID = n, n
	case "home":
		in.Caller.Home = value
	case "name":
		in.Caller.Name = value
	case "dir":
		in.Caller.Dir = value
	case "idmap": // mounts of the file system below it can translate ids
		in.Caller.CanIDMap = func(dir string) bool { return within(dir, value) }
	case "api":
		in.Caller.API = true
	case "env":
		in.Caller.Env = append(in.Caller.Env, value)
	case "path":
		in.Caller.Env[0] = "PATH=" + value
	case "guest":
		in.Caller.GuestDir = value
	case "config":
		in.Caller.ConfigDir = value
	case "usable": // another tier that this host runs
		in.Probes[api.Tier(value)] = api.Probe{Tier: api.Tier(value), Usable: true, Features: in.Probes[api.TierProcess].Features}
	case "built":
		b := ThisBuild()
		b.Images = true
		b.Tiers = append(b.Tiers, api.Tier(value))
		in.Built = &b
	case "feature": // NAME STRENGTH REASON: FIX, of the tier process
		w := strings.SplitN(value, " ", 3)
		f := api.Feature{Name: w[0], Required: w[0] == api.FeatureNamespaces}
		if err := f.Strength.UnmarshalText([]byte(w[1])); err != nil {
			t.Fatal(err)
		}
		if len(w) > 2 {
			f.Reason, f.Fix, _ = strings.Cut(w[2], ": ")
		}
		p := in.Probes[api.TierProcess]
		p.Features = slices.DeleteFunc(p.Features, func(o api.Feature) bool { return o.Name == f.Name })
		p.Features = append(p.Features, f)
		p.Usable = !f.Required || f.Strength == api.StrengthHard
		in.Probes[api.TierProcess] = p
	default:
		t.Fatalf("unknown fact %q", line)
	}
}

// planText writes a plan for a golden. The mounts of base that come from the
// small system are left out, but in the golden that shows them all.
func planText(p *Plan) string {
	var b strings.Builder
	fmt.Fprintf(&b, "tier %s user %d:%d host %d:%d %s home %s shell %s\n", p.Tier, p.User.UID, p.User.GID, p.User.HostUID, p.User.HostGID, p.User.Name, p.User.Home, p.User.Shell)
	if p.User.IDMap {
		fmt.Fprintf(&b, "idmap\n")
	}
	fmt.Fprintf(&b, "dir %s sealed %v nested %v limits %+v lifetime %+v\n", p.Dir, p.Sealed, p.Nested, p.Limits, p.Lifetime)
	for _, m := range p.Mounts {
		fmt.Fprintf(&b, "mount %s\n", mountText(m))
	}
	for _, e := range p.Env {
		fmt.Fprintf(&b, "env %s\n", e)
	}
	for _, pt := range p.Points {
		fmt.Fprintf(&b, "point %s: %s: %s [%s]", pt.Name, pt.Value, pt.Strength, place(pt.Origin))
		if pt.Origin.User {
			b.WriteString(" user")
		}
		if pt.Reason != "" {
			fmt.Fprintf(&b, " because %s", pt.Reason)
		}
		if pt.Loss != "" {
			fmt.Fprintf(&b, " loss %s", pt.Loss)
		}
		b.WriteByte('\n')
	}
	for _, w := range p.Warnings {
		fmt.Fprintf(&b, "warning %s\n", w)
	}
	return b.String()
}

func mountText(m Mount) string {
	kinds := [...]string{"INVALID", "bind", "tmpfs", "file", "link", "proc", "dev", "hide"}
	s := kinds[m.Kind] + " " + m.Target
	if m.Source != "" && m.Source != m.Target {
		s += " from " + m.Source
	}
	for _, f := range []struct {
		on   bool
		name string
	}{{m.Writable, "rw"}, {m.IDMap, "idmap"}, {m.Optional, "optional"}} {
		if f.on {
			s += " " + f.name
		}
	}
	if m.Kind == MountTmpfs {
		s += fmt.Sprintf(" mode %o", m.Mode)
	}
	if m.Size != 0 {
		s += fmt.Sprintf(" size %d", m.Size)
	}
	if m.Data != nil {
		s += fmt.Sprintf(" %q", m.Data)
	}
	return s
}
