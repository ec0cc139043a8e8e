package bench

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// Conditions are what the figures depend on.
type Conditions struct {
	Time       time.Time         `json:"time"`
	Kernel     string            `json:"kernel"`
	CPU        string            `json:"cpu"`
	CPUs       int               `json:"cpus"`
	LoadBefore string            `json:"load_before"` // averages of 1, 5 and 15 minutes
	LoadAfter  string            `json:"load_after"`
	User       string            `json:"user"`
	UID        int               `json:"uid"`
	Workspace  string            `json:"workspace"`
	Rounds     int               `json:"rounds"`
	Warmups    int               `json:"warmups"`
	Seed       uint64            `json:"seed"`
	Versions   map[string]string `json:"versions"` // by peer, and "go"
}

func conditions(o Options, who account, dir string, peers []peer) Conditions {
	c := Conditions{
		Time: time.Now().UTC(), Kernel: firstLine("/proc/sys/kernel/osrelease"), CPU: cpuModel(), CPUs: runtime.NumCPU(),
		LoadBefore: loadAverage(), User: who.name, UID: who.uid, Workspace: describeFolder(o.Workspace, dir),
		Rounds: o.Rounds, Warmups: warmups, Seed: o.Seed, Versions: map[string]string{"go": runtime.Version()},
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		c.Versions["go"] = info.GoVersion
	}
	for _, p := range peers {
		if p.version != nil {
			c.Versions[p.name] = versionOf(p.version)
		}
	}
	return c
}

// versionOf returns the first line that a version command prints, or why there is none.
func versionOf(argv []string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).Output()
	if err != nil {
		return "unknown: " + err.Error()
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return line
}

func describeFolder(given, dir string) string {
	if given == "" {
		return "a new empty folder"
	}
	return dir
}

func loadAverage() string {
	fields := strings.Fields(firstLine("/proc/loadavg"))
	return strings.Join(fields[:min(3, len(fields))], " ")
}

func cpuModel() string {
	data, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(data)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

func firstLine(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	line, _, _ := strings.Cut(string(data), "\n")
	return line
}
