// Command callcell-launcher is the privileged process that builds cells. It
// is started by callcell, with its end of a socket pair as descriptor 3, and
// is a binary of its own because the initialisation of packages it does not
// need would be everybody's latency.
//
// The runtime is told not to look at its own control group: it would keep
// descriptors of it, among the numbers that cells are set up on.
//
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0
package main

import (
	"io"
	"os"

	"github.com/callcell/callcell/internal/launcher"
	"github.com/callcell/callcell/internal/launcher/conf"
)

func main() {
	path := conf.DefaultPath
	switch args := os.Args[1:]; {
	case len(args) == 0:
	case len(args) == 2 && args[0] == "-config":
		path = args[1]
	case len(args) == 1 && args[0] == "-starter":
		os.Exit(launcher.StarterMain("", os.Stderr))
	case len(args) == 3 && args[0] == "-starter" && args[1] == "-config":
		os.Exit(launcher.StarterMain(args[2], os.Stderr))
	case len(args) == 1 && args[0] == "-explain":
		explain(launcher.Explain)
		return
	case len(args) == 2 && args[0] == "-explain" && args[1] == "egress":
		explain(launcher.ExplainEgress)
		return
	case len(args) == 2 && args[0] == "-explain" && args[1] == "unpack":
		explain(launcher.ExplainUnpack)
		return
	case len(args) == 2 && args[0] == "-explain" && args[1] == "userkernel":
		explain(launcher.ExplainUserkernel)
		return
	default:
		os.Stderr.WriteString("usage: callcell-launcher [[-starter] [-config FILE] | -explain [egress | unpack | userkernel]]\n")
		os.Exit(2)
	}
	os.Exit(launcher.Main(path, os.Stderr))
}

// explain writes what makes up a cell, or a process of ours.
func explain(what func(io.Writer) error) {
	if err := what(os.Stdout); err != nil {
		os.Stderr.WriteString("callcell-launcher: " + err.Error() + "\n")
		os.Exit(1)
	}
}
