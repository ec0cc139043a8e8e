package api

// Tier is how strongly a sandbox is isolated. The zero value names no tier.
type Tier string

// The tiers, and the word that lets Caisson choose.
const (
	TierAuto      Tier = "auto"
	TierProcess   Tier = "process"
	TierContainer Tier = "container"
	TierGVisor    Tier = "gvisor"
	TierMicroVM   Tier = "microvm"
	TierWasm      Tier = "wasm"
)

// Tiers lists the real tiers in the order of the documentation.
func Tiers() []Tier {
	return []Tier{TierProcess, TierContainer, TierGVisor, TierMicroVM, TierWasm}
}

// Feature is one thing that a tier needs of the host or can do on it: what a
// driver's Probe reports, what `caisson doctor` prints, and what a plan's
// strengths are taken from.
type Feature struct {
	Name     string   `json:"name"`               // one of the Feature names below
	Strength Strength `json:"strength"`           // what this host gives
	Required bool     `json:"required,omitempty"` // without it the tier does not run
	Detail   string   `json:"detail,omitempty"`   // what was seen ("ABI 7", "cgroup v1")
	Reason   string   `json:"reason,omitempty"`   // why it is weaker than hard
	Fix      string   `json:"fix,omitempty"`      // the exact command or setting that helps
}

// Names of features, the closed list that policy resolution reads.
const (
	FeatureUserNamespaces = "user-namespaces"
	FeatureNamespaces     = "namespaces" // mount, pid, net, ipc, uts, cgroup
	FeatureTimeNamespace  = "time-namespace"
	FeatureMountAPI       = "mount-api" // open_tree, move_mount, mount_setattr: Linux 5.12
	FeatureIDMap          = "idmapped-mounts"
	FeatureSeccomp        = "seccomp"
	FeatureLandlock       = "landlock"
	FeaturePidfd          = "pidfd"
	FeatureLimitMemory    = "limit-memory"
	FeatureLimitCPU       = "limit-cpus"
	FeatureLimitPids      = "limit-pids"
	FeatureLimitDisk      = "limit-disk"
	FeatureLimitFiles     = "limit-open-files"
	FeatureLimitOutput    = "limit-output"
	FeatureLimitWall      = "limit-wall"
	FeatureFreeze         = "freeze"
	FeatureTUN            = "tun"
	FeatureOverlay        = "overlay"
)

// Probe is what a driver found on this host.
type Probe struct {
	Tier     Tier      `json:"tier"`
	Usable   bool      `json:"usable"` // every required feature is there
	Features []Feature `json:"features"`
}

// Feature returns the named feature; one that was not reported has strength none.
func (p Probe) Feature(name string) Feature {
	for _, f := range p.Features {
		if f.Name == name {
			return f
		}
	}
	return Feature{Name: name}
}

// Point is one promise of a plan with the strength it has on this host: "the
// network is sealed", "memory is at most 4 GiB".
type Point struct {
	Name     string   `json:"name"`             // "limits.memory", "network", "filesystem.read[0]"
	Value    string   `json:"value"`            // as a person reads it
	Strength Strength `json:"strength"`         // on this host, in this tier
	Origin   Origin   `json:"origin"`           // who asked for it
	Reason   string   `json:"reason,omitempty"` // why it is not hard
	Loss     Loss     `json:"loss,omitempty"`   // the loss whose acceptance lets it be weaker
}

// Origin says where a setting comes from.
type Origin struct {
	Source string `json:"source"`         // "default", "preset NAME", "flag --allow", "ceiling", or a file
	Line   int    `json:"line,omitempty"` // in a file or preset, from 1; 0 where there is none
	User   bool   `json:"user,omitempty"` // the user wrote it: it must be hard
}
