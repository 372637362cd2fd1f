package pack

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/callcell/callcell/internal/image/fstree"
)

// Main is `callcell-image pack DIR [flags]`: the stream to out, a line for people
// to told: what was packed, or what went wrong. It returns the exit code, 0 or
// 1.
func Main(args []string, out, told io.Writer) int {
	r, err := run(args, out)
	if err != nil {
		fmt.Fprintln(told, "callcell-image pack:", fstree.Line(err))
		return 1
	}
	fmt.Fprintf(told, "packed %d entries, %d bytes of files; left out: %d mounts, %d of other types\n", r.Entries, r.Bytes, r.Dropped[DroppedMount], r.Dropped[DroppedSpecial])
	return 0
}

func run(args []string, out io.Writer) (Result, error) {
	o, dir, err := options(args)
	if err != nil {
		return Result{}, fstree.Failed(fstree.KindUsage, "", "pack", err)
	}
	d, err := os.Open(dir)
	if err != nil {
		return Result{}, fstree.Failed(fstree.KindSource, dir, "open the directory", err)
	}
	defer d.Close()
	return Run(out, d, o)
}

func options(args []string) (o Options, dir string, err error) {
	if len(args) == 0 {
		return o, "", errors.New("a directory must be given, before the flags")
	}
	flags := flag.NewFlagSet("pack", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Int64Var(&o.Bytes, "bytes", 64<<30, "how much may be packed of files, in bytes")
	flags.Int64Var(&o.Entries, "entries", 4_000_000, "how many entries there may be")
	err = flags.Parse(args[1:])
	if err == nil && flags.NArg() > 0 {
		err = errors.New("there is one directory")
	}
	return o, args[0], err
}
