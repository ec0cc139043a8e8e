package policy

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

// files looks at the host's files, each name once. Names are absolute and
// clean; root stands before them ("" but in tests).
type files struct {
	root   string
	seen   map[string]look
	listed [2]string // folders all of whose names are in seen
	passed []string  // where the links stand that the last real went through
}

type look struct {
	mode fs.FileMode // type bits only
	link string      // text of a symbolic link
	err  error
}

func newFiles(root string) *files { return &files{root: root, seen: make(map[string]look, 384)} }

// list looks at all names of a folder at once. For /, and for /etc, of which
// base asks about eighty names, that is cheaper than a look at each.
func (f *files) list(slot int, dir string) {
	d, err := os.Open(f.root + dir)
	if err != nil {
		return // then each name is looked at by itself
	}
	defer d.Close()
	entries, err := d.ReadDir(-1)
	if err != nil {
		return
	}
	for _, e := range entries {
		f.seen[join2(dir, e.Name())] = look{mode: e.Type()}
	}
	f.listed[slot] = dir
}

// at looks at one name without following a link in its last part.
func (f *files) at(name string) look {
	l, ok := f.seen[name]
	if ok && (l.mode&fs.ModeSymlink == 0 || l.link != "" || l.err != nil) {
		return l
	}
	if !ok {
		if dir := path.Dir(name); dir == f.listed[0] || dir == f.listed[1] {
			return look{err: syscall.ENOENT}
		}
		info, err := os.Lstat(f.root + name)
		if l.err = err; err == nil {
			l.mode = info.Mode().Type()
		}
	}
	if l.err == nil && l.mode&fs.ModeSymlink != 0 {
		l.link, l.err = os.Readlink(f.root + name)
	}
	f.seen[name] = l
	return l
}

// exists reports whether there is anything at a name, a dangling link included.
func (f *files) exists(name string) bool { return f.at(name).err == nil }

var errLinks = errors.New("too many symbolic links")

// real resolves every link of a name and tells the type of what is at its end.
func (f *files) real(name string) (string, fs.FileMode, error) {
	const most = 40 // as the kernel's MAXSYMLINKS
	done, rest := "/", path.Clean(name)[1:]
	f.passed = f.passed[:0]
	mode := fs.ModeDir
	for rest != "" {
		var part string
		part, rest, _ = strings.Cut(rest, "/")
		switch part {
		case "", ".":
			continue
		case "..":
			done, mode = path.Dir(done), fs.ModeDir
			continue
		}
		next := join2(done, part)
		l := f.at(next)
		if l.err != nil {
			return "", 0, l.err
		}
		if l.mode&fs.ModeSymlink == 0 {
			done, mode = next, l.mode
			continue
		}
		if f.passed = append(f.passed, next); len(f.passed) > most {
			return "", 0, errLinks
		}
		if path.IsAbs(l.link) {
			done, mode = "/", fs.ModeDir
		}
		rest = l.link + "/" + rest
	}
	return done, mode, nil
}

// join2 joins a clean absolute folder and one name.
func join2(dir, name string) string {
	if dir == "/" {
		return "/" + name
	}
	return dir + "/" + name
}

// within reports whether name is dir or below it. Both are absolute and clean.
func within(name, dir string) bool {
	return name == dir || dir == "/" || strings.HasPrefix(name, dir) && name[len(dir)] == '/'
}

// expand makes a path of a policy absolute: ~ is the home, relative ones are
// below the caller's folder.
func expand(p string, c *Caller) string {
	switch {
	case p == "~":
		return path.Clean(c.Home)
	case strings.HasPrefix(p, "~/"):
		return path.Join(c.Home, p[2:])
	case path.IsAbs(p):
		return path.Clean(p)
	}
	return path.Join(c.Dir, p)
}
