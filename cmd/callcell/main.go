// Command callcell runs tool calls of AI agents in cells.
package main

import (
	"os"

	"github.com/callcell/callcell/internal/cli"
)

// version is set by the linker.
var version = "devel"

func main() {
	if err := keepInherited(); err != nil {
		os.Stderr.WriteString("callcell: keep open files from programs: " + err.Error() + "\n")
		os.Exit(1)
	}
	os.Exit(cli.Main(version, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
