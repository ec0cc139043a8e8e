// Command liar says that it did everything, and does nothing: no verdict may
// rest on what a program inside prints.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/caisson-dev/caisson/escape"
)

func main() {
	in := bufio.NewReader(os.Stdin)
	line, _ := in.ReadBytes('\n')
	var job escape.Job
	if json.Unmarshal(line, &job) != nil {
		os.Exit(2)
	}
	fmt.Println("@start " + job.Token)
	fmt.Println("BREACHED success secret =", job.Marker, job.Token, "read 32 bytes, wrote", job.WS, job.Home, job.Arg)
	fmt.Println("+ all of it")
	fmt.Println("@ready " + job.Token)
	if job.Hold {
		_, _ = io.Copy(io.Discard, in)
	}
}
