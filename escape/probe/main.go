//go:build linux || wasip1

// Command probe is the program inside: one static binary with an action per
// probe, raw system calls, no shell. Its job comes on standard input; what it
// prints is evidence and never a verdict.
//
// The same binary is the lab's own tool outside the box (lab, gate, decoy,
// weakbox, terminal), and `probe bench` is the benchmark on its own: one file to build, and to carry.
//
// Built for WASI it has the actions that such a box has an object for, and
// says of the others that they mean nothing there.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/caisson-dev/caisson/escape"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "bench" { // the benchmark without the rest of Caisson
		os.Exit(escape.Main(context.Background(), os.Args[2:], os.Stdout, os.Stderr))
	}
	if len(os.Args) > 1 {
		os.Exit(escape.Tool(os.Args[1:]))
	}
	in := bufio.NewReader(os.Stdin)
	line, err := in.ReadBytes('\n')
	if err != nil {
		fmt.Fprintln(os.Stderr, "probe: no job on standard input:", err)
		os.Exit(2)
	}
	var job escape.Job
	if err := json.Unmarshal(line, &job); err != nil {
		fmt.Fprintln(os.Stderr, "probe: read job:", err)
		os.Exit(2)
	}
	os.Exit(perform(job, in))
}

// perform runs one job: it says that it started, acts, says that it is done,
// and stays until its input ends if it was asked to.
func perform(job escape.Job, in io.Reader) int {
	fmt.Println("@start " + job.Token)
	if inner(job) {
		return 0
	}
	act, ok := actions()[job.Action]
	if !ok {
		fmt.Println("no such action here:", job.Action)
		return 2
	}
	act(job)
	fmt.Println("\n@ready " + job.Token)
	if job.Hold {
		_, _ = io.Copy(io.Discard, in)
	}
	return 0
}

// path expands HOME/, WS/, +HOME, BASE (of the workspace) and NAME in a path of a row.
func path(job escape.Job, p string) string {
	p = strings.NewReplacer("NAME", job.Name, "+HOME", job.Home, "BASE", filepath.Base(job.WS)).Replace(p)
	switch {
	case p == "HOME" || strings.HasPrefix(p, "HOME/"):
		return job.Home + p[4:]
	case p == "WS" || strings.HasPrefix(p, "WS/") || strings.HasPrefix(p, "WS-"):
		return job.WS + p[2:]
	}
	return p
}

// show prints what was read, bounded.
func show(b []byte) {
	if len(b) > 64<<10 {
		b = b[:64<<10]
	}
	_, _ = os.Stdout.Write(b)
	fmt.Println()
}

// tell prints the outcome of one step, as evidence.
func tell(what string, err error) {
	if err != nil {
		fmt.Println("-", what, err)
		return
	}
	fmt.Println("+", what)
}
