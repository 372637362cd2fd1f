// Command callcell-egress is the process that talks to strangers for calls. It
// is started by callcell-launcher, in a jail where it can open no file, with
// its end of the control conversation as descriptor 3, and knows what it is
// told there.
//
// The runtime is told not to look at its own control group: in the jail there
// is none to be read, and before it a descriptor would be kept.
//
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0
package main

import (
	"os"

	"github.com/callcell/callcell/internal/credential/secret"
	"github.com/callcell/callcell/internal/egress/serve"
)

// control is the descriptor of the control conversation.
const control = 3

func main() {
	if len(os.Args) > 1 {
		os.Stderr.WriteString("usage: callcell-egress, with the control conversation as descriptor 3\n")
		os.Exit(2)
	}
	_ = secret.Harden() // of its two steps the launcher has taken one, and does not let this process try
	os.Exit(serve.Main(control, os.Stderr))
}
