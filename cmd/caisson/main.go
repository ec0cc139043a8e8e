// Command caisson runs AI agents and the code they write in sandboxes that hold
// by construction.
package main

import (
	"os"

	"github.com/caisson-dev/caisson/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:])) }
