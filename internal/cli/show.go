package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/render"
)

// printer writes to the two streams of the command, each as what it is: a
// terminal or not. Everything that it says itself is one line that starts with
// callcell: or with two spaces.
type printer struct {
	out, err io.Writer
	outTTY   bool
	errTTY   bool
	verbose  bool
	fenced   bool // what a program wrote is shown between marks
}

// isTerminal reports whether a stream of ours is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// say says something of our own.
func (p *printer) say(text string) { fmt.Fprintln(p.err, "callcell: "+render.Line(text, 0)) }

// mostNamed is how many lines are shown that have names in them: a program makes
// as many as it likes.
const mostNamed = 100

// named says lines with words in them that the program, or a stranger, has chosen:
// names of files and hosts. A model gets them between marks.
func (p *printer) named(lines []string) {
	if more := len(lines) - mostNamed; more > 0 {
		lines = append(lines[:mostNamed:mostNamed], fmt.Sprintf("... and %d more; --json has them all", more))
	}
	switch {
	case len(lines) == 0:
	case p.fenced:
		for i := range lines {
			lines[i] = render.Line(lines[i], 0)
		}
		fmt.Fprint(p.err, render.Fence("files and hosts, by names that the program chose", strings.Join(lines, "\n")))
	default:
		for _, text := range lines {
			p.say(text)
		}
	}
}

func (p *printer) hint(text string) {
	if text != "" {
		fmt.Fprintln(p.err, "  hint: "+render.Line(text, 0))
	}
}

// output shows what the program wrote: neutralised on a terminal, the very
// bytes elsewhere.
func (p *printer) output(r *envelope.Result) error {
	return errors.Join(
		p.stream(p.out, p.outTTY, "stdout", &r.Stdout),
		p.stream(p.err, p.errTTY, "stderr", &r.Stderr),
	)
}

func (p *printer) stream(w io.Writer, tty bool, name string, s *envelope.Stream) error {
	if p.fenced {
		return p.fence(w, name, s)
	}
	if tty {
		text := render.Stream(*s, render.Options{})
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		_, err := io.WriteString(w, text)
		return unwritten(name, err)
	}
	_, err := w.Write(s.Head)
	if err == nil {
		_, err = w.Write(s.Tail)
	}
	if s.Truncated {
		p.say(fmt.Sprintf("%s: %s of %s shown, head and tail", name,
			render.Bytes(int64(len(s.Head)+len(s.Tail))), render.Bytes(s.Total)))
	}
	return unwritten(name, err)
}

// fence shows a stream between marks, in our words only where there is one.
func (p *printer) fence(w io.Writer, name string, s *envelope.Stream) error {
	if s.Total == 0 {
		return nil
	}
	_, err := io.WriteString(w, render.Fence(name, render.Stream(*s, render.Options{})))
	return unwritten(name, err)
}

func unwritten(name string, err error) error {
	if err != nil {
		return fmt.Errorf("the program's %s could not be written: %w", name, err)
	}
	return nil
}

// refusalText is a refusal without what mends it.
func refusalText(r *envelope.Refusal) string {
	text := fmt.Sprintf("refused (%s): ", r.Reason)
	if r.Field != "" {
		text += r.Field + ": "
	}
	return text + r.Message
}

// refusal says that nothing ran, why, and what mends it.
func (p *printer) refusal(r *envelope.Refusal) {
	p.say(refusalText(r))
	p.hint(r.Hint)
	if r.Retry {
		fmt.Fprintln(p.err, "  trying again can help")
	}
}

// eventWord tells a ceiling from a try to get out.
func eventWord(e *envelope.Event) string {
	if e.Sign() {
		return "tried"
	}
	return "met"
}

// summary says what ran, where, why there, how it ended, what it used, what
// came out and what was left.
func (p *printer) summary(r *envelope.Result, saved []string) {
	if r.Refusal != nil {
		p.refusal(r.Refusal)
	}
	if p.fenced || !p.verbose && !p.errTTY {
		p.quiet(r)
		return
	}
	w := &table{to: p.err}
	if r.Ran() {
		w.rows("outcome", slices.DeleteFunc([]string{ending(r), ceiling(r)}, func(text string) bool { return text == "" }))
		w.row("level", r.Level.String())
	}
	w.rows("why", r.Why)
	for _, e := range r.Events {
		w.row(eventWord(&e), strings.TrimSpace(fmt.Sprintf("%s x%d  %s", e.Kind, e.Count, e.Detail)))
	}
	if r.Ran() {
		w.row("used", used(&r.Usage))
	}
	if r.Fetched != nil {
		w.row("from", fetched(r.Fetched))
	}
	if r.Egress != nil {
		w.rows("network", network(r.Egress))
	}
	w.rows("masked", masked(r.Masked))
	w.rows("out", saved)
	for _, m := range r.Missing {
		w.row("not out", m.Name+": "+m.Why)
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
	if r.Ran() && r.Outcome != envelope.OutcomeCompleted {
		p.say(ending(r))
		p.hint(ceiling(r))
	}
	if r.Egress != nil && r.Refusal == nil && r.Fetched == nil {
		p.denied(r.Egress)
	}
	var missing []string
	for _, m := range r.Missing {
		missing = append(missing, fmt.Sprintf("output %s: %s", m.Name, m.Why))
	}
	p.named(missing)
	if r.Teardown != nil && !r.Teardown.Complete {
		p.say("teardown: " + teardown(r.Teardown))
	}
}

// table writes a name and a text a line, until that fails.
type table struct {
	to  io.Writer
	err error // the first of a write
}

func (t *table) row(name, text string) {
	if t.err == nil {
		_, t.err = fmt.Fprintf(t.to, "  %-10s %s\n", name, render.Line(text, 0))
	}
}

// rows writes several texts under one name.
func (t *table) rows(name string, texts []string) {
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

// ceiling names the ceiling that ended the call, and what raises it; "" where
// none did. A profile is raised where it is written.
func ceiling(r *envelope.Result) string {
	if r.Envelope == nil {
		return ""
	}
	have := &r.Envelope.Resources
	of := map[envelope.Outcome]struct {
		field string
		value any
		flag  string
	}{
		envelope.OutcomeWallTime: {"wall", have.Wall, "--timeout"}, envelope.OutcomeCPUTime: {"cpuTime", have.CPUTime, ""},
		envelope.OutcomeMemory: {"memory", have.Memory, "--memory"}, envelope.OutcomeProcesses: {"pids", have.Pids, "--pids"},
		envelope.OutcomeOutput: {"output.total", have.Output.Total, ""}, envelope.OutcomeFileSize: {"fileSize", have.FileSize, ""},
	}
	met, ok := of[r.Outcome]
	if !ok {
		return ""
	}
	text := fmt.Sprintf("resources.%s was %s", met.field, met.value)
	if met.flag != "" {
		return text + "; " + met.flag + " or an envelope gives more"
	}
	return text + "; an envelope (--envelope, --profile) gives more"
}

func used(u *envelope.Usage) string {
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
