package envelope

import (
	"slices"
	"strconv"
	"strings"
)

// Narrow applies a request to the profile p and returns the envelope of the
// call, or refuses what is wider. Narrower is what the table of the package
// doc says, and Within decides the same on its own: the result is within p.
// Nothing is clamped, nothing left out silently; a nil request, and a nil
// field of one, keeps what p says.
//
// The result is valid and shares no memory with p or r. An error is a
// *FieldError and the result is then the zero value: ReasonPolicy for what is
// wider than p (or where p itself is not valid), ReasonRequest for what is
// malformed or makes an envelope that is not valid.
func Narrow(p Envelope, r *Request) (Envelope, error) { return apply(p, r, false) }

// Overlay applies the flags of the local operator, who is the one that wrote
// p: it sets where Narrow narrows, so that ceilings, level, trust, image,
// environment and the allow list may go either way. Mounts and credentials
// are still named by p's entry names alone. Result and errors are as of
// Narrow. It is not for anything that came over a wire.
func Overlay(p Envelope, r *Request) (Envelope, error) { return apply(p, r, true) }

// A change is one application of a request.
type change struct {
	out  *Envelope // a copy of the profile; each field is still the profile's until its turn
	free bool      // Overlay: set instead of narrow
	err  *FieldError
}

func apply(p Envelope, r *Request, free bool) (Envelope, error) {
	if err := runChecks(envelopeChecks(), &p); err != nil {
		return Envelope{}, &FieldError{Reason: ReasonPolicy, Field: err.Field, Msg: "the profile is not valid: " + err.Msg, Hint: err.Hint}
	}
	out := p.Clone()
	if r == nil {
		return out, nil
	}
	c := &change{out: &out, free: free}
	for _, part := range []func(*Request){c.who, c.files, c.network, c.credentials, c.resources, c.cleanup} {
		if part(r); c.err != nil {
			return Envelope{}, c.err
		}
	}
	if err := runChecks(envelopeChecks(), &out); err != nil {
		return Envelope{}, err
	}
	return out, nil
}

// wider refuses what is more than the profile gives. The first refusal stays.
func (c *change) wider(field, msg, hint string) {
	if c.err == nil {
		c.err = &FieldError{Reason: ReasonPolicy, Field: field, Msg: msg, Hint: hint}
	}
}

func (c *change) malformed(field, msg, hint string) {
	if c.err == nil {
		c.err = fault(field, msg, hint)
	}
}

func (c *change) who(r *Request) {
	e := c.out
	if r.Level != nil {
		if c.free || levelNarrows(*r.Level, e.Level) {
			e.Level = *r.Level
		} else {
			c.wider("level", "asks "+r.Level.String()+", the profile says "+e.Level.String(), levelHint(e.Level))
		}
	}
	if r.Trust != nil {
		if c.free || *r.Trust >= e.Trust {
			e.Trust = *r.Trust
		} else {
			c.wider("trust", "asks "+r.Trust.String()+", the profile says "+e.Trust.String(), "trust goes towards hostile alone; leave it out, or choose a profile with more trust")
		}
	}
	if r.Image != nil {
		if c.free || *r.Image == e.Image {
			e.Image = *r.Image
		} else {
			c.wider("image", "asks "+quote(*r.Image)+", the profile says "+quote(e.Image), "leave it out, or choose a profile with that image")
		}
	}
	if r.Environment != nil {
		c.environment(*r.Environment)
	}
}

func (c *change) environment(names []string) {
	if !c.different("environment", names) {
		return
	}
	have := c.out.Environment
	for i, name := range names {
		if !c.free && !slices.Contains(have, name) {
			c.wider(at("environment", i), quote(name)+" is not in the profile's list", thereAre(have))
			return
		}
	}
	c.out.Environment = cloneList(names)
}

// levelNarrows reports whether a request may ask for level where the profile
// says have: auto may become any level, a level the same or a stronger one.
// Auto, the smallest value, is stronger than none.
func levelNarrows(level, have Level) bool {
	return level == have || have == LevelAuto || level > have
}

func levelHint(have Level) string {
	var stronger []string
	for _, l := range Levels() {
		if l >= have {
			stronger = append(stronger, l.String())
		}
	}
	return "ask for one of " + strings.Join(stronger, ", ") + ", or leave it out"
}

func (c *change) files(r *Request) {
	if r.Files == nil {
		return
	}
	f, ask := &c.out.Files, r.Files
	limit(c, "files.scratch", &f.Scratch, ask.Scratch)
	limit(c, "files.inodes", &f.Inodes, ask.Inodes)
	if ask.Outputs != nil {
		limit(c, "files.outputs.count", &f.Outputs.Count, ask.Outputs.Count)
		limit(c, "files.outputs.bytes", &f.Outputs.Bytes, ask.Outputs.Bytes)
	}
	if ask.Tree != nil {
		c.tree(ask.Tree)
	}
	keep(c, "files.mounts", &f.Mounts, ask.Mounts)
}

func (c *change) tree(ask *TreeCapsRequest) {
	have := &c.out.Files.Tree
	limit(c, "files.tree.count", &have.Count, ask.Count)
	limit(c, "files.tree.bytes", &have.Bytes, ask.Bytes)
	if ask.Changes != nil {
		limit(c, "files.tree.changes.count", &have.Changes.Count, ask.Changes.Count)
		limit(c, "files.tree.changes.bytes", &have.Changes.Bytes, ask.Changes.Bytes)
	}
}

func (c *change) credentials(r *Request) {
	keep(c, "credentials", &c.out.Credentials, r.Credentials)
}

func (c *change) resources(r *Request) {
	if r.Resources == nil {
		return
	}
	f, ask := &c.out.Resources, r.Resources
	limit(c, "resources.cpu", &f.CPU, ask.CPU)
	limit(c, "resources.cpuTime", &f.CPUTime, ask.CPUTime)
	limit(c, "resources.wall", &f.Wall, ask.Wall)
	limit(c, "resources.memory", &f.Memory, ask.Memory)
	limit(c, "resources.pids", &f.Pids, ask.Pids)
	limit(c, "resources.fileSize", &f.FileSize, ask.FileSize)
	limit(c, "resources.openFiles", &f.OpenFiles, ask.OpenFiles)
	if ask.Output != nil {
		limit(c, "resources.output.keep", &f.Output.Keep, ask.Output.Keep)
		limit(c, "resources.output.total", &f.Output.Total, ask.Output.Total)
	}
}

func (c *change) cleanup(r *Request) {
	if r.Cleanup != nil {
		limit(c, "cleanup.stopGrace", &c.out.Cleanup.StopGrace, r.Cleanup.StopGrace)
	}
}

// limit lowers one ceiling.
func limit[T quantity](c *change, field string, have *T, ask *T) {
	switch {
	case ask == nil:
	case c.free || *ask <= *have:
		*have = *ask
	default:
		c.wider(field, "asks "+(*ask).String()+", the profile allows "+(*have).String(), "ask for at most "+(*have).String()+", or choose another profile")
	}
}

// keep drops the entries that a request does not name.
func keep[V any](c *change, field string, have *map[string]V, names *[]string) {
	if names == nil || !c.different(field, *names) {
		return
	}
	kept := make(map[string]V, len(*names))
	for i, name := range *names {
		entry, ok := (*have)[name]
		if !ok {
			c.wider(at(field, i), "the profile has no entry "+quote(name), thereAre(sorted(*have)))
			return
		}
		kept[name] = entry
	}
	*have = kept
}

// different reports whether no name comes twice.
func (c *change) different(field string, names []string) bool {
	seen := make(map[string]bool, len(names))
	for i, name := range names {
		if seen[name] {
			c.malformed(at(field, i), quote(name)+" comes twice", "list it once")
			return false
		}
		seen[name] = true
	}
	return true
}

func thereAre(names []string) string {
	if len(names) == 0 {
		return "the profile has none"
	}
	return "there are: " + strings.Join(names, ", ")
}

func (c *change) network(r *Request) {
	if r.Network == nil || r.Network.Allow == nil {
		return
	}
	have, ask := c.out.Network.Allow, *r.Network.Allow
	for i, a := range ask {
		if !c.free {
			c.covered(at("network.allow", i), a, have)
		}
	}
	c.out.Network.Allow = cloneAllow(ask)
}

// covered refuses an entry of which some port is not in the profile's list
// with the same protocol and no less inspection.
func (c *change) covered(field string, a Allow, have []Allow) {
	if err := checkAllowHost(field+".host", a.Host); err != nil {
		c.malformed(err.Field, err.Msg, err.Hint)
		return
	}
	for _, port := range a.Ports {
		near := ""
		ok := slices.ContainsFunc(have, func(p Allow) bool {
			if !p.Covers(a.Host) || !slices.Contains(p.Ports, port) {
				return false
			}
			if p.ProtocolOn(port) != a.ProtocolOn(port) {
				near = ": there it speaks " + p.ProtocolOn(port)
				return false
			}
			if p.InspectsOn(port) && !a.InspectsOn(port) {
				near = ": there it is inspected"
				return false
			}
			return true
		})
		if !ok {
			c.wider(field, quote(a.Host)+" on port "+strconv.Itoa(port)+" is not in the profile's list"+near, allowHint(have))
			return
		}
	}
}

// allowHint lists the hosts that the profile allows.
func allowHint(have []Allow) string {
	var hosts []string
	for _, a := range have {
		if !slices.Contains(hosts, a.Host) {
			hosts = append(hosts, a.Host)
		}
	}
	if len(hosts) == 0 {
		return "the profile allows no host"
	}
	if len(hosts) > 16 {
		hosts = append(hosts[:16], "...")
	}
	return "the profile allows: " + strings.Join(hosts, ", ")
}
