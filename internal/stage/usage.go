//go:build linux

package stage

import (
	"bytes"
	"os"
	"strconv"
	"time"
)

// Tree calls do with the folder in /proc of a process and of each of its
// descendants, the process first. What ends meanwhile may be left out. Its cost
// is that of the box alone, however many others there are.
func Tree(pid int, do func(pid int, dir string)) {
	tree(pid, func(pid int, dir string) bool { do(pid, dir); return true })
}

// tree is Tree until do is false.
func tree(pid int, do func(pid int, dir string) bool) {
	for pids := []int{pid}; len(pids) > 0; {
		pid := pids[0]
		dir := "/proc/" + strconv.Itoa(pid)
		if !do(pid, dir) {
			return
		}
		pids = append(pids[1:], children(dir+"/task")...)
	}
}

func children(task string) []int {
	threads, err := os.ReadDir(task)
	if err != nil {
		return nil
	}
	var pids []int
	for _, t := range threads {
		b, err := os.ReadFile(task + "/" + t.Name() + "/children")
		if err != nil {
			continue
		}
		for _, f := range bytes.Fields(b) {
			if pid, err := strconv.Atoi(string(f)); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// PSS is the proportional set size in bytes of the process whose folder in
// /proc is dir: its own memory and its share of what it shares. 0 where it may not be read.
func PSS(dir string) int64 {
	b, err := os.ReadFile(dir + "/smaps_rollup")
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(b) {
		if rest, ok := bytes.CutPrefix(line, []byte("Pss:")); ok {
			n, _ := strconv.ParseInt(string(bytes.Fields(rest)[0]), 10, 64)
			return n << 10
		}
	}
	return 0
}

// rss is the resident set size in bytes, which is never less than the PSS and
// costs far less to read.
func rss(dir string) int64 {
	b, err := os.ReadFile(dir + "/statm")
	if err != nil {
		return 0
	}
	f := bytes.Fields(b)
	if len(f) < 2 {
		return 0
	}
	n, _ := strconv.ParseInt(string(f[1]), 10, 64)
	return n * int64(os.Getpagesize())
}

// sampler watches the memory of a box where no cgroup does: it looks again and
// again. A box can exceed its limit between two looks, and what lies in its
// private folders counts for their own limit, not here.
type sampler struct {
	pid   int
	limit int64 // bytes; 0: nothing to watch
	next  time.Time
}

// A look comes sampleEvery after the last, or later if it took long: all looks
// together take at most one part in sampleShare of one processor.
const (
	sampleEvery = 50 * time.Millisecond
	sampleShare = 20
)

// over looks if it is time to, and reports whether the box holds too much. A
// look at thousands of processes, each of as many mappings as it may have, takes
// minutes; it is broken off as soon as urgent is true.
func (s *sampler) over(now time.Time, urgent func() bool) bool {
	if s.limit == 0 || now.Before(s.next) {
		return false
	}
	use := treeSize(s.pid, s.limit, rss, urgent)
	if use > s.limit { // shared pages are counted once for each process there
		use = treeSize(s.pid, s.limit, PSS, urgent)
	}
	s.next = now.Add(max(sampleEvery, sampleShare*time.Since(now)))
	return use > s.limit
}

// treeSize adds up until the sum is over the limit or there is something more urgent.
func treeSize(pid int, limit int64, size func(dir string) int64, urgent func() bool) (sum int64) {
	tree(pid, func(_ int, dir string) bool {
		sum += size(dir)
		return sum <= limit && !urgent()
	})
	return sum
}
