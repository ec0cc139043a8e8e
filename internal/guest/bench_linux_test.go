package guest

import (
	"context"
	"io"
	"testing"
)

// BenchmarkStart is the round trip of a start, its exit and the ends of its
// channels, with a program that does nothing.
func BenchmarkStart(b *testing.B) {
	c := connect(b, &fake{programs: map[string]func(*fakeProgram){"true": func(p *fakeProgram) {
		_ = p.Stdout.Close()
		_ = p.Stderr.Close()
		p.Exited(Exit{})
	}}})
	env := make([]string, 50)
	for i := range env {
		env[i] = "SOME_VARIABLE_OF_COMMON_LENGTH=/usr/local/bin:/usr/bin:/bin"
	}
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		p, err := c.Start(ctx, Command{Argv: []string{"true"}, Env: env, Dir: "/"})
		if err != nil {
			b.Fatal(err)
		}
		_ = p.Stdin.Close()
		if _, err := p.Wait(ctx); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadAll(p.Stdout); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadAll(p.Stderr); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFirstStart is from a stream without anything to the first program's
// start: with Open the start travels behind our hello, with Dial it waits for
// the guest's.
func BenchmarkFirstStart(b *testing.B) {
	h := &fake{programs: map[string]func(*fakeProgram){"cat": cat}}
	for _, how := range []string{"open", "dial"} {
		b.Run(how, func(b *testing.B) {
			for b.Loop() {
				outer, inner := pair(b)
				c := Open(outer)
				served := make(chan error, 1)
				go func() { served <- Serve(inner, Hello{}, h) }()
				if how == "dial" {
					if _, err := c.Ready(context.Background()); err != nil {
						b.Fatal(err)
					}
				}
				if _, err := c.Start(context.Background(), Command{Argv: []string{"cat"}}); err != nil {
					b.Fatal(err)
				}
				_ = c.Close()
				<-served
			}
		})
	}
}

// BenchmarkSignal is the round trip of a call.
func BenchmarkSignal(b *testing.B) {
	c := connect(b, &fake{})
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Thaw(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOutput is the throughput of one lane outward.
func BenchmarkOutput(b *testing.B) {
	for _, size := range []int{4 << 10, 64 << 10, 1 << 20} {
		b.Run(sizeName(size), func(b *testing.B) {
			chunk := make([]byte, size)
			c := connect(b, &fake{programs: map[string]func(*fakeProgram){"yes": func(p *fakeProgram) {
				for {
					if _, err := p.Stdout.Write(chunk); err != nil {
						_ = p.Stdout.Close()
						_ = p.Stderr.Close()
						p.Exited(Exit{})
						return
					}
				}
			}}})
			p := mustStart(b, c, Command{Argv: []string{"yes"}})
			buf := make([]byte, size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := io.ReadFull(p.Stdout, buf); err != nil {
					b.Fatal(err)
				}
			}
			_ = p.Stdout.Close()
			_, _ = p.Wait(context.Background())
		})
	}
}

func sizeName(n int) string {
	return map[int]string{4 << 10: "4KiB", 64 << 10: "64KiB", 1 << 20: "1MiB"}[n]
}
