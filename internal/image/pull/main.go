package pull

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/callcell/callcell/internal/image/fstree"
)

// Main is `callcell-image pull [flags] REF`: the stream to out, lines for people
// to told, the last of which says what went wrong. It returns the exit code, 0
// or 1.
func Main(args []string, out, told io.Writer) int {
	o, file, err := options(args)
	if err == nil {
		o.Told = told
		err = run(o, file, out)
	}
	if err != nil {
		fmt.Fprintln(told, "callcell-image pull:", fstree.Line(err))
		return 1
	}
	return 0
}

func run(o Options, file string, out io.Writer) error {
	text, err := Run(context.Background(), out, o)
	if err != nil || file == "" {
		return err
	}
	if err := os.WriteFile(file, text, 0o644); err != nil {
		return fstree.Failed(fstree.KindDisk, "", "write the configuration", err)
	}
	return nil
}

func options(args []string) (o Options, file string, err error) {
	flags := flag.NewFlagSet("pull", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&file, "config", "", "the file for what the registry says of the image, as JSON")
	flags.BoolVar(&o.Insecure, "insecure", false, "plain HTTP is spoken with the registry, and taken elsewhere too")
	flags.StringVar(&o.Platform, "platform", "linux/"+runtime.GOARCH, "OS/ARCHITECTURE")
	flags.Int64Var(&o.Bytes, "bytes", 64<<30, "what all layers may unpack to, in bytes")
	flags.Int64Var(&o.Download, "download", 32<<30, "what all layers may have in the registry, in bytes")
	flags.Int64Var(&o.Entries, "entries", 2_000_000, "how many entries all layers may have")
	flags.IntVar(&o.Layers, "layers", 256, "how many layers there may be")
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		o.Ref, args = args[0], args[1:]
	}
	if err = flags.Parse(args); err == nil && o.Ref == "" && flags.NArg() == 1 {
		o.Ref = flags.Arg(0)
	} else if err == nil && (o.Ref == "" || flags.NArg() > 0) {
		err = errors.New("one reference must be given")
	}
	if err != nil {
		return o, file, fstree.Failed(fstree.KindUsage, "", "usage", err)
	}
	return o, file, nil
}
