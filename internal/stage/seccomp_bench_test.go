//go:build linux

package stage

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// What the guest's start pays for the filter: unpacking and installing it.
// Each round takes a thread of its own, which ends with it.
func BenchmarkInstallFilter(b *testing.B) {
	for name, o := range map[string]FilterOptions{"box": {}, "nested": {Nested: true}} {
		b.Run(name, func(b *testing.B) {
			var spent time.Duration
			rounds, least := 0, time.Hour
			for b.Loop() {
				once := installOnce(b, o)
				spent += once
				least = min(least, once)
				rounds++
			}
			b.ReportMetric(float64(spent.Microseconds())/float64(rounds), "µs/install")
			b.ReportMetric(float64(least.Microseconds()), "µs/least")
		})
	}
}

func installOnce(b *testing.B, o FilterOptions) (spent time.Duration) {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		start := time.Now()
		program, err := SeccompFilter(o)
		if err == nil {
			err = InstallFilter(program)
		}
		spent = time.Since(start)
		done <- err
	}()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
	return spent
}

// What a program pays at a system call: one that is always allowed (the kernel
// keeps a bitmap of those), and one whose arguments are looked at.
func BenchmarkFilteredCall(b *testing.B) {
	calls := map[string]func(){
		"allowed":   func() { _, _, _ = unix.RawSyscall(unix.SYS_GETPPID, 0, 0, 0) },
		"arguments": func() { _, _, _ = unix.RawSyscall(unix.SYS_FCNTL, ^uintptr(0), unix.F_GETFL, 0) },
	}
	for name, call := range calls {
		for _, filtered := range []string{"bare", "filtered"} {
			b.Run(name+"/"+filtered, func(b *testing.B) {
				onStem(func() {
					if filtered == "filtered" {
						program, err := SeccompFilter(FilterOptions{})
						if err != nil {
							b.Fatal(err)
						}
						if err := InstallFilter(program); err != nil {
							b.Fatal(err)
						}
					}
					for b.Loop() {
						call()
					}
				})
			})
		}
	}
}
