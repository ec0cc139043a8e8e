//go:build linux

package stage

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/caisson-dev/caisson/internal/linux"
)

// Access is what a Landlock grant opens. The zero value opens nothing.
type Access uint8

// The accesses.
const (
	AccessRead    Access = 1 << iota // read files, list folders
	AccessExec                       // execute files
	AccessWrite                      // write, truncate, make (no device nodes), remove, rename and link
	AccessDevice                     // ioctl on device nodes: /dev alone
	AccessConnect                    // connect to sockets that a process outside the domain made
)

// landlockABI is what a version of Landlock adds. Its rights and scopes are
// handled: denied, unless a grant opens them.
type landlockABI struct {
	version int
	linux   string // the kernel that brought it
	rights  uint64
	scopes  uint64
	flags   uint32 // how a domain is entered
	lacking string // what is not bounded by Landlock, or not possible, below this version
}

// landlockABIs has every version that this code knows. A kernel with a newer one
// gets the last row.
//
// TCP (ABI 4) and UDP (ABI 10) are handled nowhere: a port number
// is no authority in a box that has its own network, whose wire decides by name. ABI 8 brings
// entering on all threads, which is the contrary of what is wanted here.
var landlockABIs = []landlockABI{
	{
		version: 1, linux: "5.13",
		rights: unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_READ_FILE |
			unix.LANDLOCK_ACCESS_FS_READ_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
			unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
			unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK |
			unix.LANDLOCK_ACCESS_FS_MAKE_SYM,
		lacking: "a second layer behind the mounts",
	},
	{
		version: 2, linux: "5.19", rights: unix.LANDLOCK_ACCESS_FS_REFER,
		lacking: "renames and links from one folder to another (they fail with EXDEV, and most programs copy instead)",
	},
	{version: 3, linux: "6.2", rights: unix.LANDLOCK_ACCESS_FS_TRUNCATE, lacking: "a bound on truncating"},
	{version: 4, linux: "6.7"},
	{version: 5, linux: "6.10", rights: unix.LANDLOCK_ACCESS_FS_IOCTL_DEV, lacking: "a bound on ioctl of devices outside /dev"},
	{
		version: 6, linux: "6.12", scopes: unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL,
		lacking: "a second layer behind the pid and network namespaces for signals and abstract sockets",
	},
	{
		// Denials are the matter of our own log; a program could flood the host's.
		version: 7, linux: "6.15", flags: unix.LANDLOCK_RESTRICT_SELF_LOG_SAME_EXEC_OFF | unix.LANDLOCK_RESTRICT_SELF_LOG_SUBDOMAINS_OFF,
		lacking: "silence in the host's audit log",
	},
	{version: 8, linux: "7.0"},
	{
		version: 9, linux: "7.1", rights: unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX,
		lacking: "a bound on sockets of the host in granted folders",
	},
}

// accessRights says which rights an access opens.
var accessRights = []struct {
	access Access
	rights uint64
}{
	{AccessRead, unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR},
	{AccessExec, unix.LANDLOCK_ACCESS_FS_EXECUTE},
	{
		// REFER wherever there is WRITE, else a rename from folder to folder is EXDEV.
		AccessWrite, unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_REFER |
			unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
			unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO |
			unix.LANDLOCK_ACCESS_FS_MAKE_SYM,
	},
	{AccessDevice, unix.LANDLOCK_ACCESS_FS_IOCTL_DEV},
	{AccessConnect, unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX},
}

// fileRights are those that a rule on anything but a folder may have.
const fileRights = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_READ_FILE |
	unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV | unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX

// Grant opens accesses beneath one folder, or to one file.
type Grant struct {
	Path   string // absolute, without symbolic links: what mounts stand on
	FD     int    // if Path is empty: a descriptor of it, O_PATH is enough; stays the caller's
	Access Access
}

// LandlockOptions describe a domain. The zero value grants nothing.
type LandlockOptions struct {
	Grants []Grant
	// Nested handles scopes alone, no rights on files: the kernel refuses every mount to
	// a thread in a domain that handles files, and inner sandboxes need mounts.
	Nested bool
	MaxABI int // use no more than this version; 0: all that the kernel has
}

// Domain is a Landlock domain that can be entered once. The zero value is none and
// cannot be entered.
type Domain struct {
	ABI     int // the version in use
	ruleset int // descriptor + 1
	flags   uint32
}

// ErrNoLandlock is returned where the kernel has no Landlock or has it turned
// off, and for Nested where it has no scopes yet.
var ErrNoLandlock = errors.New("this kernel has no Landlock for this, or it is not among the modules of the lsm= boot parameter")

// LandlockDomain prepares a domain that handles every right and scope that the
// kernel knows and that landlockABIs lists, and opens the grants alone. A path
// that is missing or goes through a symbolic link is an error.
func LandlockDomain(o LandlockOptions) (Domain, error) {
	abi := linux.LandlockABI()
	if o.MaxABI > 0 {
		abi = min(abi, o.MaxABI)
	}
	if abi < 1 {
		return Domain{}, ErrNoLandlock
	}
	var all linux.LandlockRuleset
	d := Domain{}
	for _, a := range landlockABIs {
		if a.version > abi {
			break
		}
		d.ABI = a.version
		if !o.Nested {
			all.AccessFS |= a.rights
		}
		all.Scoped |= a.scopes
		d.flags |= a.flags
	}
	if all == (linux.LandlockRuleset{}) {
		return Domain{}, ErrNoLandlock
	}
	fd, err := linux.LandlockCreate(all)
	if err != nil {
		return Domain{}, err
	}
	d.ruleset = fd + 1
	for _, g := range o.Grants {
		if err := d.grant(g, all.AccessFS); err != nil {
			return Domain{}, errors.Join(err, d.Close())
		}
	}
	return d, nil
}

func (d Domain) grant(g Grant, handled uint64) error {
	var rights uint64
	for _, a := range accessRights {
		if g.Access&a.access != 0 {
			rights |= a.rights
		}
	}
	fd := g.FD
	if g.Path != "" {
		var err error
		how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}
		fd, err = unix.Openat2(unix.AT_FDCWD, g.Path, &how)
		if err != nil {
			return fmt.Errorf("grant %s: %w", g.Path, err)
		}
		defer unix.Close(fd)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("grant %s: %w", g.Path, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= fileRights
	}
	if rights &= handled; rights == 0 {
		return nil // the kernel refuses an empty rule
	}
	if err := linux.LandlockGrant(d.ruleset-1, fd, rights); err != nil {
		return fmt.Errorf("grant %s: %w", g.Path, err)
	}
	return nil
}

// Enter sets no_new_privs and puts the calling thread alone into the domain,
// for good; the caller has locked its goroutine to the thread. It
// comes before the filter, and not on the leader of the thread group: the kernel takes a
// process to be where its leader is, so PID 1 would be inside and in
// reach of the programs' signals. The domain is closed, whatever happens.
func (d Domain) Enter() error {
	if d.ruleset == 0 {
		return errors.New("enter landlock domain: it was never made")
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return errors.Join(fmt.Errorf("set no_new_privs: %w", err), d.Close())
	}
	return errors.Join(linux.LandlockRestrict(d.ruleset-1, d.flags), d.Close())
}

// Close gives up a domain that is not entered.
func (d Domain) Close() error {
	if d.ruleset == 0 {
		return nil
	}
	return unix.Close(d.ruleset - 1)
}

// landlockLacks says what Landlock does not bound on a kernel with the given version.
func landlockLacks(abi int) string {
	var lacks []string
	for _, a := range landlockABIs {
		if a.version > abi && a.lacking != "" {
			lacks = append(lacks, a.lacking+" (Linux "+a.linux+")")
		}
	}
	return strings.Join(lacks, "; ")
}
