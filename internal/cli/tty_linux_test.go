package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caisson-dev/caisson/internal/testenv"
)

// terminal is a real terminal, kept by a tmux server of its own, with a shell
// that has job control.
type terminal struct {
	t      *testing.T
	socket string
	dir    string // the shell's folder, and the workspace
}

// newTerminal starts bash in an empty folder, with caisson in its PATH.
func newTerminal(t *testing.T) *terminal {
	t.Helper()
	testenv.Need(t, "tmux")
	caisson := testenv.Binary(t, "caisson")
	term := &terminal{t: t, socket: filepath.Join(t.TempDir(), "tmux"), dir: t.TempDir()}
	term.tmux("-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", "-c", term.dir,
		"env", "PS1=PROMPT>", "PATH="+filepath.Dir(caisson)+":"+os.Getenv("PATH"),
		"CAISSON_STATE="+t.TempDir(), "HISTFILE=", "bash", "--norc", "--noprofile", "-i")
	t.Cleanup(func() { term.tmux("kill-server") })
	term.expect("PROMPT>")
	return term
}

func (term *terminal) tmux(args ...string) string {
	term.t.Helper()
	cmd := exec.Command("tmux", append([]string{"-S", term.socket}, args...)...)
	cmd.Env = append(os.Environ(), "TERM=xterm-256color", "TMUX=")
	out, err := cmd.CombinedOutput()
	if err != nil {
		term.t.Fatalf("tmux %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// line types text and Enter; key presses named keys.
func (term *terminal) line(text string) {
	term.t.Helper()
	term.tmux("send-keys", "-l", text)
	term.key("Enter")
}

func (term *terminal) key(names ...string) {
	term.t.Helper()
	term.tmux(append([]string{"send-keys"}, names...)...)
}

// expect waits until the screen shows text.
func (term *terminal) expect(text string) {
	term.t.Helper()
	var screen string
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		if screen = term.tmux("capture-pane", "-p"); strings.Contains(screen, text) {
			return
		}
		time.Sleep(10 * time.Millisecond) // the screen has nothing to wait on
	}
	term.t.Fatalf("the screen never showed %q:\n%s", text, screen)
}

func TestTerminalVim(t *testing.T) {
	testenv.Need(t, "vim")
	term := newTerminal(t)
	term.line(`caisson run -- vim -u NONE -N note.txt; echo code=$?`)
	term.expect("~")
	term.key("i")
	term.line("written in a box")
	term.key("Escape")
	term.line(":wq")
	term.expect("code=0")
	got, err := os.ReadFile(filepath.Join(term.dir, "note.txt"))
	if err != nil || !bytes.HasPrefix(got, []byte("written in a box\n")) {
		t.Errorf("note.txt holds %q, %v", got, err)
	}
}

func TestTerminalLess(t *testing.T) {
	testenv.Need(t, "less")
	term := newTerminal(t)
	term.line(`seq 1 1000 >numbers; caisson run -- less numbers; echo code=$?`)
	term.expect("\n23\n")
	term.key("G")
	term.expect("\n1000\n")
	term.key("q")
	term.expect("code=0")
}

func TestTerminalInterrupt(t *testing.T) {
	term := newTerminal(t)
	term.line(`caisson run -- sh -c 'echo rea""dy; sleep 1000'; echo code=$?`)
	term.expect("ready")
	term.key("C-c")
	term.expect("code=130")

	// A program that takes the signal decides about it.
	term.line(`caisson run -- sh -c 'trap "echo ta\"\"ken; exit 7" INT; echo aga""in; while :; do sleep 0.01; done'; echo code=$?`)
	term.expect("again")
	term.key("C-c")
	term.expect("taken")
	term.expect("code=7")
}

func TestTerminalStopAndContinue(t *testing.T) {
	term := newTerminal(t)
	term.line(`caisson run -- sh -c 'echo rea""dy; read line; echo got=$line; exit 3'; echo code=$?`)
	term.expect("ready")
	term.key("C-z")
	term.expect("Stopped")
	term.line("jobs; echo bac\"\"k")
	term.expect("back")
	term.line(`fg; echo then=$?`)
	term.line("words")
	term.expect("got=words")
	term.expect("then=3")
}

func TestTerminalStopsAnEditor(t *testing.T) {
	testenv.Need(t, "vim")
	term := newTerminal(t)
	term.line(`caisson run -- vim -u NONE -N note.txt; echo code=$?`)
	term.expect("~")
	term.key("i")
	term.line("before")
	term.key("Escape", "C-z")
	term.expect("Stopped")
	term.line(`stty -a | grep -ow -e '-*icanon' -e '-*echo'; echo outsi""de`)
	term.expect("icanon\necho\noutside") // the shell's settings, not the editor's
	term.line("fg; echo then=$?")
	term.expect("before")
	term.key("i")
	term.line("after")
	term.key("Escape")
	term.line(":wq")
	term.expect("then=0")
	got, err := os.ReadFile(filepath.Join(term.dir, "note.txt"))
	if err != nil || !bytes.Contains(got, []byte("before")) || !bytes.Contains(got, []byte("after")) {
		t.Errorf("note.txt holds %q, %v", got, err)
	}
}

func TestTerminalResize(t *testing.T) {
	term := newTerminal(t)
	term.line(`caisson run -- sh -c 'trap "stty size" WINCH; stty size; while :; do sleep 0.01; done'`)
	term.expect("\n24 80\n")
	term.tmux("resize-window", "-x", "100", "-y", "31")
	term.expect("\n31 100\n")
	term.key("C-c")
}

func TestTerminalKeepsItsSettings(t *testing.T) {
	term := newTerminal(t)
	term.line(`stty -g >before; caisson run -- sh -c 'kill -9 $$'; stty -g >after; cmp before after && echo sa""me`)
	term.expect("same")
}

func TestTerminalColour(t *testing.T) {
	term := newTerminal(t)
	const green = "\x1b[32mhard"
	term.line(`caisson doctor process; echo sho""wn`)
	term.expect("shown")
	if screen := term.tmux("capture-pane", "-p", "-e"); !strings.Contains(screen, green) {
		t.Errorf("no colour on a terminal:\n%q", screen)
	}
	term.line(`clear; NO_COLOR=1 caisson doctor process; echo pla""in`)
	term.expect("plain")
	if screen := term.tmux("capture-pane", "-p", "-e"); strings.Contains(screen, green) || !strings.Contains(screen, "hard") {
		t.Errorf("colour in spite of NO_COLOR:\n%q", screen)
	}
	term.line(`clear; caisson doctor process | cat; echo pip""ed`)
	term.expect("piped")
	if screen := term.tmux("capture-pane", "-p", "-e"); strings.Contains(screen, green) || !strings.Contains(screen, "hard") {
		t.Errorf("colour in a pipe:\n%q", screen)
	}
}
