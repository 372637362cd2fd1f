package launcher

import (
	"bufio"
	"fmt"
	"io"

	"github.com/callcell/callcell/internal/launcher/seccomp"
	"github.com/callcell/callcell/internal/launcher/template"
)

// Explain writes what makes up a cell on this host, each entry with its
// reason: what it sees of the host, the compiled list of system calls that
// builds it, and the filter. It builds nothing and needs no privilege.
func Explain(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintln(b, "# seen of this host, read-only")
	for _, e := range template.Slice() {
		fmt.Fprintf(b, "%-28s %s\n", e.Path, e.Why)
	}
	filter, err := seccomp.Cell()
	if err != nil {
		return err
	}
	fmt.Fprintln(b, "\n# done in the child, in this order, before anything of the call runs")
	p := &plan{join: make([]int, 1), filter: filter, landlock: landlockABI(), lastCap: lastCap()}
	list := p.compile()
	defer list.Release()
	for i, l := range list.Lines() {
		fmt.Fprintf(b, "%3d %-46s %s\n", i, l.Name, l.Why)
	}
	fmt.Fprintln(b, "\n# system calls: what is not in this list is refused")
	for _, r := range seccomp.Rules() {
		fmt.Fprintf(b, "%-24s %-8s %s\n", r.Name, r.Action, join(r.Args, r.Why))
	}
	return b.Flush()
}

func join(args, why string) string {
	if args == "" || why == "" {
		return args + why
	}
	return args + "; " + why
}
