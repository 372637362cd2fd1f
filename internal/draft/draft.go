// Package draft writes profiles for an operator to read, change and keep: from
// answers to a few questions, or from what one call was denied.
//
// A draft is as narrow as what was said, and every value in it that is not the
// default stands below a comment that says why it is there. What a row suggests
// is a proposal and not in force, unless it was accepted: its hosts were chosen
// by the very program that was denied them.
//
// What comes from a row is data of an untrusted program: it is held to the
// rules of an envelope, neutralised, and bounded, before it is written into a
// file.
package draft

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/render"
)

// Profile is one profile of a draft.
type Profile struct {
	Name      string
	About     string // what it is for
	Envelope  envelope.Envelope
	Why       map[string]string // of every field that is not the default's, dotted
	Proposals []Proposal        // that are not in force
	Notes     []string          // what else is to be known
}

// Proposal is a change that would widen a profile.
type Proposal struct {
	Field string // dotted
	Value string // as it is written in a file
	Why   string
	apply func(*envelope.Envelope)
}

// Accept takes the proposals over, each with its reason. One that would make
// the profile invalid stays a proposal.
func (p *Profile) Accept() {
	var left []Proposal
	for _, one := range p.Proposals {
		next := p.Envelope.Clone()
		if one.apply != nil {
			one.apply(&next)
		}
		if one.apply == nil || next.Validate() != nil {
			left = append(left, one)
			continue
		}
		p.Envelope = next
		p.because(one.Field, one.Why)
	}
	p.Proposals = left
}

// because notes a reason; a field may have several.
func (p *Profile) because(field, why string) {
	if p.Why == nil {
		p.Why = map[string]string{}
	}
	if before := p.Why[field]; before != "" && before != why {
		why = before + "; " + why
	}
	p.Why[field] = why
}

// ErrReason means that a value of a profile is not the default's, and nobody
// said why.
var ErrReason = errors.New("draft: a value without a reason")

// File writes profiles as a configuration file. An error wraps ErrReason, or
// says that a profile is not valid.
func File(header []string, profiles []Profile) (string, error) {
	w := &writer{}
	for _, h := range header {
		w.comment(0, h)
	}
	w.line(0, "version: 1")
	w.line(0, "profiles:")
	for i := range profiles {
		p := &profiles[i]
		if err := p.Envelope.Validate(); err != nil {
			return "", fmt.Errorf("draft: profile %s: %w", p.Name, err)
		}
		if err := w.profile(p); err != nil {
			return "", err
		}
	}
	return w.text.String(), nil
}

// A writer writes lines of YAML.
type writer struct{ text strings.Builder }

func (w *writer) line(indent int, text string) {
	w.text.WriteString(strings.Repeat("  ", indent) + text + "\n")
}

// maxComment bounds what one comment says, in bytes.
const maxComment = 400

// comment writes a text that may have come from anywhere on one line.
func (w *writer) comment(indent int, text string) {
	w.line(indent, "# "+render.Line(text, maxComment))
}

func (w *writer) profile(p *Profile) error {
	w.text.WriteByte('\n')
	if p.About != "" {
		w.comment(1, p.About)
	}
	w.line(1, p.Name+":")
	section := ""
	for _, v := range valuesOf(&p.Envelope) {
		why := p.Why[v.field]
		if why == "" {
			return fmt.Errorf("%w: %s of %s", ErrReason, v.field, p.Name)
		}
		indent := 2 + strings.Count(v.section, ".")
		if v.section != "" {
			indent++
		}
		if v.section != section {
			w.sections(section, v.section)
			section = v.section
		}
		w.comment(indent, why)
		w.line(indent, v.text)
	}
	w.proposals(p)
	return nil
}

// sections writes the headings that lead from one section to the next.
func (w *writer) sections(from, to string) {
	had, want := strings.Split(from, "."), strings.Split(to, ".")
	same := from != ""
	for i, name := range want {
		same = same && i < len(had) && had[i] == name
		if !same {
			w.line(2+i, name+":")
		}
	}
}

func (w *writer) proposals(p *Profile) {
	for _, n := range p.Notes {
		w.comment(2, n)
	}
	if len(p.Proposals) == 0 {
		return
	}
	w.comment(2, "NOT IN FORCE. Each of these would widen the profile: take over what you know to be right.")
	for _, one := range p.Proposals {
		w.comment(2, "- "+one.Field+": "+one.Value)
		w.comment(2, "  why: "+one.Why)
	}
}

// quoted is a text as YAML takes it in any place.
func quoted(text string) string { return strconv.Quote(text) }

// allowText is one entry of network.allow.
func allowText(a envelope.Allow) string {
	ports := make([]string, len(a.Ports))
	for i, p := range a.Ports {
		ports[i] = strconv.Itoa(p)
	}
	text := "{host: " + quoted(a.Host) + ", ports: [" + strings.Join(ports, ", ") + "]"
	if a.Protocol != "" {
		text += ", protocol: " + a.Protocol
	}
	if a.Inspect {
		text += ", inspect: true"
	}
	return text + "}"
}
