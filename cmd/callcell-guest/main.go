//go:build linux

// Command callcell-guest is the first process of a cell with a kernel of its
// own: see package inside.
package main

import (
	"os"

	"github.com/callcell/callcell/internal/guest/inside"
)

func main() { os.Exit(inside.Main()) }
