// Command callcell runs tool calls of AI agents in cells.
package main

import (
	"os"

	"github.com/callcell/callcell/internal/cli"
)

// version is set by the linker.
var version = "devel"

func main() { os.Exit(cli.Main(version, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
