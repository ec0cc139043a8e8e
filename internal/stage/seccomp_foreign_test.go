//go:build linux && amd64

package stage

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/caisson-dev/caisson/internal/testenv"
)

// A 32-bit call from a 64-bit program ends it: by its number alone it would be
// another call (number 20 is getpid there, writev here).
func TestForeignCallKills(t *testing.T) {
	testenv.Need(t, "seccomp", "gcc")
	oneWay(t, func(t *testing.T, _ []string) {
		source := filepath.Join(os.Getenv("HOME"), "t.c")
		program := filepath.Join(os.Getenv("HOME"), "t")
		const text = `int main(void) { int r; __asm__ volatile("int $0x80" : "=a"(r) : "a"(20)); return r < 0 ? 9 : 0; }`
		if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if status := runOnStem(t, nil, "gcc", "-o", program, source); status != 0 {
			t.Fatalf("gcc: %#x", status)
		}
		switch status := runOnStem(t, nil, program); {
		case status.Signaled() && status.Signal() == syscall.SIGSEGV, status.ExitStatus() == 9:
			t.Skip("this kernel has no 32-bit calls")
		case status != 0:
			t.Fatalf("control: %#x", status)
		}
		filterStem(t, FilterOptions{})
		if status := runOnStem(t, nil, program); !status.Signaled() || status.Signal() != syscall.SIGSYS {
			t.Errorf("a 32-bit call: %#x, want SIGSYS", status)
		}
		const x32 = 0x40000000
		if _, _, errno := unix.Syscall(x32|unix.SYS_GETPID, 0, 0, 0); errno != unix.ENOSYS {
			t.Errorf("an x32 call: %v, want ENOSYS", errno)
		}
	})
}
