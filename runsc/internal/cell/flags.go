package cell

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"gvisor.dev/gvisor/runsc/boot"
	"gvisor.dev/gvisor/runsc/specutils"
)

// Name is the command's name.
const Name = "cell"

// Bounds of what the flags may say.
const (
	maxFD        = 200 // below what the loader moves the program's stdio to
	maxCPUs      = 1024
	minMemory    = 16 << 20
	maxAddresses = 80
)

// A network is what the sandbox sees of one.
type network string

const (
	networkNone network = "none" // a stack of its own, with loopback alone
	networkHost network = "host" // the sockets of the network namespace that the process is in
)

// options are the command's flags.
type options struct {
	spec    int
	status  int
	io      []int
	mounts  specutils.GoferMountConfFlags
	stdio   []int
	pass    []boot.FDMapping
	exec    int    // -1: the first process is a file in the root
	cpus    int    // 0: as many as the process may run on
	memory  uint64 // bytes, of all the sandbox; what the programs in it see
	network network
	lo      []netip.Prefix // of loopback, besides the usual
	debug   bool
}

// parse reads the command line; its error is for whoever wrote it.
func parse(args []string) (options, error) {
	o := options{network: networkNone}
	f := flag.NewFlagSet(Name, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.IntVar(&o.spec, "spec-fd", -1, "the bundle's config.json")
	f.IntVar(&o.status, "status-fd", -1, "where to report")
	f.IntVar(&o.exec, "exec-fd", -1, "the program of the first process")
	f.IntVar(&o.cpus, "cpus", 0, "processors that the sandbox sees; 0: as many as there are")
	f.Uint64Var(&o.memory, "memory", 0, "bytes of memory that the sandbox sees")
	f.BoolVar(&o.debug, "debug", false, "write gVisor's log to descriptor 2")
	f.Func("io-fds", "images and gofers, the root's first", func(s string) (err error) { o.io, err = numbers(s); return err })
	f.Func("stdio-fds", "the program's stdin, stdout, stderr", func(s string) (err error) { o.stdio, err = numbers(s); return err })
	f.Func("pass-fd", "HOST:GUEST,...", func(s string) (err error) { o.pass, err = mappings(s); return err })
	f.Func("loopback", "more addresses of lo, as prefixes", func(s string) (err error) { o.lo, err = prefixes(s); return err })
	f.Func("network", "none or host", func(s string) error { o.network = network(s); return nil })
	f.Var(&o.mounts, "mount-confs", "how the root and the mounts are served")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("%q is not a flag", f.Arg(0))
	}
	return o, o.check()
}

// check tells what cannot be meant.
func (o *options) check() error {
	switch fds := o.fds(); {
	case o.spec < 0, o.status < 0:
		return errors.New("-spec-fd and -status-fd are needed")
	case len(o.stdio) != 3:
		return errors.New("-stdio-fds takes three descriptors")
	case len(o.mounts) == 0 || len(o.io) != len(o.mounts):
		return errors.New("-io-fds and -mount-confs name the root and each mount, both of them")
	case slices.ContainsFunc(o.mounts, unserved):
		return errors.New("-mount-confs asks for what no flag passes")
	case slices.Min(fds) < 3 || slices.Max(fds) > maxFD:
		return fmt.Errorf("a descriptor is below 3 or above %d", maxFD)
	case len(slices.Compact(slices.Sorted(slices.Values(fds)))) != len(fds):
		return errors.New("a descriptor is given twice")
	case o.cpus < 0 || o.cpus > maxCPUs:
		return fmt.Errorf("-cpus is not between 0 and %d", maxCPUs)
	case o.memory < minMemory:
		return fmt.Errorf("-memory is below %d", minMemory)
	case o.network != networkNone && o.network != networkHost:
		return fmt.Errorf("-network is %q, neither none nor host", o.network)
	case o.network == networkHost && len(o.lo) > 0:
		return errors.New("-loopback is for a network of its own")
	case len(o.lo) > maxAddresses:
		return fmt.Errorf("more than %d addresses of loopback", maxAddresses)
	}
	return nil
}

// unserved: what would need a descriptor of another kind, or none.
func unserved(c specutils.GoferMountConf) bool { return c.ShouldUseTmpfs() || c.IsFilestorePresent() }

// fds are all descriptors that the flags name, here.
func (o *options) fds() []int {
	fds := append([]int{o.spec, o.status}, o.io...)
	fds = append(fds, o.stdio...)
	if o.exec != -1 {
		fds = append(fds, o.exec)
	}
	for _, m := range o.pass {
		fds = append(fds, m.Host)
	}
	return fds
}

func numbers(s string) (fds []int, err error) {
	for text := range strings.SplitSeq(s, ",") {
		fd, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("%q is not a descriptor", text)
		}
		fds = append(fds, fd)
	}
	return fds, nil
}

func mappings(s string) (pass []boot.FDMapping, err error) {
	for text := range strings.SplitSeq(s, ",") {
		here, there, ok := strings.Cut(text, ":")
		fds, err := numbers(here + "," + there)
		if !ok || err != nil || fds[1] < 3 || fds[1] > maxFD {
			return nil, fmt.Errorf("%q is not HOST:GUEST with a GUEST from 3 to %d", text, maxFD)
		}
		pass = append(pass, boot.FDMapping{Host: fds[0], Guest: fds[1]})
	}
	return pass, nil
}

func prefixes(s string) (list []netip.Prefix, err error) {
	for text := range strings.SplitSeq(s, ",") {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, nil
}
