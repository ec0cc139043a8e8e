//go:build linux

package process

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/caisson-dev/caisson/internal/driver"
	"github.com/caisson-dev/caisson/internal/stage"
)

// clockTick is the unit of times in /proc/PID/stat: 10 ms on every Linux that Go
// runs on (USER_HZ, proc(5)).
const clockTick = 10 * time.Millisecond

// Stats adds up what the processes of the box use now. Times of processes that
// were reaped are counted in the first process, which reaps them all. A process that ends meanwhile is not
// counted.
func (b *box) Stats(ctx context.Context) (driver.Stats, error) {
	var s driver.Stats
	stage.Tree(b.p.PID, func(pid int, dir string) {
		if ctx.Err() != nil {
			return
		}
		fields, err := statFields(dir + "/stat")
		if err != nil {
			return
		}
		s.Processes++
		times := fields[11:13] // utime, stime; cutime and cstime follow
		if pid == b.p.PID {
			times = fields[11:15]
		}
		for _, f := range times {
			n, _ := strconv.ParseInt(f, 10, 64)
			s.CPU += time.Duration(n) * clockTick
		}
		s.Memory += stage.PSS(dir)
	})
	if s.Processes == 0 {
		return s, fmt.Errorf("read use of box: it has ended")
	}
	return s, ctx.Err()
}

// statFields returns the fields of /proc/PID/stat after the name, which may
// hold anything: the first is the state.
func statFields(file string) ([]string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	i := bytes.LastIndexByte(b, ')')
	var fields []string
	for _, f := range bytes.Fields(b[i+1:]) {
		fields = append(fields, string(f))
	}
	if len(fields) < 15 {
		return nil, fmt.Errorf("%s has %d fields", file, len(fields))
	}
	return fields, nil
}
