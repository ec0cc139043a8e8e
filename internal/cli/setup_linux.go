package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/caisson-dev/caisson/api"
)

// setupHost is the host that setup looks at and changes.
type setupHost struct {
	root    string   // "" but in tests: the folder that stands for /
	usermod []string // the program with the words that come first
	exe     string   // of caisson, without links
	user    string   // who gets a range of ids; "" for nobody
	uid     int
	trust   func(path string) error // nobody but root may replace it
}

// change is one thing that setup does to a host, or undoes.
type change struct {
	Name   string `json:"name"`   // "apparmor", "sysctl" or "subids"
	Why    string `json:"why"`    // one clause
	Script string `json:"script"` // what it does, for a root shell
	acts   []act  // the same
	undo   []act  // what takes back a half of it
}

// setupAnswer is what `caisson setup --json` prints.
type setupAnswer struct {
	Changes []*change `json:"changes"`
	Done    bool      `json:"done"` // false: they were only shown
}

// The files that setup writes. Each starts with setupMark: what has it not is
// somebody else's, and is left alone.
const (
	appArmorFile = "/etc/apparmor.d/caisson"
	sysctlFile   = "/etc/sysctl.d/60-caisson.conf"
	setupDir     = "/etc/caisson"
	subidsFile   = setupDir + "/subids"
	setupMark    = "# Written by caisson setup; caisson setup --undo removes it.\n"
)

// setup finds what this host needs, and does it or prints it.
func (a *app) setup(f *setupFlags) error {
	h, err := a.thisHost(f)
	if err != nil {
		return err
	}
	var changes []*change
	if f.undo {
		changes, err = h.undo()
	} else {
		changes, err = h.needs()
	}
	if err != nil {
		return err
	}
	answer := setupAnswer{Changes: changes, Done: os.Geteuid() == 0 && !f.show}
	if answer.Changes == nil {
		answer.Changes = []*change{}
	}
	for _, c := range changes {
		if answer.Done {
			if err := c.apply(h.root); err != nil {
				return err
			}
		}
	}
	if err := a.ui.print(answer, func(w *bytes.Buffer) { a.setupText(w, answer) }); err != nil {
		return err
	}
	if !answer.Done && len(changes) > 0 && !f.show {
		a.ui.warn("nothing was changed: run it as root (sudo caisson setup), or give the lines above to who is root")
	}
	return nil
}

// setupText writes the changes: as a script if they were only shown.
func (a *app) setupText(w *bytes.Buffer, answer setupAnswer) {
	if len(answer.Changes) == 0 {
		w.WriteString("nothing to do\n")
	}
	for _, c := range answer.Changes {
		if answer.Done {
			fmt.Fprintf(w, "%s: %s: done\n", c.Name, oneLine(c.Why))
			continue
		}
		fmt.Fprintf(w, "# %s: %s\n%s", c.Name, oneLine(c.Why), c.Script)
	}
}

// thisHost is the host we run on. Whom root sets it up for is told by --user, sudo or doas.
func (a *app) thisHost(f *setupFlags) (*setupHost, error) {
	exe, err := os.Executable()
	if err == nil {
		exe, err = filepath.EvalSymlinks(exe)
	}
	if err != nil {
		return nil, hostError("find own executable", "start caisson by its path", err)
	}
	h := &setupHost{usermod: []string{"usermod"}, exe: exe, trust: rootOnly}
	var u *user.User
	switch {
	case f.user != "":
		if u, err = user.Lookup(f.user); err != nil {
			return nil, usage("name a user of this host", "--user: there is no user %s", quote(f.user))
		}
	case os.Geteuid() != 0:
		u, err = user.LookupId(strconv.Itoa(os.Getuid()))
	default:
		u, err = user.Lookup(a.getenv("SUDO_USER"))
		if err != nil {
			u, err = user.Lookup(a.getenv("DOAS_USER"))
		}
	}
	if err != nil || u == nil || u.Uid == "0" {
		return h, nil // nobody: root needs no range
	}
	h.user = u.Username
	if h.uid, err = strconv.Atoi(u.Uid); err != nil {
		return nil, fmt.Errorf("read uid of %s: %w", u.Username, err)
	}
	return h, nil
}

// needs lists the changes that this host needs, in the order in which they are made.
func (h *setupHost) needs() ([]*change, error) {
	var list []*change
	for _, find := range []func() (*change, error){h.needsAppArmor, h.needsSysctl, h.needsSubids} {
		c, err := find()
		if err != nil {
			return nil, err
		}
		if c == nil {
			continue
		}
		for i := range c.acts {
			c.Script += c.acts[i].script()
		}
		list = append(list, c)
	}
	return list, nil
}

// needsSysctl turns on settings that bar user namespaces. What they were stays
// in the file, for the undo.
func (h *setupHost) needsSysctl() (*change, error) {
	if was, err := h.marked(sysctlFile); err != nil || was != "" {
		return nil, err // done, and waits for the next start
	}
	text := setupMark
	c := &change{Name: "sysctl", Why: "let ordinary users make user namespaces", undo: []act{{remove: sysctlFile}}}
	for _, s := range []struct{ key, value string }{
		{"kernel.unprivileged_userns_clone", "1"},
		{"user.max_user_namespaces", "15000"},
	} {
		if h.text("/proc/sys/"+strings.ReplaceAll(s.key, ".", "/")) == "0" {
			text += "# was: " + s.key + " = 0\n" + s.key + " = " + s.value + "\n"
		}
	}
	if text == setupMark {
		return nil, nil
	}
	c.acts = []act{{write: sysctlFile, text: text}, {run: []string{"sysctl", "-q", "-p", h.root + sysctlFile}}}
	return c, nil
}

// undo lists what takes back all that was done, the last first.
func (h *setupHost) undo() ([]*change, error) {
	var list []*change
	for _, u := range []struct {
		file string
		find func(text string) *change
	}{
		{subidsFile, h.undoSubids}, {sysctlFile, undoSysctl}, {appArmorFile, h.undoAppArmor},
	} {
		text, err := h.marked(u.file)
		if err != nil {
			return nil, err
		}
		if text == "" {
			continue
		}
		c := u.find(text)
		c.acts = append(c.acts, act{remove: u.file})
		for i := range c.acts {
			c.Script += c.acts[i].script()
		}
		list = append(list, c)
	}
	return list, nil
}

// undoSysctl gives each setting the value that it had.
func undoSysctl(text string) *change {
	c := &change{Name: "sysctl", Why: "give the settings the values that they had"}
	for line := range strings.Lines(text) {
		was, ok := strings.CutPrefix(strings.TrimSpace(line), "# was: ")
		key, value, two := strings.Cut(was, " = ")
		if ok && two {
			c.acts = append(c.acts, act{run: []string{"sysctl", "-q", "-w", key + "=" + value}})
		}
	}
	return c
}

// marked reads a file that setup writes; "" if it is not there. One without the mark is
// somebody else's.
func (h *setupHost) marked(path string) (string, error) {
	b, err := os.ReadFile(h.root + path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", hostError("read what setup wrote", "run caisson setup as root", err)
	}
	if !strings.HasPrefix(string(b), setupMark) {
		return "", &api.Error{Code: api.CodeHost, Message: path + " is there, and caisson setup did not write it", Hint: "move it away, or add to it by hand what caisson setup --print shows on a host without it"}
	}
	return string(b), nil
}

// text is a small file's content, "" if it cannot be read.
func (h *setupHost) text(path string) string {
	b, err := os.ReadFile(h.root + path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// rootOnly refuses a file that somebody other than root could replace.
func rootOnly(path string) error {
	for p := path; ; p = filepath.Dir(p) {
		info, err := os.Lstat(p)
		if err != nil {
			return fmt.Errorf("look at %s: %w", p, err)
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		sticky := info.IsDir() && info.Mode()&os.ModeSticky != 0
		if !ok || st.Uid != 0 || info.Mode().Perm()&0o022 != 0 && !sticky {
			return fmt.Errorf("%s can be changed by others than root", p)
		}
		if p == "/" {
			return nil
		}
	}
}
