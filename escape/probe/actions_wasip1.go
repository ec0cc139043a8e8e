package main

import (
	"runtime"

	"github.com/caisson-dev/caisson/escape"
)

// actions maps an action's name to what the program does. What is missing has
// no object here: WASI has no processes, namespaces, devices or addresses.
func actions() map[string]func(escape.Job) {
	return map[string]func(escape.Job){
		"noop":     func(escape.Job) {},
		"fs":       fsOps,
		"readcwd":  readCwd,
		"fds":      readFDs,
		"flip":     flip,
		"escapes":  terminalEscapes,
		"gitrefs":  gitRefs,
		"env":      printEnv,
		"benign":   func(job escape.Job) { benignFiles(job); benignMemory() },
		"fdsock":   writeFDs,
		"siblings": readSiblings,
		"memory":   touchMemory,
		"fill":     fillDisk,
		"inodes":   manyFiles,
		"output":   flood,
		"spin":     spin,
		"stay":     stay,
		"clock":    clockStep,
		"random":   randomBytes,
	}
}

// inner has nothing to do: no action starts a second program.
func inner(escape.Job) bool { return false }

// ignoreSignals has nothing to do: there are none.
func ignoreSignals() {}

// touchMemory uses memory, in pieces so that a limit is met on the way.
func touchMemory(job escape.Job) {
	var all [][]byte
	for range number(job) / 16 {
		b := make([]byte, 16<<20)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		all = append(all, b)
	}
	runtime.KeepAlive(all)
}
