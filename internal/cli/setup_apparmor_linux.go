package cli

import (
	"strings"

	"github.com/caisson-dev/caisson/api"
)

// appArmorProfile lets one program use user namespaces where AppArmor lets no
// other. It restricts nothing: the boxes of caisson do that, and what runs in one is
// refused further user namespaces by its filter. The guest, which lies in a user's cache,
// has no profile of its own and keeps that of the caisson which starts it.
func appArmorProfile(exe string) string {
	return setupMark +
		"abi <abi/4.0>,\n" +
		"include <tunables/global>\n\n" +
		"profile caisson " + appArmorPath(exe) + " flags=(unconfined) {\n" +
		"  userns,\n\n" +
		"  include if exists <local/caisson>\n" +
		"}\n"
}

// appArmorPath writes a path as one that stands for itself alone.
func appArmorPath(path string) string {
	var b strings.Builder
	for _, r := range path {
		if strings.ContainsRune(`\*?[]{}^,"#@`, r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	if shellWord(path) == path {
		return path
	}
	return `"` + b.String() + `"`
}

// needsAppArmor is the profile, where AppArmor restricts user namespaces.
func (h *setupHost) needsAppArmor() (*change, error) {
	setting := h.text("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
	if setting == "" || setting == "0" {
		return nil, nil
	}
	// A profile goes by the path. Whoever could put another program there would
	// give it what the profile gives.
	if err := h.trust(h.exe); err != nil {
		return nil, &api.Error{
			Code: api.CodeHost, Message: "an AppArmor profile for " + h.exe + " would serve whoever replaces it: " + err.Error(),
			Hint: "install caisson and caisson-guest as root first, for example into /usr/local/bin, and run that caisson setup",
		}
	}
	profile := appArmorProfile(h.exe)
	was, err := h.marked(appArmorFile)
	if err != nil || was == profile && strings.HasPrefix(h.text("/proc/self/attr/apparmor/current"), "caisson") {
		return nil, err // it is there, and it holds us
	}
	return &change{
		Name: "apparmor", Why: "let " + h.exe + " use user namespaces, and no other program",
		acts: []act{
			{write: appArmorFile, text: profile},
			{run: []string{"apparmor_parser", "-r", "-W", h.root + appArmorFile}},
		},
		undo: []act{{remove: appArmorFile}},
	}, nil
}

// undoAppArmor unloads the profile.
func (h *setupHost) undoAppArmor(string) *change {
	return &change{
		Name: "apparmor", Why: "take the profile of caisson away",
		acts: []act{{run: []string{"apparmor_parser", "-R", h.root + appArmorFile}, maybe: true}},
	}
}
