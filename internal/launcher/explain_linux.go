package launcher

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/conf"
	"github.com/callcell/callcell/internal/launcher/seccomp"
	"github.com/callcell/callcell/internal/launcher/template"
	"github.com/callcell/callcell/internal/launcher/vfork"
	"github.com/callcell/callcell/internal/launcher/wire"
)

// ExplainEgress writes what makes up the egress process, as Explain does of a
// cell: the compiled list, and the system calls that it is left.
func ExplainEgress(w io.Writer) error {
	b := bufio.NewWriter(w)
	filter, err := seccomp.Egress()
	if err != nil {
		return err
	}
	p := &egressPlan{jail: explained(filter), ceilings: conf.Default().Egress}
	return explainProcess(b, p.compile(), seccomp.EgressRules())
}

// ExplainUnpack writes what makes up an unpacker, in the same way.
func ExplainUnpack(w io.Writer) error {
	b := bufio.NewWriter(w)
	filter, err := seccomp.Unpack()
	if err != nil {
		return err
	}
	c := conf.Default().Image
	p := &unpackPlan{jail: explained(filter), ceilings: c, request: wire.Unpack{Bytes: c.Bytes, Entries: c.Entries, Dir: true, EROFS: true, Mountpoints: true}}
	return explainProcess(b, p.compile(), seccomp.UnpackRules())
}

func explainProcess(b *bufio.Writer, list *vfork.Program, rules []seccomp.Rule) error {
	fmt.Fprintln(b, "# done in the child, in this order, before the process runs")
	explainList(b, list)
	fmt.Fprintln(b, "\n# system calls: what is not in this list is refused")
	explainRules(b, rules)
	return b.Flush()
}

// explained is a jail on this host.
func explained(filter []unix.SockFilter) jail {
	return jail{join: make([]int, 1), filter: filter, landlock: landlockABI(), lastCap: lastCap()}
}

func explainList(b *bufio.Writer, list *vfork.Program) {
	defer list.Release()
	for i, l := range list.Lines() {
		fmt.Fprintf(b, "%3d %-46s %s\n", i, l.Name, l.Why)
	}
}

func explainRules(b *bufio.Writer, rules []seccomp.Rule) {
	for _, r := range rules {
		fmt.Fprintf(b, "%-24s %-8s %s\n", r.Name, r.Action, join(r.Args, r.Why))
	}
}

// Explain writes what makes up a cell on this host, each entry with its
// reason: what it sees of the host, the compiled list of system calls that
// builds it (with a network), and the filter. It builds nothing and needs no
// privilege.
func Explain(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintln(b, "# seen of this host, read-only")
	for _, e := range template.Slice() {
		fmt.Fprintf(b, "%-28s %s\n", e.Path, e.Why)
	}
	fmt.Fprintln(b, "\n# of ours in the root of a tree, whatever the tree has there")
	for _, name := range template.Trees() {
		fmt.Fprintln(b, "/"+name)
	}
	filter, err := seccomp.Cell()
	if err != nil {
		return err
	}
	fmt.Fprintln(b, "\n# done in the child, in this order, before anything of the call runs")
	p := &plan{bounds: bounds{network: true}, joins: 1, filter: filter, landlock: landlockABI(), lastCap: lastCap()}
	explainList(b, p.compile().list)
	fmt.Fprintln(b, "\n# system calls: what is not in this list is refused")
	explainRules(b, seccomp.Rules())
	return b.Flush()
}

func join(args, why string) string {
	if args == "" || why == "" {
		return args + why
	}
	return args + "; " + why
}

// ExplainUserkernel writes what makes up a cell with a kernel of its own, as
// Explain does of a container: what its sentry sees of this host, the compiled
// list, its arguments, and its bundle.
func ExplainUserkernel(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintln(b, "# seen of this host by the sentry, read-only; nothing else, and after its boot nothing")
	texts, err := template.Texts()
	if err != nil {
		return err
	}
	for _, t := range texts {
		fmt.Fprintf(b, "/%-27s %d bytes\n", t.Name, len(t.Data))
	}
	spec := &wire.Spec{Level: wire.LevelUserkernel, Memory: leastMemory, OpenFiles: 256, Ports: []uint16{443}, Added: "the added tree"}
	p := &sentryPlan{join: make([]int, 1), args: sentryFlags(spec, false), pids: conf.Default().Runsc.Pids, lastCap: lastCap()}
	fmt.Fprintln(b, "\n# done in the child, in this order, before the sentry runs")
	explainList(b, p.compile())
	fmt.Fprintln(b, "\n# its arguments: a cell of 16 MiB, with a network and an added tree")
	fmt.Fprintln(b, strings.Join(p.args, " "))
	fmt.Fprintln(b, "\n# with runsc.network = host in launcher.conf: -network=host, in the place of -loopback")
	fmt.Fprintln(b, "\n# its bundle: the guest is its first process, and has these capabilities in the sandbox's own kernel")
	fmt.Fprintln(b, string(sentryConfig(spec)))
	fmt.Fprintln(b, "\n# system calls: gVisor's own filter for a sentry that opens no file (go doc github.com/callcell/callcell/runsc/internal/filters)")
	return b.Flush()
}
