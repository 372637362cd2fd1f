package mcp

import (
	"fmt"
	"strings"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/render"
)

// textOf is the answer as a model reads it: our own lines first, then what came
// out, each piece between marks.
func textOf(a *Answer, r *envelope.Result) string {
	var b strings.Builder
	if f := a.Refusal; f != nil {
		fmt.Fprintf(&b, "Refused, nothing ran (%s): ", f.Reason)
		if f.Field != "" {
			b.WriteString(f.Field + ": ")
		}
		b.WriteString(f.Message + "\n")
		if f.Hint != "" {
			b.WriteString("Hint: " + f.Hint + "\n")
		}
		if f.Retry {
			b.WriteString("Trying again can help.\n")
		}
		return b.String() + footer(a)
	}
	b.WriteString(ending(a, r) + "\n")
	for _, m := range a.Met {
		b.WriteString("Ceiling met: " + m + "\n")
	}
	for _, l := range a.Left {
		b.WriteString("LEFT BEHIND, outputs are withheld: " + l + "\n")
	}
	writeUntrusted(&b, a.Untrusted)
	return b.String() + footer(a)
}

// ending is how it ended, in a line.
func ending(a *Answer, r *envelope.Result) string {
	if d := a.Untrusted.Document; d != nil {
		text := fmt.Sprintf("Fetched, status %d, %s", d.Status, render.Bytes(d.Body.Bytes))
		if d.Failure != "" {
			text = "Not fetched: what went wrong is below, and may be in a stranger's words"
		}
		return text
	}
	text := "Ended: " + a.Outcome
	switch {
	case a.Exit.Signal != "":
		text += ", signal " + a.Exit.Signal
	case a.Exit.Code >= 0:
		text += fmt.Sprintf(", exit code %d", a.Exit.Code)
	}
	text += fmt.Sprintf(". Isolation %s, %s", a.Level, took(r.Usage.Wall))
	if advice := adviceFor(r.Outcome); advice != "" {
		text += ". " + advice
	}
	return text
}

// adviceFor says what an outcome that is not the program's own means for who
// wrote the program.
func adviceFor(o envelope.Outcome) string {
	switch o {
	case envelope.OutcomeWallTime:
		return "It ran for as long as it may: do less at once, or wait for less"
	case envelope.OutcomeCPUTime:
		return "It used all the CPU time that it may: do less at once"
	case envelope.OutcomeMemory:
		return "It reached its memory: read and keep less at once"
	case envelope.OutcomeOutput:
		return "It wrote more than it may: print less, or write into a file"
	case envelope.OutcomeDisk, envelope.OutcomeFileSize:
		return "It wrote more to files than it may"
	case envelope.OutcomeProcesses:
		return "It started more processes than it may"
	case envelope.OutcomeBroken:
		return "The cell itself died, which is not the program's word; it may have run in part"
	case envelope.OutcomeCancelled:
		return "It was cancelled"
	}
	return ""
}

func writeUntrusted(b *strings.Builder, u *Untrusted) {
	if d := u.Document; d != nil {
		head := fmt.Sprintf("from %s\ntype %s\n", d.URL, d.Type)
		if d.Title != "" {
			head += "title " + d.Title + "\n"
		}
		if d.Failure != "" {
			head += "not fetched: " + d.Failure + "\n"
		}
		b.WriteString(render.Fence("document", head+"\n"+d.Body.Text))
	}
	for _, s := range []struct {
		label string
		text  *Text
	}{{"stdout", u.Stdout}, {"stderr", u.Stderr}, {"diff of the project, not applied", u.Diff}} {
		if s.text != nil && s.text.Text != "" {
			b.WriteString(render.Fence(s.label, s.text.Text))
		}
	}
	var listed strings.Builder
	for _, c := range u.Changes {
		fmt.Fprintf(&listed, "%s in the copy of the project: %s\n", c.Kind, strings.TrimSuffix(c.Name+": "+c.Note, ": "))
	}
	for _, f := range u.Files {
		fmt.Fprintf(&listed, "file %s, %s %s\n", f.Name, render.Bytes(f.Bytes), f.URI)
	}
	for _, m := range u.Missing {
		fmt.Fprintf(&listed, "not returned: %s: %s\n", m.Name, m.Why)
	}
	for _, d := range u.Denied {
		fmt.Fprintf(&listed, "not reached: %s\n", d)
	}
	if listed.Len() > 0 {
		b.WriteString(render.Fence("files and hosts, by names that the program chose", listed.String()))
	}
}

func footer(a *Answer) string {
	text := ""
	for _, w := range a.Warnings {
		text += "Warning: " + w + "\n"
	}
	if a.ID == "" {
		return text
	}
	return text + "Row " + a.ID + ", task " + a.Task + "\n"
}

func target(a *envelope.Attempt) string {
	if a.Port == 0 {
		return a.Host
	}
	return fmt.Sprintf("%s:%d", a.Host, a.Port)
}
