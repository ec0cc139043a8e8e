package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// act is one step of a change: a file that is written, one that is removed, or a
// program that is run. The same steps are done and are printed as a script.
type act struct {
	write  string // path of a file to write, with text
	text   string
	remove string   // path of a file to remove
	run    []string // a program; looked up in PATH
	maybe  bool     // run only where the program is there
}

// script is the act in a root shell's words.
func (c *act) script() string {
	switch {
	case c.write != "":
		return fmt.Sprintf("mkdir -p %s\ncat >%s <<'END'\n%sEND\n", shellWord(filepath.Dir(c.write)), shellWord(c.write), c.text)
	case c.remove != "":
		script := "rm -f " + shellWord(c.remove) + "\n"
		if filepath.Dir(c.remove) == setupDir {
			script += "rmdir " + setupDir + " 2>/dev/null || true\n"
		}
		return script
	}
	words := make([]string, len(c.run))
	for i, w := range c.run {
		words[i] = shellWord(w)
	}
	return strings.Join(words, " ") + "\n"
}

// do does the act below root, which is "" but in tests.
func (c *act) do(root string) error {
	switch {
	case c.write != "":
		return writeWhole(root+c.write, c.text)
	case c.remove != "":
		if err := os.Remove(root + c.remove); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove file: %w", err)
		}
		if filepath.Dir(c.remove) == setupDir {
			_ = os.Remove(root + setupDir) // a ceiling may lie in it
		}
		return nil
	}
	path, err := exec.LookPath(c.run[0])
	if err != nil && c.maybe {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find program: %w", err)
	}
	out, err := exec.Command(path, c.run[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(c.run, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// writeWhole writes a file that only its owner changes, in one step: nobody reads half of it.
func writeWhole(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".caisson-")
	if err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	defer os.Remove(f.Name()) // gone after the rename
	_, err = f.WriteString(text)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	return nil
}

// apply does a change; what it had done of one that failed it takes back.
func (c *change) apply(root string) error {
	for i := range c.acts {
		err := c.acts[i].do(root)
		if err == nil {
			continue
		}
		errs := []error{hostError(c.Name, "caisson setup --print shows the commands, to be run by hand", err)}
		for j := range c.undo {
			if err := c.undo[j].do(root); err != nil {
				errs = append(errs, hostError(c.Name, "", err))
			}
		}
		return errors.Join(errs...)
	}
	return nil
}

// shellWord quotes a word for a POSIX shell where it needs that.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-=:,@+", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
