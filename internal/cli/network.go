package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/render"
)

// shownAttempts is how many attempts a summary lists; the row has more.
const shownAttempts = 8

// network says what a call tried to reach: first the sums, then what was not
// let through.
func network(e *envelope.Egress) []string {
	lines := []string{fmt.Sprintf("%d connections, %d denied, %d failed, %s out, %s in",
		e.Connections, e.Denied, e.Failed, render.Bytes(e.Sent), render.Bytes(e.Received))}
	if e.Incomplete {
		lines = append(lines, "INCOMPLETE: the process that carried connections died; it was at least so much")
	}
	for _, name := range slices.Sorted(maps.Keys(e.Credentials)) {
		lines = append(lines, fmt.Sprintf("credential %s was added to %d requests", name, e.Credentials[name]))
	}
	if e.Masked > 0 {
		lines = append(lines, fmt.Sprintf("%d values of credentials were masked in answers", e.Masked))
	}
	listed := 0
	for _, a := range e.Attempts {
		if a.Verdict == envelope.VerdictAllowed && a.Unchecked == "" {
			continue
		}
		if listed++; listed > shownAttempts {
			return append(lines, "... callcell audit show has more")
		}
		lines = append(lines, attempt(a))
	}
	return lines
}

// attempt is one attempt in a line.
func attempt(a envelope.Attempt) string {
	text := a.Verdict.String() + " " + a.Host
	if a.Port != 0 {
		text += fmt.Sprintf(":%d", a.Port)
	}
	if a.Why != "" {
		text += ": " + a.Why
	}
	if a.Unchecked != "" {
		text += " (not checked: " + a.Unchecked + ")"
	}
	return text
}

// denied says, where no summary is shown, what was not let through: the
// program that failed for it may not know why.
func (p *printer) denied(e *envelope.Egress) {
	const most = 3
	if e.Incomplete {
		p.say("network: the process that carried connections died; the row does not have all of it")
	}
	var lines []string
	for _, a := range e.Attempts {
		text := "network: " + strings.TrimSpace(attempt(a))
		if a.Verdict == envelope.VerdictAllowed || slices.Contains(lines, text) {
			continue
		}
		if len(lines) == most {
			lines = append(lines, "network: and more, see callcell audit show")
			break
		}
		lines = append(lines, text)
	}
	p.named(lines)
}

// masked says which credentials were masked in what came out, and how often.
func masked(counts map[string]int64) (lines []string) {
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		lines = append(lines, fmt.Sprintf("credential %s x%d", name, counts[name]))
	}
	return lines
}
