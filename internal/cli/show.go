package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/render"
)

// printer writes to the two streams of the command, each as what it is: a
// terminal or not.
type printer struct {
	out, err io.Writer
	outTTY   bool
	errTTY   bool
	verbose  bool
}

// output shows what the program wrote: neutralised on a terminal, the very
// bytes elsewhere.
func (p *printer) output(r *envelope.Result) {
	write := func(w io.Writer, tty bool, name string, s envelope.Stream) {
		if tty {
			text := render.Stream(s, render.Options{})
			io.WriteString(w, text)
			if text != "" && !strings.HasSuffix(text, "\n") {
				io.WriteString(w, "\n")
			}
			return
		}
		w.Write(s.Head)
		w.Write(s.Tail)
		if s.Truncated {
			fmt.Fprintf(p.err, "callcell: %s: %s of %s shown, head and tail\n", name,
				render.Bytes(int64(len(s.Head)+len(s.Tail))), render.Bytes(s.Total))
		}
	}
	write(p.out, p.outTTY, "stdout", r.Stdout)
	write(p.err, p.errTTY, "stderr", r.Stderr)
}

func (p *printer) json(v any) error {
	e := json.NewEncoder(p.out)
	e.SetEscapeHTML(false)
	if p.outTTY {
		e.SetIndent("", "  ")
	}
	return e.Encode(v)
}

// refusal says that nothing ran, why, and what mends it.
func (p *printer) refusal(r *envelope.Refusal) {
	fmt.Fprintf(p.err, "callcell: refused (%s): ", r.Reason)
	if r.Field != "" {
		fmt.Fprintf(p.err, "%s: ", r.Field)
	}
	fmt.Fprintln(p.err, render.Line(r.Message, 0))
	if r.Hint != "" {
		fmt.Fprintln(p.err, "  hint:", render.Line(r.Hint, 0))
	}
	if r.Retry {
		fmt.Fprintln(p.err, "  trying again can help")
	}
}

// summary says what ran, where, why there, how it ended, what it used, what
// came out and what was left.
func (p *printer) summary(r *envelope.Result, saved []string) {
	if r.Refusal != nil {
		p.refusal(r.Refusal)
	}
	if !p.verbose && !p.errTTY {
		p.quiet(r)
		return
	}
	w := tableWriter{p.err}
	if r.Refusal == nil {
		w.row("outcome", ending(r))
		w.row("level", r.Level.String())
	}
	w.rows("why", r.Why)
	for _, e := range r.Events {
		w.row("met", strings.TrimSpace(fmt.Sprintf("%s x%d  %s", e.Kind, e.Count, e.Detail)))
	}
	if r.Refusal == nil {
		w.row("used", usage(&r.Usage))
	}
	w.rows("out", saved)
	for _, m := range r.Missing {
		w.row("not out", render.Name(m.Name)+": "+m.Why)
	}
	w.rows("warning", r.Warnings)
	if r.Teardown != nil {
		w.row("teardown", teardown(r.Teardown))
	}
	if r.Receipt != nil {
		w.row("row", fmt.Sprintf("%s  (%s #%d)", r.ID, r.Receipt.Chain, r.Receipt.Seq))
	}
}

// quiet says only what must not be missed.
func (p *printer) quiet(r *envelope.Result) {
	if r.Refusal == nil && r.Outcome != envelope.OutcomeCompleted {
		fmt.Fprintf(p.err, "callcell: %s\n", ending(r))
	}
	for _, m := range r.Missing {
		fmt.Fprintf(p.err, "callcell: output %s: %s\n", render.Name(m.Name), render.Line(m.Why, 0))
	}
	if r.Teardown != nil && !r.Teardown.Complete {
		fmt.Fprintf(p.err, "callcell: teardown: %s\n", teardown(r.Teardown))
	}
}

// tableWriter writes a name and a text a line.
type tableWriter struct{ w io.Writer }

func (t tableWriter) row(name, text string) {
	fmt.Fprintf(t.w, "  %-9s %s\n", name, render.Line(text, 0))
}

// rows writes several texts under one name.
func (t tableWriter) rows(name string, texts []string) {
	for _, text := range texts {
		t.row(name, text)
		name = ""
	}
}

// ending is how the call ended, in a line.
func ending(r *envelope.Result) string {
	text := r.Outcome.String()
	switch {
	case r.Exit.Signal != "":
		text += ", " + r.Exit.Signal
	case r.Exit.Code >= 0:
		text += fmt.Sprintf(", exit %d", r.Exit.Code)
	}
	if r.Exit.Cause != "" {
		text += ", ended for " + r.Exit.Cause
	}
	return text
}

func usage(u *envelope.Usage) string {
	parts := []string{
		render.Duration(u.Wall) + " wall", render.Duration(u.CPU) + " cpu",
	}
	if u.MemoryPeak >= 0 {
		parts = append(parts, render.Bytes(u.MemoryPeak)+" memory at most")
	}
	if u.PidsPeak >= 0 {
		parts = append(parts, fmt.Sprintf("%d processes at most", u.PidsPeak))
	}
	return strings.Join(append(parts, render.Duration(u.Total)+" in all"), ", ")
}

func teardown(r *envelope.Report) string {
	var gone, left []string
	for _, c := range r.Checks {
		if c.Gone {
			gone = append(gone, c.What)
		} else {
			left = append(left, c.What+" ("+c.Note+")")
		}
	}
	if r.Complete {
		return "complete: " + strings.Join(gone, ", ") + " gone"
	}
	return "INCOMPLETE: left: " + strings.Join(left, ", ")
}
