package policy

import (
	"reflect"
	"strconv"
	"strings"

	"github.com/caisson-dev/caisson/api"
)

// Flag is one flag of a command line that adds to the policy or tightens it.
type Flag struct{ Name, Value string } // Name without hyphens: "allow"

// Flags makes the topmost layer from flags, checked like a file. The caller's
// environment is for --env NAME, which passes a variable on. Nil without flags.
func Flags(flags []Flag, callerEnv []string) (*File, error) {
	if len(flags) == 0 {
		return nil, nil
	}
	f := &File{Name: "flags", user: true, at: map[string]api.Origin{}}
	f.Policy.Version = 1
	for _, fl := range flags {
		if what, hint := f.flag(fl, callerEnv); what != "" {
			return nil, &api.Error{Code: api.CodeUsage, Message: "--" + fl.Name + ": " + what, Hint: hint}
		}
	}
	return f, nil
}

// flag puts one flag into the policy; what is empty if it is right.
func (f *File) flag(fl Flag, callerEnv []string) (what, hint string) {
	p := &f.Policy
	switch fl.Name {
	case "preset":
		return f.add("extends", fl, &p.Extends, "Policy.Extends")
	case "read":
		return f.add("filesystem.read", fl, &p.Filesystem.Read, "Filesystem.Read")
	case "write":
		return f.add("filesystem.write", fl, &p.Filesystem.Write, "Filesystem.Write")
	case "hide":
		return f.add("filesystem.hide", fl, &p.Filesystem.Hide, "Filesystem.Hide")
	case "publish":
		return f.add("network.publish", fl, &p.Network.Publish, "Network.Publish")
	case "accept-loss":
		var loss []string
		if what, hint = f.add("accept", fl, &loss, "Policy.Accept"); what == "" {
			f.mark(item("accept", len(p.Accept)), fl)
			p.Accept = append(p.Accept, api.Loss(loss[0]))
		}
		return what, hint
	case "allow":
		return f.addRule("network.allow", fl, &p.Network.Allow)
	case "deny":
		return f.addRule("network.deny", fl, &p.Network.Deny)
	case "tier":
		return f.set("tier", fl, reflect.ValueOf(&p.Tier), "Policy.Tier")
	case "image":
		return f.set("image", fl, reflect.ValueOf(&p.Image), "Policy.Image")
	case "workspace":
		return f.set("workspace.path", fl, reflect.ValueOf(&p.Workspace.Path), "Workspace.Path")
	case "workspace-mode":
		return f.set("workspace.mode", fl, reflect.ValueOf(&p.Workspace.Mode), "Workspace.Mode")
	case "env":
		return f.setEnv(fl, callerEnv)
	}
	return f.amount(fl)
}

// amount puts the flags that are numbers, sizes and times.
func (f *File) amount(fl Flag) (what, hint string) {
	l, hint := &f.Policy.Limits, ""
	var err error
	switch fl.Name {
	case "memory":
		err, hint = l.Memory.UnmarshalText([]byte(fl.Value)), "write a size such as 2GiB"
		f.mark("limits.memory", fl)
		if err == nil && l.Memory == 0 {
			return "must be above 0", hint
		}
	case "cpus":
		l.CPUs, err = strconv.ParseFloat(fl.Value, 64)
		hint = "write a number such as 2 or 0.5"
		f.mark("limits.cpus", fl)
		if err == nil && !(l.CPUs > 0 && l.CPUs < 1e6) {
			return "must be above 0", hint
		}
	case "pids":
		l.Pids, err = strconv.ParseInt(fl.Value, 10, 64)
		hint = "write a whole number above 0"
		f.mark("limits.pids", fl)
		if err == nil && l.Pids <= 0 {
			return "must be above 0", hint
		}
	case "timeout":
		err, hint = f.Policy.Lifetime.Wall.UnmarshalText([]byte(fl.Value)), "write a time such as 10m"
		f.mark("lifetime.wall", fl)
		if err == nil && f.Policy.Lifetime.Wall == 0 {
			return "must be above 0", hint
		}
	default:
		return "is no flag of the policy", "this is a defect of Caisson"
	}
	if err != nil {
		return quote(fl.Value) + " is not a value of it", hint
	}
	return "", ""
}

func (f *File) mark(key string, fl Flag) {
	f.at[key] = api.Origin{Source: "flag --" + fl.Name, User: true}
}

// add checks a value and appends it to a list.
func (f *File) add(key string, fl Flag, list *[]string, at string) (what, hint string) {
	s, what, hint := checkText(at, fl.Value)
	if what != "" {
		return what, hint
	}
	f.mark(item(key, len(*list)), fl)
	f.mark(key, fl)
	*list = append(*list, s)
	return "", ""
}

func (f *File) addRule(key string, fl Flag, list *[]api.NetworkRule) (what, hint string) {
	r, what, hint := shortRule(fl.Value)
	if what != "" {
		return what, hint
	}
	if rest, wild := strings.CutPrefix(r.Host, "*."); wild && fl.Name == "allow" {
		if what, hint = tooWide(rest); what != "" {
			return what, hint
		}
	}
	f.mark(item(key, len(*list)), fl)
	f.mark(key, fl)
	*list = append(*list, r)
	return "", ""
}

// set checks a value and puts it into a field of a string kind.
func (f *File) set(key string, fl Flag, field reflect.Value, at string) (what, hint string) {
	s, what, hint := checkText(at, fl.Value)
	if what != "" {
		return what, hint
	}
	f.mark(key, fl)
	field.Elem().SetString(s)
	return "", ""
}

func (f *File) setEnv(fl Flag, callerEnv []string) (what, hint string) {
	name, value, given := strings.Cut(fl.Value, "=")
	if what, hint = checkEnvName(name); what != "" {
		return what, hint
	}
	if !given {
		value = envOf(callerEnv, name)
		if value == "" {
			return name + " is not set here", "write --env " + name + "=VALUE"
		}
	}
	if strings.ContainsRune(value, 0) {
		return "a value with a NUL", "remove it"
	}
	if f.Policy.Env == nil {
		f.Policy.Env = map[string]*string{}
	}
	f.mark("env."+name, fl)
	f.Policy.Env[name] = &value
	return "", ""
}
