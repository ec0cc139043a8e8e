package cli

import (
	"context"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"github.com/caisson-dev/caisson/api"
	"github.com/caisson-dev/caisson/internal/driver"
	"github.com/caisson-dev/caisson/internal/policy"
)

// plan resolves what the call asks for into what a sandbox on this host will
// be, or says why there can be none.
func (a *app) plan(ctx context.Context, f *policyFlags, drivers []driver.Driver, argv []string) (*policy.Plan, error) {
	c, err := a.caller(argv)
	if err != nil {
		return nil, err
	}
	layers, err := a.layers(f, &c)
	if err != nil {
		return nil, err
	}
	ceiling, err := policy.ReadCeiling(policy.CeilingPath)
	if err != nil {
		return nil, err
	}
	probes := make(map[api.Tier]api.Probe, len(drivers))
	for _, d := range drivers {
		probes[d.Tier()] = d.Probe(ctx, driver.ProbeQuick)
	}
	return policy.Resolve(policy.Input{Layers: layers, Ceiling: ceiling, Caller: c, Probes: probes})
}

// layers reads the policies of a call, the lowest first: the file that --policy
// names; without it and without presets the user's own; then the flags. The
// workspace is never asked.
func (a *app) layers(f *policyFlags, c *policy.Caller) ([]*policy.File, error) {
	var file *policy.File
	var err error
	switch own := filepath.Join(c.ConfigDir, "policy.yaml"); {
	case f.file != "":
		file, err = policy.ReadFile(f.file)
	case c.ConfigDir != "" && !f.has("preset") && exists(own):
		file, err = policy.ReadFile(own)
	}
	if err != nil {
		return nil, err
	}
	flags, err := f.layer(c.Env)
	if err != nil {
		return nil, err
	}
	return policy.Stack(c.ConfigDir, file, flags)
}

// exists tells whether something has that name, readable or not: a policy that
// cannot be read must not be as good as none.
func exists(name string) bool {
	_, err := os.Lstat(name)
	return !os.IsNotExist(err)
}

// caller is whoever started this program.
func (a *app) caller(argv []string) (policy.Caller, error) {
	dir, err := os.Getwd()
	if err != nil {
		return policy.Caller{}, &api.Error{
			Code:    api.CodeWorkspace,
			Message: "the folder that you are in cannot be found: " + err.Error(),
			Hint:    "change into a folder that exists",
		}
	}
	c := policy.Caller{
		UID: os.Getuid(), GID: os.Getgid(), Home: a.getenv("HOME"), Dir: dir,
		Env: os.Environ(), Argv: argv, ConfigDir: a.configDir(),
	}
	if u, err := user.LookupId(strconv.Itoa(c.UID)); err == nil {
		c.Name, c.AccountHome = u.Username, u.HomeDir
	}
	if g, err := user.LookupGroupId(strconv.Itoa(c.GID)); err == nil {
		c.Group = g.Name
	}
	return c, a.setHost(&c)
}

// configDir is the user's own folder of policies and presets, "" if there is
// no telling where it is.
func (a *app) configDir() string {
	if dir := a.getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "caisson")
	}
	if home := a.getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".config", "caisson")
	}
	return ""
}
