package cli

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/caisson-dev/caisson/internal/testenv"
)

// TestMain makes the test binary be `caisson` where a script runs it: the
// scripts see the real main, in a process of its own.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"caisson": func() { os.Exit(Main(os.Args[1:])) },
	})
}

func TestScripts(t *testing.T) { testscript.Run(t, scriptParams("testdata")) }

// scriptParams are how all scripts run: in a folder of their own, with a home
// and a configuration that are empty and lie elsewhere.
func scriptParams(dir string) testscript.Params {
	return testscript.Params{
		Dir:                 dir,
		RequireExplicitExec: true,
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "root":
				return os.Getuid() == 0, nil
			case "cgroups": // that the one who runs the tests may use
				return testenv.Lacks("cgroup-v1") == nil || testenv.Lacks("cgroup-v2") == nil, nil
			case "account": // that has a home, other than the HOME of scripts
				_, err := os.Stat(accountHome())
				return err == nil, nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "await": await, "empty": empty},
		Setup: func(env *testscript.Env) error {
			env.Setenv("NL", "\n")
			env.Setenv("ESC", "\x1b")
			env.Setenv("ACCOUNT_HOME", accountHome())
			beside := env.WorkDir + "-of-user"
			for name, dir := range map[string]string{
				"HOME": beside + "/home", "XDG_CONFIG_HOME": beside + "/config", "CAISSON_STATE": beside + "/state",
			} {
				env.Setenv(name, dir)
			}
			return errors.Join(os.MkdirAll(beside+"/home", 0o700), os.MkdirAll(beside+"/config", 0o700))
		},
	}
}

// accountHome is the home of whoever runs the tests, by the user database.
func accountHome() string {
	u, err := user.LookupId(strconv.Itoa(os.Getuid()))
	if err != nil {
		return ""
	}
	return u.HomeDir
}

// empty DIR: there is nothing in the folder, if there is one.
func empty(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: empty DIR")
	}
	list, err := os.ReadDir(ts.MkAbs(args[0]))
	if err != nil && !os.IsNotExist(err) {
		ts.Fatalf("empty: %v", err)
	}
	for _, e := range list {
		ts.Fatalf("%s holds %s", args[0], e.Name())
	}
}

// exits CODE COMMAND ARGS...: the command must end with exactly that code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND ARGS...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	code := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var ended interface{ ExitCode() int }
		if !errors.As(err, &ended) {
			ts.Fatalf("%v", err)
		}
		code = ended.ExitCode()
	}
	if code != want {
		ts.Fatalf("exit code %d, want %d\n%s%s", code, want, ts.ReadFile("stdout"), ts.ReadFile("stderr"))
	}
}

// await FILE: wait until a command in the background has made the file.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: await FILE")
	}
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		if _, err := os.Stat(ts.MkAbs(args[0])); err == nil {
			return
		}
		time.Sleep(5 * time.Millisecond) // it is another process: there is nothing to wait on
	}
	ts.Fatalf("%s was never made", args[0])
}
