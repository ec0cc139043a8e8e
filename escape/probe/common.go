//go:build linux || wasip1

package main

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"

	"github.com/caisson-dev/caisson/escape"
)

func number(job escape.Job) int {
	n, _ := strconv.Atoi(job.Arg)
	return n
}

// fillDisk writes MiB into the workspace.
func fillDisk(job escape.Job) {
	f, err := os.OpenFile(job.WS+"/"+job.Name, os.O_CREATE|os.O_WRONLY, 0o644)
	tell("open", err)
	if err != nil {
		return
	}
	defer f.Close()
	b := bytes.Repeat([]byte("x"), 1<<20)
	for range number(job) {
		if _, err := f.Write(b); err != nil {
			tell("write", err)
			return
		}
	}
}

// manyFiles makes empty files in the workspace.
func manyFiles(job escape.Job) {
	dir := job.WS + "/" + job.Name
	tell("mkdir", os.Mkdir(dir, 0o755))
	for i := range number(job) {
		f, err := os.OpenFile(dir+"/"+strconv.Itoa(i), os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			tell("create", err)
			return
		}
		_ = f.Close()
	}
}

// flood writes MiB to standard output.
func flood(job escape.Job) {
	line := append(bytes.Repeat([]byte("x"), 1023), '\n')
	b := bytes.Repeat(line, 1024)
	for range number(job) {
		if _, err := os.Stdout.Write(b); err != nil {
			return
		}
	}
}

func printEnv(escape.Job) {
	for _, e := range os.Environ() {
		fmt.Println(e)
	}
	b, err := os.ReadFile("/proc/self/environ")
	tell("environ", err)
	show(b)
}

// spin uses every processor for the seconds of the row.
func spin(job escape.Job) {
	seconds, _ := strconv.Atoi(job.Arg)
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	done := make(chan int)
	for range runtime.NumCPU() {
		go func() {
			x := 0
			for time.Now().Before(end) {
				x++
			}
			done <- x
		}()
	}
	for range runtime.NumCPU() {
		<-done
	}
}

// stay ignores polite signals and outstays its time.
func stay(job escape.Job) {
	ignoreSignals()
	seconds, _ := strconv.Atoi(job.Arg)
	fmt.Println("\n@ready " + job.Token)
	time.Sleep(time.Duration(seconds) * time.Second)
}

// clockStep prints the smallest step of the clock that it sees.
func clockStep(escape.Job) {
	least := time.Hour
	for range 100000 {
		a := time.Now()
		if d := time.Since(a); d > 0 && d < least {
			least = d
		}
	}
	fmt.Println("step", least)
}

// benignFiles is what an ordinary program does with files.
func benignFiles(job escape.Job) {
	p := job.WS + "/" + job.Name
	for range 3 {
		_ = os.WriteFile(p, []byte("x"), 0o644)
		_, _ = os.ReadFile(p)
		_, _ = os.Stat(p)
		_, _ = os.ReadDir(job.WS)
		_ = os.Rename(p, p+".2")
		_ = os.Remove(p + ".2")
	}
}

// benignMemory is what it does with memory and time.
func benignMemory() {
	b := make([]byte, 4<<20)
	b[0] = 1
	runtime.KeepAlive(b)
	time.Sleep(time.Millisecond)
}

// randomBytes prints what the box gives as random: two boxes must not print
// the same.
func randomBytes(escape.Job) {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	fmt.Println("random", hex.EncodeToString(b))
}
