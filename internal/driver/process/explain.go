//go:build linux

package process

import (
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/caisson-dev/caisson/api"
)

// explain turns the failure of a start into what a person can act on. The
// causes are those of hosts that block user namespaces; whatever else fails is told as
// it is.
func explain(err error) error {
	switch {
	case errors.Is(err, unix.ENOSPC):
		return &api.Error{
			Code: api.CodeHost, Message: "this host allows no more user namespaces: " + err.Error(),
			Hint: "as root: sysctl user.max_user_namespaces=15000 (and keep it in /etc/sysctl.d)",
		}
	case errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES):
		return &api.Error{
			Code: api.CodeHost, Message: "this host does not let an ordinary user make namespaces: " + err.Error(),
			Hint: userNamespaceFix(),
		}
	}
	return &api.Error{Code: api.CodeHost, Message: "start box: " + err.Error(), Hint: "caisson doctor --tier process says what this host lacks"}
}

// userNamespaceFix names the setting of this host that closes user namespaces.
func userNamespaceFix() string {
	for _, f := range []struct{ file, closed, fix string }{
		{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "AppArmor restricts user namespaces here; as root: sysctl kernel.apparmor_restrict_unprivileged_userns=0, or give caisson a profile with the rule \"userns,\""},
		{"/proc/sys/kernel/unprivileged_userns_clone", "0", "as root: sysctl kernel.unprivileged_userns_clone=1"},
		{"/proc/sys/user/max_user_namespaces", "0", "as root: sysctl user.max_user_namespaces=15000"},
	} {
		b, err := os.ReadFile(f.file)
		if err == nil && strings.TrimSpace(string(b)) == f.closed {
			return f.fix
		}
	}
	return "a container or a security module blocks them; caisson doctor --tier process says more"
}
