// Command runsc is gVisor's runsc, at the version that go.mod pins, with one
// command of our own. It is a module of its own, so that gVisor's pins do not
// rule callcell's, and holds no gVisor code: only main functions around its
// packages.
//
// # What differs from stock runsc
//
//	cell      new: boots a sandbox in a process that callcell's launcher has
//	          already confined (package cell). `runsc run` starts itself three
//	          times for that: the gofer, the sandbox, the helper that unmounts.
//	commands  only those that the cell command is compared with and that clean
//	          up after them. Nothing of checkpoints, debugging, metrics, GPUs.
//	sidecars  none embedded: stock carries 47 MB of them.
//	version   what go.mod pins.
//
// All else, and all of what the other commands do, is gVisor's own.
//
// The runtime is told not to look for its control group: there is no /proc
// where the cell command runs.
//
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0
package main

import (
	"os"

	"gvisor.dev/gvisor/runsc/cli"
	"gvisor.dev/gvisor/runsc/cmd"
	"gvisor.dev/gvisor/runsc/cmd/sentry/sentrycmd"
	"gvisor.dev/gvisor/runsc/cmd/util"

	"github.com/callcell/callcell/runsc/internal/cell"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == cell.Name {
		os.Exit(cell.Main(os.Args[2:]))
	}
	cli.Run(nil, stock(), nil)
}

// stock are the commands of gVisor that are kept, with the groups in which the
// help shows them.
func stock() map[util.SubCommand]string {
	const user, internal = "", "internal use only"
	return map[util.SubCommand]string{
		new(cmd.Run):    user,
		new(cmd.Kill):   user,
		new(cmd.Delete): user,
		new(cmd.List):   user,
		new(cmd.State):  user,

		new(sentrycmd.Boot):   internal,
		new(sentrycmd.Umount): internal,
		new(cmd.Gofer):        internal,
	}
}
