//go:build linux

// Command callcell-guest is the first process of a cell with a kernel of its
// own: see package inside.
//
// The runtime is told not to look for its control group: there is none.
//
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0
package main

import (
	"os"

	"github.com/callcell/callcell/internal/guest/inside"
)

func main() { os.Exit(inside.Main()) }
