package escape

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1" //nolint:gosec // the repository format's own hash
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
)

// makeRepository writes a small git repository with two commits, without git:
// the lab asks nothing of the machine. It gives the two commits; the branch
// main is at the second.
func makeRepository(dir string) ([2]string, error) {
	git := filepath.Join(dir, ".git")
	for _, d := range []string{"objects/info", "objects/pack", "refs/heads", "refs/tags", "hooks", "info"} {
		if err := os.MkdirAll(filepath.Join(git, d), 0o755); err != nil {
			return [2]string{}, fmt.Errorf("make repository: %w", err)
		}
	}
	var commits [2]string
	parent := ""
	for i, text := range []string{"first\n", "second\n"} {
		blob, err := writeObject(git, "blob", []byte(text))
		if err != nil {
			return commits, err
		}
		raw, _ := hex.DecodeString(blob)
		tree, err := writeObject(git, "tree", append([]byte("100644 README\x00"), raw...))
		if err != nil {
			return commits, err
		}
		commits[i], err = writeObject(git, "commit", fmt.Appendf(nil,
			"tree %s\n%sauthor Lab <lab@example.org> %d +0000\ncommitter Lab <lab@example.org> %d +0000\n\n%s", tree, parent, 1700000000+i, 1700000000+i, text))
		if err != nil {
			return commits, err
		}
		parent = "parent " + commits[i] + "\n"
	}
	for name, text := range map[string]string{
		".git/HEAD":            "ref: refs/heads/main\n",
		".git/config":          "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n",
		".git/description":     "Unnamed repository\n",
		".git/refs/heads/main": commits[1] + "\n",
		"README":               "second\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return commits, fmt.Errorf("make repository: %w", err)
		}
	}
	return commits, nil
}

// writeObject stores a loose object and gives its name.
func writeObject(git, kind string, body []byte) (string, error) {
	full := append(fmt.Appendf(nil, "%s %d\x00", kind, len(body)), body...)
	sum := sha1.Sum(full) //nolint:gosec // as above
	name := hex.EncodeToString(sum[:])
	var z bytes.Buffer
	w := zlib.NewWriter(&z)
	_, _ = w.Write(full) // into memory: cannot fail
	_ = w.Close()
	p := filepath.Join(git, "objects", name[:2], name[2:])
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		return "", fmt.Errorf("write object: %w", err)
	}
	if err := os.WriteFile(p, z.Bytes(), 0o444); err != nil {
		return "", fmt.Errorf("write object: %w", err)
	}
	return name, nil
}
