package bench

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// peer is a command that runs `true` its own way.
type peer struct {
	name    string
	argv    []string
	version []string // a command whose first line says what it is; nil: none
}

// The peers. Ratios refer to baselinePeer.
const (
	barePeer     = "bare"
	baselinePeer = "bubblewrap"
	ownPeer      = "caisson"
)

// peerNames are the peers in the order of the table.
func peerNames() []string { return []string{barePeer, baselinePeer, ownPeer} }

// knownPeers in the order of the table. A peer without argv is not installed.
func knownPeers(o Options, who account, dir string) ([]peer, error) {
	command, err := exec.LookPath("true")
	if err != nil {
		return nil, fmt.Errorf("find a command to run: %w", err)
	}
	peers := []peer{
		{name: barePeer, argv: []string{command}},
		{name: baselinePeer},
		{name: ownPeer, argv: []string{o.Caisson, "run", "--", command}, version: []string{o.Caisson, "version"}},
	}
	bwrap, err := exec.LookPath("bwrap")
	switch {
	case err == nil:
		peers[1].argv = bubblewrap(bwrap, who.home, dir, command)
		peers[1].version = []string{bwrap, "--version"}
	case !errors.Is(err, exec.ErrNotFound):
		return nil, fmt.Errorf("find bubblewrap: %w", err)
	}
	return peers, nil
}

func choosePeers(o Options, who account, dir string) ([]peer, error) {
	known, err := knownPeers(o, who, dir)
	if err != nil {
		return nil, err
	}
	var chosen []peer
	for _, p := range known {
		asked := slices.Contains(o.Peers, p.name)
		switch {
		case o.Peers != nil && !asked:
		case p.argv != nil:
			chosen = append(chosen, p)
		case asked:
			return nil, fmt.Errorf("%s is not installed: apt-get install %s", p.name, p.name)
		}
	}
	return chosen, nil
}

// bubblewrap is the set-up that compares with a box of ours: every namespace, a root
// built from read-only binds of the system folders, an empty home, its own /proc,
// /dev and /tmp, no capabilities, a session of its own, death with its parent.
func bubblewrap(bwrap, home, dir, command string) []string {
	argv := []string{
		bwrap, "--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup",
		"--die-with-parent", "--new-session", "--cap-drop", "ALL", "--hostname", "box",
	}
	for _, path := range []string{"/usr", "/etc", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"} {
		if link, err := os.Readlink(path); err == nil {
			argv = append(argv, "--symlink", link, path)
		} else if _, err := os.Stat(path); err == nil {
			argv = append(argv, "--ro-bind", path, path)
		}
	}
	argv = append(argv, "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/run")
	if home != "" && filepath.Clean(home) != "/" {
		argv = append(argv, "--tmpfs", home)
	}
	argv = append(argv, "--bind", dir, dir, "--chdir", dir, "--clearenv", "--setenv", "PATH", "/usr/bin:/bin", "--setenv", "HOME", home)
	return append(argv, "--", command)
}
