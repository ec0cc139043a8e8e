package cli

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/caisson-dev/caisson/internal/testenv"
)

// TestInAContainer starts sandboxes in real containers, made by runc with what
// its own default configuration masks and takes away. The control is a container that
// opens what the hint says.
func TestInAContainer(t *testing.T) {
	testenv.Need(t, "root", "runc", "unshare")
	noPaths := func(c object) {
		c.at("linux")["maskedPaths"], c.at("linux")["readonlyPaths"] = []string{}, []string{}
	}
	for _, c := range []struct {
		name   string
		uid    int
		change func(config object)
		code   int
		says   string
	}{
		{"as the hints say", 1000, noPaths, 0, ""},
		{"by default", 1000, func(object) {}, 125, "caisson: this container's /proc is masked ("},
		{"as root", 0, noPaths, 125, "caisson: root lacks capabilities here that a sandbox is set up by: CAP_SYS_ADMIN, CAP_NET_ADMIN, CAP_SYS_TIME, CAP_SETPCAP\n"},
		{"with a filter", 1000, func(c object) { noPaths(c); c.at("linux")["seccomp"] = noNewUser() }, 125, "caisson: a seccomp filter, as containers have one, refuses new namespaces\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bundle := makeBundle(t, c.uid, c.change)
			id := "caisson-test-" + strconv.Itoa(os.Getpid())
			// In a mount namespace of its own: what a killed runc leaves goes with it.
			cmd := exec.Command("unshare", "-m", "--propagation", "private", "runc", "--root", bundle+"/state", "run", "--bundle", bundle, id)
			out, err := cmd.CombinedOutput()
			if cmd.ProcessState == nil {
				t.Fatal(err)
			}
			if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.HasPrefix(string(out), c.says) || c.code != 0 && !strings.Contains(string(out), "caisson: hint: ") {
				t.Errorf("exit code %d, want %d\n%s", code, c.code, out)
			}
		})
	}
}

// object is a JSON object.
type object map[string]any

func (o object) at(key string) object { return o[key].(map[string]any) }

// makeBundle makes a container of runc's default configuration that runs caisson with the
// host's /usr.
func makeBundle(t *testing.T, uid int, change func(object)) string {
	t.Helper()
	bundle := t.TempDir()
	for _, dir := range []string{"usr", "proc", "dev", "sys", "tmp", "etc", "bin-of-caisson", "home/user"} {
		if err := os.MkdirAll(filepath.Join(bundle, "rootfs", dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"bin", "lib", "lib64"} {
		if err := os.Symlink("usr/"+name, filepath.Join(bundle, "rootfs", name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(bundle+"/rootfs/home/user", uid, uid); err != nil {
		t.Fatal(err)
	}
	spec := exec.Command("runc", "spec", "--bundle", bundle)
	if out, err := spec.CombinedOutput(); err != nil {
		t.Fatalf("runc spec: %v\n%s", err, out)
	}
	text, err := os.ReadFile(bundle + "/config.json")
	if err != nil {
		t.Fatal(err)
	}
	config := object{}
	if err := json.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	process := config.at("process")
	process["terminal"], process["cwd"] = false, "/home/user"
	process["user"] = object{"uid": uid, "gid": uid}
	process["env"] = []string{"HOME=/home/user", "PATH=/usr/bin:/bin", "CAISSON_STATE=/home/user/state"}
	process["args"] = []string{"/bin-of-caisson/caisson", "run", "--workspace-mode", "none", "--", "true"}
	config.at("root")["readonly"] = false
	mounts := []any{}
	for _, m := range config["mounts"].([]any) {
		if m.(map[string]any)["destination"] != "/sys/fs/cgroup" { // not on every host that runs tests
			mounts = append(mounts, m)
		}
	}
	for to, from := range map[string]string{"/usr": "/usr", "/bin-of-caisson": filepath.Dir(testenv.Binary(t, "caisson"))} {
		mounts = append(mounts, object{"destination": to, "type": "bind", "source": from, "options": []string{"rbind", "ro"}})
	}
	config["mounts"] = mounts
	change(config)
	if text, err = json.Marshal(config); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(bundle+"/config.json", text, 0o600); err != nil {
		t.Fatal(err)
	}
	return bundle
}

// noNewUser is the part of Docker's filter that matters here, in an OCI configuration's words.
func noNewUser() object {
	const newUser = 0x10000000
	return object{
		"defaultAction": "SCMP_ACT_ALLOW",
		"syscalls": []object{
			{"names": []string{"clone", "unshare"}, "action": "SCMP_ACT_ERRNO", "args": []object{{"index": 0, "value": newUser, "valueTwo": newUser, "op": "SCMP_CMP_MASKED_EQ"}}},
			{"names": []string{"clone3"}, "action": "SCMP_ACT_ERRNO", "errnoRet": 38},
		},
	}
}
