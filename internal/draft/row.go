package draft

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
)

// What of a row is proposed at most.
const (
	maxHosts = 16
	maxNames = 32 // of variables
)

// ErrRow means that a row says too little: its envelope was not kept.
var ErrRow = errors.New("draft: the row does not have the envelope of its call")

// OfRow drafts a profile from a call's row: the envelope that was in force, and
// for each thing that the call was denied a proposal.
func OfRow(name string, row *audit.Row) (Profile, error) {
	in := row.Intent
	if in == nil && row.Refused != nil {
		in = &row.Refused.IntentRecord
	}
	if in == nil || len(in.Envelope) == 0 {
		return Profile{}, ErrRow
	}
	env, gone, err := readable(in.Envelope)
	if err != nil {
		return Profile{}, fmt.Errorf("%w: %w", ErrRow, err)
	}
	p := Profile{Name: name, Envelope: env, About: "From call " + row.ID + ", tool " + row.Tool + ": what it had, and what it was denied."}
	for _, v := range valuesOf(&p.Envelope) {
		p.because(v.field, "call "+row.ID+" had it")
	}
	if len(gone) > 0 {
		p.Notes = append(p.Notes, "The call had "+strings.Join(gone, ", ")+". Rows have no sources and no host paths: add them by hand.")
	}
	p.denials(row)
	p.exhausted(row)
	if row.Refused != nil {
		p.refused(row, in.Arguments)
	}
	if len(p.Proposals) == 0 {
		p.Notes = append(p.Notes, "The call was denied nothing.")
	}
	return p, nil
}

// refused proposes what a call was refused for, where that is a host that it was
// to fetch from, or a variable; and tells of the rest.
func (p *Profile) refused(row *audit.Row, args *audit.Arguments) {
	r := &row.Refused.Refusal
	if args == nil {
		args = &audit.Arguments{}
	}
	if r.Reason == envelope.ReasonPolicy && (r.Field == "fetch" || r.Field == "fetch.url") {
		if w, ok := fetched(args.URL); ok {
			w.why = r.Message
			p.proposeHost(w, row.ID)
			return
		}
	}
	var names []string
	for _, v := range args.Env {
		if !slices.Contains(p.Envelope.Environment, v.Name) && envelope.CheckVariable(v.Name) == nil && len(names) < maxNames {
			names = append(names, v.Name)
		}
	}
	if r.Reason == envelope.ReasonPolicy && strings.HasPrefix(r.Field, "env") && len(names) > 0 {
		p.Proposals = append(p.Proposals, Proposal{
			Field: "environment", Value: list(names), Why: "call " + row.ID + " set them, and was refused for it",
			apply: func(e *envelope.Envelope) { e.Environment = append(slices.Clone(e.Environment), names...) },
		})
		return
	}
	p.Proposals = append(p.Proposals, Proposal{Field: r.Field, Value: "(see why)", Why: "the call was refused, " + r.Reason.String() + ": " + r.Message + ". " + r.Hint})
}

// fetched is the host that an address leads to, where that can be proposed.
func fetched(address string) (*wanted, bool) {
	u, err := url.Parse(address)
	if err != nil || u.User != nil || !proposable(u.Hostname()) {
		return nil, false
	}
	w := &wanted{host: u.Hostname(), times: 1, protocol: map[string]string{"http": envelope.ProtocolHTTP, "https": envelope.ProtocolTLS}[u.Scheme]}
	port := map[string]int{"http": 80, "https": 443}[u.Scheme]
	if text := u.Port(); text != "" {
		if port, err = strconv.Atoi(text); err != nil {
			return nil, false
		}
	}
	w.ports = []int{port}
	return w, port > 0 && port <= 65535 && w.protocol != ""
}

// readable is the envelope of a row without what a row does not have: sources
// of secrets and directories of the host.
func readable(raw json.RawMessage) (envelope.Envelope, []string, error) {
	var seen envelope.Envelope
	if err := json.Unmarshal(raw, &seen); err != nil {
		return envelope.Envelope{}, nil, err
	}
	var gone []string
	for _, name := range slices.Sorted(maps.Keys(seen.Credentials)) {
		gone = append(gone, "the credential "+name)
	}
	for _, name := range slices.Sorted(maps.Keys(seen.Files.Mounts)) {
		gone = append(gone, "the mount "+name)
	}
	for _, r := range seen.Network.Private {
		gone = append(gone, "the private range "+r.CIDR)
	}
	seen.Credentials, seen.Files.Mounts, seen.Network.Private = map[string]envelope.Credential{}, map[string]envelope.Mount{}, []envelope.Private{}
	return seen, gone, seen.Validate()
}

// wanted is a host that was denied.
type wanted struct {
	host     string
	ports    []int
	protocol string
	times    int
	why      string
}

// denials proposes the hosts that were denied. The program chose their names,
// so what is no name of a host is counted and not written.
func (p *Profile) denials(row *audit.Row) {
	if row.Ending == nil || row.Ending.Egress == nil {
		return
	}
	var all []*wanted
	odd := 0
	for i := range row.Ending.Egress.Attempts {
		a := &row.Ending.Egress.Attempts[i]
		if a.Verdict != envelope.VerdictDenied {
			continue
		}
		j := slices.IndexFunc(all, func(w *wanted) bool { return w.host == a.Host })
		switch {
		case j < 0 && (!proposable(a.Host) || len(all) == maxHosts):
			odd++
			continue
		case j < 0:
			all, j = append(all, &wanted{host: a.Host, why: a.Why}), len(all)
		}
		all[j].times++
		if a.Port > 0 && !slices.Contains(all[j].ports, a.Port) {
			all[j].ports, all[j].protocol = append(all[j].ports, a.Port), a.Protocol
		}
	}
	for _, w := range all {
		p.proposeHost(w, row.ID)
	}
	if odd > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("%d more attempts were denied, to what is no name of a host, or beyond the first %d names.", odd, maxHosts))
	}
}

// proposable reports whether host is an exact name.
func proposable(host string) bool {
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil || strings.HasPrefix(host, "*") {
		return false
	}
	e := envelope.Default()
	e.Network.Allow = []envelope.Allow{{Host: host, Ports: []int{443}}}
	return e.Validate() == nil
}

func (p *Profile) proposeHost(w *wanted, id string) {
	a := envelope.Allow{Host: w.host, Ports: w.ports}
	if len(a.Ports) == 0 {
		a.Ports = []int{443}
	}
	if slices.ContainsFunc(a.Ports, func(port int) bool { return a.ProtocolOn(port) == "" }) {
		if a.Protocol = w.protocol; a.Protocol == "" {
			a.Protocol = envelope.ProtocolTCP
		}
	}
	p.Proposals = append(p.Proposals, Proposal{
		Field: hostField(w.host), Value: allowText(a),
		Why:   fmt.Sprintf("call %s tried it %d times and was denied (%s). Its program chose the name: allow it only if you know it", id, w.times, w.why),
		apply: func(e *envelope.Envelope) { e.Network.Allow = append(e.Network.Allow, a) },
	})
}

// exhausted proposes twice of each ceiling that was met.
func (p *Profile) exhausted(row *audit.Row) {
	if row.Ending == nil {
		return
	}
	met := map[string]bool{row.Ending.Outcome.String(): true}
	for _, e := range row.Ending.Events {
		met[e.Kind] = true
	}
	e := &p.Envelope
	for _, c := range []struct {
		kind  envelope.Outcome
		field string
		twice string
		apply func(*envelope.Envelope)
	}{
		{envelope.OutcomeWallTime, "resources.wall", (2 * e.Resources.Wall).String(), func(e *envelope.Envelope) { e.Resources.Wall *= 2 }},
		{envelope.OutcomeCPUTime, "resources.cpuTime", (2 * e.Resources.CPUTime).String(), func(e *envelope.Envelope) { e.Resources.CPUTime *= 2 }},
		{envelope.OutcomeMemory, "resources.memory", (2 * e.Resources.Memory).String(), func(e *envelope.Envelope) { e.Resources.Memory *= 2 }},
		{envelope.OutcomeProcesses, "resources.pids", (2 * e.Resources.Pids).String(), func(e *envelope.Envelope) { e.Resources.Pids *= 2 }},
		{envelope.OutcomeOutput, "resources.output.total", (2 * e.Resources.Output.Total).String(), func(e *envelope.Envelope) { e.Resources.Output.Total *= 2 }},
		{envelope.OutcomeFileSize, "resources.fileSize", (2 * e.Resources.FileSize).String(), func(e *envelope.Envelope) { e.Resources.FileSize *= 2 }},
		{envelope.OutcomeDisk, "files.scratch", (2 * e.Files.Scratch).String(), func(e *envelope.Envelope) { e.Files.Scratch *= 2 }},
	} {
		if met[c.kind.String()] {
			p.Proposals = append(p.Proposals, Proposal{Field: c.field, Value: c.twice, apply: c.apply,
				Why: "call " + row.ID + " met this ceiling (" + c.kind.String() + "): twice of what it had"})
		}
	}
}
