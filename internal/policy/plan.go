package policy

import (
	"github.com/caisson-dev/caisson/api"
)

// Plan is what one sandbox will be: the tier-neutral result of a policy and a
// host. Resolve makes it; nothing changes it afterwards, and a driver realises
// it exactly or refuses. The zero value grants nothing: no mounts, no network,
// no environment.
type Plan struct {
	Tier     api.Tier
	Image    string // "host" or a reference
	User     User
	Hostname string // the same in every box, so that it says nothing

	Workspace Workspace
	Mounts    []Mount  // in the order in which they are made: parents first
	Env       []string // NAME=VALUE; all of it
	Argv      []string
	Dir       string // working directory inside, absolute

	Limits   api.Limits   // zero fields are unlimited
	Lifetime api.Lifetime // zero fields are unlimited

	// Sealed: no wire, no gateway; only the box's own loopback. False needs
	// Network. The zero Plan is not sealed and has no rules, which a driver
	// treats as sealed too: no rule, no wire.
	Sealed      bool
	Network     api.Network
	Credentials []api.Credential
	Git         []api.GitRule
	Services    []api.Service
	Nested      bool

	Accepted []api.Loss  // losses that the user accepted by name
	Points   []api.Point // every promise with its strength here
	Warnings []string    // one line each, for the person
	Digest   string      // "sha256:..." of the resolved policy
}

// User is who the programs inside are.
type User struct {
	UID, GID    int // as programs inside see them
	Name, Group string
	Home        string // absolute; a private empty folder inside
	Shell       string
	// HostUID and HostGID are the ids that the host's kernel sees. They differ
	// from UID and GID only in an image; 0 never occurs.
	HostUID, HostGID int
	// IDMap: mounts of the workspace translate WorkspaceUID and WorkspaceGID on
	// disk to HostUID and HostGID (idmapped mounts; started as root only).
	IDMap                      bool
	WorkspaceUID, WorkspaceGID int
}

// Workspace is the workspace part of a plan.
type Workspace struct {
	Source string // on the host, absolute, links resolved; empty for none
	Target string // inside, absolute
	Mode   api.WorkspaceMode
}

// MountKind says what is mounted.
type MountKind uint8

// The kinds of mounts. The zero value is no mount: a driver refuses it.
const (
	MountInvalid MountKind = iota
	MountBind              // a host file or folder, recursively
	MountTmpfs             // an empty private folder
	MountFile              // a made-up file with Data
	MountLink              // a symbolic link to Source, as text
	MountProc              // a fresh /proc with what is not the box's masked
	MountDev               // a minimal /dev: null, zero, full, random, urandom, tty, ptmx, pts, shm, fd
	MountHide              // nothing: an empty unreadable cover over a path of an earlier mount
)

// Mount is one entry of the root that is built from nothing.
type Mount struct {
	Kind     MountKind
	Source   string // host path (bind) or link text
	Target   string // inside, absolute and clean
	Writable bool   // false: read-only, recursively
	NoExec   bool
	Optional bool   // a source that is absent is skipped, not an error
	IDMap    bool   // ids translated as in User
	Mode     uint32 // permission bits of a tmpfs or file; 0: 0755 or 0644
	Size     int64  // bytes a tmpfs may hold; 0: the kernel's default
	Data     []byte // of a file
	Origin   api.Origin
}

// Caller is what resolution must know of whoever starts the sandbox.
type Caller struct {
	UID, GID    int
	Name, Group string
	Home        string
	AccountHome string   // as the user database has it, which HOME need not be; "" if unknown
	Dir         string   // working directory, absolute
	Env         []string // the caller's environment
	Argv        []string // the command to run
	API         bool     // through the API: other defaults of the workspace mode
	ConfigDir   string   // the user's config folder: presets, policy.yaml
	StateDir    string   // Caisson's own state: never visible inside
	GuestDir    string   // where the guest's binary lies, which is executed outside too: never writable inside
	// BoxUID and BoxGID are the unprivileged host ids that a sandbox started by
	// root runs under. Unused when UID is not 0.
	BoxUID, BoxGID int
	// CanIDMap reports whether mounts of the file system at dir can translate ids
	// on this host. Nil: none can.
	CanIDMap func(dir string) bool
}
