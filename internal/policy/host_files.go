package policy

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
)

// files looks at the host's files, each name once. Names are absolute and
// clean; root stands before them ("" but in tests).
type files struct {
	root string
	seen map[string]look
}

type look struct {
	info fs.FileInfo
	link string // text of a symbolic link
	err  error
}

func newFiles(root string) *files { return &files{root: root, seen: make(map[string]look, 192)} }

// at looks at one name without following a link in its last part.
func (f *files) at(name string) look {
	if l, ok := f.seen[name]; ok {
		return l
	}
	var l look
	l.info, l.err = os.Lstat(f.root + name)
	if l.err == nil && l.info.Mode()&fs.ModeSymlink != 0 {
		l.link, l.err = os.Readlink(f.root + name)
	}
	f.seen[name] = l
	return l
}

// exists reports whether there is anything at a name, a dangling link included.
func (f *files) exists(name string) bool { return f.at(name).err == nil }

var errLinks = errors.New("too many symbolic links")

// real resolves every link of a name and tells what is at its end.
func (f *files) real(name string) (string, fs.FileInfo, error) {
	const most = 40 // as the kernel's MAXSYMLINKS
	done, todo, links := "/", strings.Split(strings.TrimPrefix(path.Clean(name), "/"), "/"), 0
	var last fs.FileInfo
	for len(todo) > 0 {
		part := todo[0]
		todo = todo[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			done = path.Dir(done)
			continue
		}
		next := join2(done, part)
		l := f.at(next)
		if l.err != nil {
			return "", nil, l.err
		}
		if l.info.Mode()&fs.ModeSymlink == 0 {
			done, last = next, l.info
			continue
		}
		if links++; links > most {
			return "", nil, errLinks
		}
		if path.IsAbs(l.link) {
			done = "/"
		}
		todo = append(strings.Split(l.link, "/"), todo...)
	}
	// After a ".." the last look was at something else.
	if done == "/" {
		info, err := os.Lstat(f.root + "/")
		return done, info, err
	}
	if l := f.at(done); last == nil || l.info != last {
		return done, l.info, l.err
	}
	return done, last, nil
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
