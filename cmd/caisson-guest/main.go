// Command caisson-guest is what runs in and beside a box: the stage and then
// the guest as its PID 1, the watcher outside, and the leader of a terminal's
// session. It is started by caisson alone.
package main

import (
	"fmt"
	"os"
	"runtime"

	"github.com/caisson-dev/caisson/internal/guest"
	"github.com/caisson-dev/caisson/internal/guest/agent"
	"github.com/caisson-dev/caisson/internal/stage"
)

// The thread-group leader is main's alone: the stem, which enters the box's
// Landlock domain, must be another thread. Only here is it certain which runs.
func init() { runtime.LockOSThread() }

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		stage.Die()
	}
}

func run(args []string) error {
	switch {
	case len(args) == 1 && args[0] == "stage":
		s, stream, stem, err := stage.Enter()
		if err != nil {
			return err
		}
		hello := guest.Hello{Version: guest.Version, Sandbox: s.ID, Generation: s.Generation, PID: os.Getpid()}
		return guest.Serve(stream, hello, agent.New(s.ID, stem))
	case len(args) == 1 && args[0] == "hold": // a namespace; ended by whoever started it
		_, err := os.Stdin.Read(make([]byte, 1))
		return err
	case len(args) > 1 && args[0] == "watch":
		w, err := stage.ParseWatched(args[1:])
		if err != nil {
			return err
		}
		return stage.Watch(w)
	case len(args) > 1 && args[0] == "tty":
		os.Exit(agent.Shim(args[1:]))
	}
	return fmt.Errorf("caisson-guest is started by caisson, not by hand")
}
