package main

import (
	"strings"

	"github.com/caisson-dev/caisson/escape"
)

// actions maps an action's name to what the program does.
func actions() map[string]func(escape.Job) {
	return map[string]func(escape.Job){
		"noop":     func(escape.Job) {},
		"fs":       fsOps,
		"procroot": procRoot,
		"readcwd":  readCwd,
		"fds":      readFDs,
		"handle":   openHandle,
		"flip":     flip,
		"remount":  remount,
		"mkdev":    makeDevices,
		"escapes":  terminalEscapes,
		"gitrefs":  gitRefs,
		"env":      printEnv,
		"signal":   signalDecoy,
		"environ":  readEnviron,
		"tiocsti":  pushTerminal,
		"seize":    seizeDecoy,
		"sibling":  seizeSibling,
		"pidfd":    stealDescriptors,
		"ps":       listProcesses,
		"sysctl":   writeSysctl,
		"kern":     kernelClass,
		"benign":   benign,
		"hostile":  hostile,
		"devices":  openDevices,
		"kvm":      openKVM,
		"blockdev": readBlockDevice,
		"vsock":    dialVsock,
		"suid":     runSetuid,
		"filecaps": runFileCaps,
		"usernsfs": userNSActs,
		"setns":    joinNamespaces,
		"chroot":   chrootTwice,
		"masked":   readMasked,
		"tcp":      dialTCP,
		"udp":      sendUDP,
		"serve":    serveTCP,
		"dns":      resolve,
		"unix":     dialUnix,
		"abstract": dialAbstract,
		"listen":   listenAbstract,
		"sockets":  walkSockets,
		"fdsock":   writeFDs,
		"shm":      readShm,
		"putshm":   putShm,
		"siblings": readSiblings,
		"forks":    forks,
		"memory":   touchMemory,
		"fill":     fillDisk,
		"inodes":   manyFiles,
		"output":   flood,
		"spin":     spin,
		"openmany": openMany,
		"orphans":  orphans,
		"stay":     stay,
		"daemon":   daemon,
		"storm":    storm,
		"credhelp": askHelpers,
		"facts":    printFacts,
		"clock":    clockStep,
		"random":   randomBytes,

		"notifyrace": raceSupervisor,
		"leavegroup": leaveGroup,
	}
}

// inner performs the second half of an action, in the copy of this program that
// an action started inside a user namespace.
func inner(job escape.Job) bool {
	if !strings.HasSuffix(job.Action, "-inner") {
		return false
	}
	innerActions(job)
	return true
}
