package escape

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Tool is what the probe binary does outside the box: the lab itself and its
// small helpers. It returns the exit code.
func Tool(args []string) int {
	tools := map[string]func([]string) error{
		"lab":      labMain,
		"gate":     gate,
		"weakbox":  weakBox,
		"notified": notified,

		"groupwatch": groupWatch,

		"terminal": terminal,
		"launcher": launcher,
		"decoy":    decoy,
		"wait":     wait,
		"heart":    heart,
		"whoami":   whoAmI,
	}
	tool, ok := tools[args[0]]
	if !ok {
		fmt.Fprintln(os.Stderr, "probe: unknown tool", args[0])
		return 2
	}
	if err := tool(args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "probe: %s: %v\n", args[0], err)
		return 1
	}
	return 0
}

// gate waits for a byte on the descriptor that is its first argument, so that
// a tracer can be put on it, and becomes the rest of its arguments. The tracer
// sees the first thread and what comes of it, so that must be the one that
// waits and executes.
func gate(args []string) error {
	runtime.LockOSThread()
	if unix.Gettid() != unix.Getpid() { // after an execute there is one thread again
		return become(append([]string{"/proc/self/exe", "gate"}, args...))
	}
	fd, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	if n, err := unix.Read(fd, make([]byte, 1)); n != 1 {
		return fmt.Errorf("wait at the gate: %d %w", n, err)
	}
	_ = unix.Close(fd)
	return become(args[1:])
}

// become executes a program in place of this one.
func become(argv []string) error {
	p, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	return fmt.Errorf("execute %s: %w", p, unix.Exec(p, argv, os.Environ()))
}

// decoy is a program of the host's that a box should have no hold of. Its
// arguments are its name, its environment holds a secret.
func decoy([]string) error {
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// wait does nothing for some seconds.
func wait(args []string) error {
	n, err := strconv.Atoi(args[0])
	time.Sleep(time.Duration(n) * time.Second)
	return err
}

// heart beats into a file until it is killed, a minute at the most.
func heart(args []string) error {
	signal.Ignore(unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	for i := range 600 {
		if err := os.WriteFile(args[0], []byte(strconv.Itoa(i)), 0o644); err != nil {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
	return nil
}

// whoAmI writes its effective user id into a file, which shows it once more by
// its owner.
func whoAmI(args []string) error {
	return os.WriteFile(args[0], []byte(strconv.Itoa(os.Geteuid())), 0o644)
}

// terminal is the outer shell of a terminal test: it runs the rest of its
// arguments in the foreground of its own controlling terminal, then copies
// what has been typed since to the descriptor that is its first argument.
func terminal(args []string) error {
	fd, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	out := os.NewFile(uintptr(fd), "typed")
	signal.Ignore(unix.SIGTTOU, unix.SIGTTIN)
	cmd := exec.Command(args[1], args[2:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	runErr := cmd.Run()
	if err := unix.SetNonblock(0, true); err != nil {
		return err
	}
	b := make([]byte, 4096)
	for end := time.Now().Add(200 * time.Millisecond); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if n, _ := unix.Read(0, b); n > 0 {
			_, _ = out.Write(b[:n])
		}
	}
	return runErr
}

// launcher starts a program in a way that no good launcher would. The first
// argument says which: "orphan" leaves it running when it dies itself, "litter"
// leaves a file and a process behind, "fallback" runs it without any sandbox
// because the one it was told to use failed.
func launcher(args []string) error {
	kind, argv := args[0], args[1:]
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	switch kind {
	case "orphan":
		cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	case "litter":
		if err := os.WriteFile("/tmp/litter-"+strconv.Itoa(os.Getpid()), nil, 0o600); err != nil {
			return err
		}
		if err := exec.Command("/proc/self/exe", "wait", "30").Start(); err != nil {
			return err
		}
	case "fallback":
	default:
		return fmt.Errorf("unknown kind %s of %s", kind, strings.Join(argv, " "))
	}
	return cmd.Run()
}
