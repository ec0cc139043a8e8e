//go:build linux

package process_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/caisson-dev/caisson/api"
	"github.com/caisson-dev/caisson/internal/driver"
	"github.com/caisson-dev/caisson/internal/driver/process"
	"github.com/caisson-dev/caisson/internal/guest"
	"github.com/caisson-dev/caisson/internal/linux"
	"github.com/caisson-dev/caisson/internal/policy"
	"github.com/caisson-dev/caisson/internal/testenv"
)

// boxID is the host id of a box that the tests start as root.
const boxID = 0x6fff_fff0

func newDriver(t *testing.T) driver.Driver {
	t.Helper()
	testenv.Need(t, "userns")
	return process.At(testenv.Binary(t, "caisson-guest"))
}

// newPlan resolves the plan of an ordinary run in a workspace of the test's.
func newPlan(t *testing.T, text string) *policy.Plan {
	t.Helper()
	ws := filepath.Join(testenv.UserDir(t, os.Getuid(), os.Getgid()), "ws")
	if err := os.Mkdir(ws, 0o755); err != nil {
		t.Fatal(err)
	}
	file, err := policy.Parse("test.yaml", []byte("version: 1\n"+text))
	if err != nil {
		t.Fatal(err)
	}
	layers, err := policy.Stack(filepath.Join(ws, "none"), file)
	if err != nil {
		t.Fatal(err)
	}
	home := filepath.Dir(ws)
	d := process.At("")
	plan, err := policy.Resolve(policy.Input{
		Layers: layers,
		Caller: policy.Caller{
			UID: os.Getuid(), GID: os.Getgid(), Name: "tester", Group: "tester", Home: home, Dir: ws,
			Env: []string{"PATH=" + os.Getenv("PATH")}, Argv: []string{"true"}, StateDir: filepath.Join(home, "state"),
			BoxUID: boxID, BoxGID: boxID, CanIDMap: linux.CanIDMap,
		},
		Probes: map[api.Tier]api.Probe{api.TierProcess: d.Probe(context.Background(), driver.ProbeQuick)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// box is a running box with its client.
type box struct {
	driver.Box
	client *guest.Client
	plan   *policy.Plan
}

func start(t *testing.T, plan *policy.Plan) *box {
	t.Helper()
	return startAs(t, "test", plan)
}

// startAs starts a box beside others.
func startAs(t *testing.T, id string, plan *policy.Plan) *box {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	b, err := newDriver(t).Create(ctx, driver.Spec{ID: id, Plan: plan})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Destroy(context.Background()); err != nil {
			t.Error(err)
		}
	})
	c, err := guest.Dial(ctx, b.Stream())
	if err != nil {
		t.Fatal(err)
	}
	return &box{Box: b, client: c, plan: plan}
}

// spawn starts a command with pipes of the test's and returns it with its
// output's reading end.
func (b *box) spawn(t *testing.T, argv ...string) (*guest.Process, *os.File) {
	t.Helper()
	null, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	t.Cleanup(func() { r.Close() })
	if os.Geteuid() == 0 {
		if err := w.Chown(b.plan.User.HostUID, b.plan.User.HostGID); err != nil {
			t.Fatal(err)
		}
	}
	p, err := b.client.Start(context.Background(), guest.Command{
		Argv: argv, Env: b.plan.Env, Dir: b.plan.Dir,
		Descriptors: []int{int(null.Fd()), int(w.Fd()), int(w.Fd())},
		Processes:   uint64(b.plan.Limits.Pids),
	})
	if err != nil {
		t.Fatal(err)
	}
	return p, r
}

// hostPID finds the host's id of a process of the box by its id inside.
func (b *box) hostPID(t *testing.T, inside int) int {
	t.Helper()
	for _, pid := range descendants(b.PID()) {
		if statusField(t, pid, "NSpid", 1) == inside {
			return pid
		}
	}
	t.Fatalf("process %d of the box is not below %d", inside, b.PID())
	return 0
}
