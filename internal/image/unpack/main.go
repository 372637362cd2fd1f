package unpack

import (
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"

	"github.com/callcell/callcell/internal/image/fstree"
)

// Main is `callcell-image unpack`: the stream from in, the answer as one line of
// JSON to answer, a Result or {"error":{"kind","entry","msg"}}. It returns the
// exit code, 0 or 1.
func Main(args []string, in io.Reader, answer io.Writer) int {
	result, err := run(args, in)
	if err == nil {
		err = json.NewEncoder(answer).Encode(result)
		if err == nil {
			return 0
		}
		return 1
	}
	_ = json.NewEncoder(answer).Encode(fstree.Wire(err)) // the exit code says enough
	return 1
}

func run(args []string, in io.Reader) (Result, error) {
	o, at, err := options("unpack", args)
	if err != nil {
		return Result{}, err
	}
	staging, err := os.Open(at)
	if err != nil {
		return Result{}, fstree.Failed(fstree.KindDisk, "", "open the staging directory", err)
	}
	defer staging.Close()
	return Run(in, staging, o)
}

func options(name string, args []string) (o Options, at string, err error) {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Int64Var(&o.Bytes, "bytes", 0, "how much may be written of files, in bytes")
	flags.Int64Var(&o.Entries, "entries", 0, "how many entries there may be")
	flags.BoolVar(&o.Dir, "dir", true, "write root/")
	flags.BoolVar(&o.Image, "erofs", true, "write root.erofs")
	flags.BoolVar(&o.Mountpoints, "mountpoints", false, "make what a cell's root needs to be mounted on")
	flags.StringVar(&at, "at", "/", "the staging directory")
	err = flags.Parse(args)
	switch {
	case err == nil && flags.NArg() > 0:
		err = errors.New("there are no arguments but flags")
	case err == nil && (o.Bytes < 1 || o.Entries < 1):
		err = errors.New("-bytes and -entries must be given, above 0")
	}
	if err != nil {
		return o, at, fstree.Failed(fstree.KindUsage, "", name, err)
	}
	return o, at, nil
}
