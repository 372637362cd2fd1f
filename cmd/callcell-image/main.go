// Command callcell-image makes roots for cells, one step in one place each:
//
//	pull REF     in a cell with a way to a registry: an image as one tar stream
//	pack DIR     in a cell where something was built: a directory as one tar stream
//	unpack       in a jail on the host, without a network: a tar stream as a tree
//	check        in a jail on the host, after it: what tree it really is
//
// The runtime is told not to look at its own control group: in the jail there
// is none to be read.
//
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0
package main

import (
	"os"

	"github.com/callcell/callcell/internal/image/pack"
	"github.com/callcell/callcell/internal/image/pull"
	"github.com/callcell/callcell/internal/image/unpack"
)

// answer is the descriptor on which unpack and check tell what has become of it.
const answer = 3

func main() {
	if len(os.Args) < 2 {
		usage()
	}
	switch args := os.Args[2:]; os.Args[1] {
	case "unpack":
		os.Exit(unpack.Main(args, os.Stdin, os.NewFile(answer, "answer")))
	case "check":
		os.Exit(unpack.CheckMain(args, os.NewFile(answer, "answer"), os.Stderr))
	case "pull":
		os.Exit(pull.Main(args, os.Stdout, os.Stderr))
	case "pack":
		os.Exit(pack.Main(args, os.Stdout, os.Stderr))
	default:
		usage()
	}
}

func usage() {
	os.Stderr.WriteString("usage: callcell-image pull REF [flags] | pack DIR [flags] | unpack [flags] | check [flags]\n")
	os.Exit(2)
}
