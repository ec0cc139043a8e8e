//go:build unix

package policy

import (
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/caisson-dev/caisson/api"
)

// dice makes policies from a seed: a failing one can be made again.
type dice struct{ *rand.Rand }

func (d dice) some(from ...string) []string {
	var out []string
	for _, s := range from {
		if d.IntN(3) == 0 {
			out = append(out, s)
		}
	}
	return out
}

func (d dice) pick(from ...string) string { return from[d.IntN(len(from))] }

func quoted(list []string) string {
	var q []string
	for _, s := range list {
		q = append(q, fmt.Sprintf("%q", s))
	}
	return "[" + strings.Join(q, ", ") + "]"
}

// policyText is a policy of keys that this build has, and, if wide, of those
// that it lacks too.
func (d dice) policyText(wide bool) string {
	var b strings.Builder
	b.WriteString("version: 1\n")
	line := func(format string, args ...any) {
		if d.IntN(2) == 0 {
			fmt.Fprintf(&b, format+"\n", args...)
		}
	}
	line("trust: %s", d.pick("own", "reviewed", "generated"))
	line("accept: %s", quoted(d.some("host-edits", "soft-limits", "history")))
	line("filesystem: {read: %s, write: %s, hide: %s}", quoted(d.some("/data", "/data/a", "/data/a/b", "/srv/other", "~/docs", "/data/link")),
		quoted(d.some("/data/w", "/srv/w", "/data/a/b")), quoted(d.some("/data/a/b", "/srv/other/x", "/data/link/x", "/nothing")))
	line("limits: {memory: %dMiB, pids: %d}", 1+d.IntN(4096), 1+d.IntN(9999))
	line("lifetime: {wall: %dm}", 1+d.IntN(600))
	line("env: {A: %q, B: null}", d.pick("1", "2"))
	if wide {
		line("network: {allow: %s, ask: %s, publish: %s, budget: {up: %dMiB}}", quoted(d.some("a.example.org", "*.example.org", "b.example.org:22", "@npm", "a.example.com")),
			d.pick("true", "false"), quoted(d.some("80", "127.0.0.1:81:82")), 1+d.IntN(99))
		line("nested: %s", d.pick("true", "false"))
		line("workspace: {home: %s}", quoted(d.some("refs/heads/*", "refs/heads/agent/*", "refs/tags/v1")))
	}
	return b.String()
}

const propertyHost = "d /data/a/b\nd /data/w\nd /srv/other/x\nd /srv/w\nd /home/me/docs\nl /data/link /srv/other\n"

func propertyInput(t *testing.T) Input {
	in := Input{Root: t.TempDir(), Probes: hardProbe(), Caller: Caller{
		UID: 1000, GID: 1000, Name: "me", Group: "us", Home: "/home/me", Dir: "/home/me/app", Env: []string{"PATH=/usr/bin:/bin"},
	}}
	makeHost(t, in.Root, propertyHost)
	return in
}

func mustParse(t *testing.T, name, text string) *File {
	f, err := Parse(name, []byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return f
}

// TestOrderMeansNothing: for what is allowed, denied and hidden the order of
// files means nothing, nor the order of the elements of a list.
func TestOrderMeansNothing(t *testing.T) {
	in := propertyInput(t)
	resolved, both := 0, 0
	for seed := range uint64(400) {
		d := dice{rand.New(rand.NewPCG(seed, 1))}
		texts := []string{d.policyText(false), d.policyText(false), d.policyText(false)}
		var results [2]string
		for i := range results {
			files := []*File{mustParse(t, "a", texts[0]), mustParse(t, "b", texts[1]), mustParse(t, "c", texts[2])}
			if i == 1 {
				slices.Reverse(files)
				for _, f := range files {
					reverseLists(f)
				}
			}
			layers, err := Stack("", files...)
			if err != nil {
				t.Fatal(err)
			}
			in := in
			in.Layers = layers
			p, err := Resolve(in)
			if err != nil {
				results[i] = "refused"
				continue
			}
			resolved++
			for _, m := range p.Mounts {
				m.Origin, m.Optional = api.Origin{}, false
				results[i] += mountText(m) + "\n"
			}
		}
		if results[0] != "refused" {
			both++
		}
		if results[0] != results[1] {
			t.Fatalf("seed %d: another order, another result:\n%s\n%s", seed, strings.Join(texts, "--\n"), cmp.Diff(results[0], results[1]))
		}
	}
	if both < 100 || resolved == 800 {
		t.Errorf("%d of 400 resolve: the test needs both kinds", both)
	}
}

// reverseLists turns the lists of paths around; their places do not count here.
func reverseLists(f *File) {
	fs := &f.Policy.Filesystem
	slices.Reverse(fs.Read)
	slices.Reverse(fs.Write)
	slices.Reverse(fs.Hide)
}

// TestNothingExceedsTheCeiling: whatever a file says, what comes out of
// resolution lies within the ceiling, or it is refused. A file that asks for
// nothing always resolves.
func TestNothingExceedsTheCeiling(t *testing.T) {
	in := propertyInput(t)
	everything := ThisBuild()
	everything.Lacks = nil
	in.Built = &everything
	granted, refused := 0, 0
	for seed := range uint64(1500) {
		d := dice{rand.New(rand.NewPCG(seed, 2))}
		ceilingText, text := d.policyText(true), d.policyText(true)
		ceiling, err := ParseCeiling("ceiling", []byte(ceilingText))
		if err != nil {
			t.Fatal(err)
		}
		in := in
		in.Ceiling = ceiling
		if in.Layers, err = Stack("", mustParse(t, "p", text)); err != nil {
			t.Fatal(err)
		}
		p, err := Resolve(in)
		if err != nil {
			refused++
			continue
		}
		granted++
		if excess := exceeds(p, &ceiling.Policy); excess != "" {
			t.Fatalf("seed %d: %s\nceiling:\n%s\npolicy:\n%s", seed, excess, ceilingText, text)
		}
	}
	if granted < 100 || refused < 100 {
		t.Errorf("%d granted, %d refused: the test needs both", granted, refused)
	}
}

// exceeds compares a plan with a ceiling in ways that share no code with the
// resolution.
func exceeds(p *Plan, top *api.Policy) string {
	real := strings.NewReplacer("~", "/home/me", "/data/link", "/srv/other")
	inside := func(path string, tops ...[]string) bool {
		for _, list := range tops {
			for _, t := range list {
				if strings.HasPrefix(path+"/", real.Replace(t)+"/") {
					return true
				}
			}
		}
		return false
	}
	for _, m := range p.Mounts {
		if !strings.HasPrefix(m.Source, "/data") && !strings.HasPrefix(m.Source, "/srv") && !strings.HasPrefix(m.Source, "/home/me/docs") {
			continue
		}
		if m.Writable && top.Filesystem.Write != nil && !inside(m.Source, top.Filesystem.Write) {
			return "writes " + m.Source
		}
		if !m.Writable && top.Filesystem.Read != nil && !inside(m.Source, top.Filesystem.Read, top.Filesystem.Write) {
			return "reads " + m.Source
		}
		for _, h := range top.Filesystem.Hide {
			h = real.Replace(h)
			if strings.HasPrefix(m.Source+"/", h+"/") {
				return "shows hidden " + m.Source
			}
			below, ok := strings.CutPrefix(h, m.Source+"/")
			if ok && h != "/nothing" && !slices.ContainsFunc(p.Mounts, func(o Mount) bool { return o.Kind == MountHide && o.Target == m.Target+"/"+below }) {
				return "shows hidden " + h + " at " + m.Target
			}
		}
	}
	for _, n := range [][2]int64{
		{int64(p.Limits.Memory), int64(top.Limits.Memory)},
		{p.Limits.Pids, top.Limits.Pids},
		{int64(p.Lifetime.Wall), int64(top.Lifetime.Wall)},
		{int64(p.Network.Budget.Up), int64(top.Network.Budget.Up)},
	} {
		if n[1] != 0 && (n[0] == 0 || n[0] > n[1]) {
			return fmt.Sprintf("%d is more than %d", n[0], n[1])
		}
	}
	if off := top.Network.Ask; off != nil && !*off && p.Network.Ask != nil && *p.Network.Ask {
		return "asks"
	}
	if off := top.Nested; off != nil && !*off && p.Nested {
		return "nests"
	}
	for _, r := range p.Network.Allow {
		if top.Network.Allow == nil {
			break
		}
		if !slices.ContainsFunc(top.Network.Allow, func(o api.NetworkRule) bool {
			return reflect.DeepEqual(r, o) || o.Host == "*.example.org" && r.Host == "a.example.org" && r.Ports == nil
		}) {
			return "allows " + r.Host
		}
	}
	for _, l := range p.Accepted {
		if top.Accept != nil && !slices.Contains(top.Accept, l) {
			return "accepts " + string(l)
		}
	}
	for _, s := range p.Network.Publish {
		if top.Network.Publish != nil && !slices.Contains(top.Network.Publish, s) {
			return "publishes " + s
		}
	}
	return ""
}

// TestDigestSaysThePolicy: any change of any field changes the digest; where a
// value stands does not.
func TestDigestSaysThePolicy(t *testing.T) {
	_, example, _ := strings.Cut(policyDoc(t), "```yaml\n")
	example, _, _ = strings.Cut(example, "```")
	base := func() *merged { return &merged{Policy: mustParse(t, "p", example).Policy} }
	want := base().digest()
	if got := (&merged{Policy: mustParse(t, "q", "# moved\n"+example).Policy}).digest(); got != want {
		t.Error("the digest depends on where a policy stands")
	}
	changes := 0
	m := base()
	var walk func(v reflect.Value, path string)
	walk = func(v reflect.Value, path string) {
		check := func(set, undo func()) {
			set()
			changes++
			if m.digest() == want {
				t.Errorf("%s does not count", path)
			}
			undo()
		}
		switch v.Kind() {
		case reflect.String:
			old := v.String()
			check(func() { v.SetString(old + "x") }, func() { v.SetString(old) })
		case reflect.Bool:
			check(func() { v.SetBool(!v.Bool()) }, func() { v.SetBool(!v.Bool()) })
		case reflect.Int, reflect.Int64:
			check(func() { v.SetInt(v.Int() + 1) }, func() { v.SetInt(v.Int() - 1) })
		case reflect.Float64:
			check(func() { v.SetFloat(v.Float() + 1) }, func() { v.SetFloat(v.Float() - 1) })
		case reflect.Slice:
			old := reflect.ValueOf(v.Interface())
			empty := reflect.MakeSlice(v.Type(), 0, 0)
			if !old.IsNil() && old.Len() == 0 {
				empty = reflect.Zero(v.Type())
			}
			check(func() { v.Set(empty) }, func() { v.Set(old) })
			for i := range v.Len() {
				walk(v.Index(i), fmt.Sprintf("%s[%d]", path, i))
			}
		case reflect.Map:
			check(func() { delete(m.Env, "LANG") }, func() { m.Env["LANG"] = nil })
		case reflect.Pointer:
			if !v.IsNil() {
				walk(v.Elem(), path)
			}
		case reflect.Struct:
			for i := range v.NumField() {
				walk(v.Field(i), path+"."+v.Type().Field(i).Name)
			}
		}
	}
	walk(reflect.ValueOf(&m.Policy).Elem(), "")
	if changes < 200 {
		t.Errorf("only %d changes tried", changes)
	}
}

// TestOwnerOfTheWorkspace: root without ids of its own, or without translated
// mounts, runs a box under the workspace's owner, and never as root.
func TestOwnerOfTheWorkspace(t *testing.T) {
	in := propertyInput(t)
	in.Caller.UID, in.Caller.GID, in.Caller.Name = 0, 0, "root"
	in.Caller.BoxUID, in.Caller.BoxGID = 100000, 100000
	in.Caller.Dir, in.Caller.Home = "/srv/other", "/root"
	var err error
	if in.Layers, err = Stack(""); err != nil {
		t.Fatal(err)
	}
	uid, gid := os.Getuid(), os.Getgid()
	if uid == 0 {
		if _, err := Resolve(in); err == nil || !strings.Contains(err.Error(), "started as root") {
			t.Fatalf("a workspace of root's: %v", err)
		}
		uid, gid = 1234, 4321
		if err := os.Chown(in.Root+"/srv/other", uid, gid); err != nil {
			t.Fatal(err)
		}
	}
	p, err := Resolve(in)
	if err != nil {
		t.Fatal(err)
	}
	if u := p.User; u.HostUID != uid || u.HostGID != gid || u.UID != uid || u.IDMap {
		t.Errorf("user %+v, want %d:%d", u, uid, gid)
	}
}
