package policy

import (
	"embed"
	"errors"
	"os"
	"path"
	"strings"

	"github.com/caisson-dev/caisson/api"
)

//go:embed presets/*.yaml
var presetFiles embed.FS

// PresetNames lists the presets that come with Caisson, sorted, without base.
func PresetNames() []string {
	entries, _ := presetFiles.ReadDir("presets") // embedded: it is there
	var names []string
	for _, e := range entries {
		if name := strings.TrimSuffix(e.Name(), ".yaml"); name != "base" {
			names = append(names, name)
		}
	}
	return names
}

// PresetText is the text of a preset that comes with Caisson.
func PresetText(name string) ([]byte, bool) {
	text, err := presetFiles.ReadFile("presets/" + name + ".yaml")
	return text, err == nil
}

// Preset gives a preset by name: one of ours, or NAME.yaml of the folder
// presets in the user's config folder. asked is where the name was written.
func Preset(configDir, name string, asked api.Origin) (*File, error) {
	if what, hint := checkName(name); what != "" {
		return nil, fail(api.CodePolicy, asked, hint, "preset %s", what)
	}
	own, text, err := "", []byte(nil), os.ErrNotExist
	if configDir != "" {
		own = path.Join(configDir, "presets", name+".yaml")
		text, err = readCapped(own)
	}
	ours, known := PresetText(name)
	switch {
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return nil, fail(api.CodePolicy, asked, "make it readable, or remove it", "cannot read preset %s: %s", own, reason(err))
	case err == nil && known:
		return nil, fail(api.CodePolicy, api.Origin{Source: own, Line: 1}, "rename it", "preset %s comes with Caisson and cannot be replaced", name)
	case err == nil:
		return presetFile(own, text, true)
	case known:
		return presetFile("preset "+name, ours, false)
	}
	return nil, fail(api.CodePolicy, asked, didYouMean(name, PresetNames()), "no preset %s", quote(name))
}

func presetFile(name string, text []byte, user bool) (*File, error) {
	f, err := parse(name, text, user)
	if err != nil {
		return nil, err
	}
	if f.Policy.Workspace.Unprotect != nil {
		return nil, fail(api.CodePolicy, f.Origin("workspace.unprotect"), "write it in the policy file itself",
			"a preset cannot take from what is protected")
	}
	return f, nil
}

// Stack puts files in the order in which they are merged: base, and before each
// file the presets that it extends, each once. Nil files are left out.
func Stack(configDir string, files ...*File) ([]*File, error) {
	s := stacker{configDir: configDir, layers: []*File{baseFile()}, state: map[string]bool{"base": true}}
	for _, f := range files {
		if f == nil {
			continue
		}
		if err := s.push(f, nil); err != nil {
			return nil, err
		}
	}
	return s.layers, nil
}

type stacker struct {
	configDir string
	layers    []*File
	state     map[string]bool // preset name → finished; false while being pushed
}

func (s *stacker) push(f *File, trail []string) error {
	for i, name := range f.Policy.Extends {
		at := f.Origin(item("extends", i))
		done, met := s.state[name]
		if met && !done {
			return fail(api.CodePolicy, at, "remove one of them", "presets extend each other: %s", strings.Join(append(trail, name), " → "))
		}
		if met {
			continue
		}
		p, err := Preset(s.configDir, name, at)
		if err != nil {
			return err
		}
		s.state[name] = false
		if err := s.push(p, append(trail, name)); err != nil {
			return err
		}
		s.state[name] = true
	}
	s.layers = append(s.layers, f)
	return nil
}
