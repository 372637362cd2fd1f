package draft

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/callcell/callcell/envelope"
)

// A value is one line of a profile that is not the default's.
type value struct {
	field   string // dotted, for its reason
	section string // dotted, where it stands
	text    string // the line
}

// valuesOf returns what of an envelope is not the default's, in the order of
// the struct. The trust is always said.
func valuesOf(e *envelope.Envelope) []value {
	d := envelope.Default()
	out := []value{{"trust", "", "trust: " + e.Trust.String()}}
	add := func(differs bool, section, key, text string) {
		if differs {
			field := key
			if section != "" {
				field = section + "." + key
			}
			out = append(out, value{field, section, key + ": " + text})
		}
	}
	add(e.Level != d.Level, "", "level", e.Level.String())
	add(e.Image != d.Image, "", "image", quoted(e.Image))
	add(len(e.Environment) > 0, "", "environment", list(e.Environment))
	add(e.CoResidency != d.CoResidency, "", "coResidency", e.CoResidency)
	f, df := &e.Files, &d.Files
	add(f.Scratch != df.Scratch, "files", "scratch", f.Scratch.String())
	add(f.Inodes != df.Inodes, "files", "inodes", f.Inodes.String())
	add(f.Outputs.Count != df.Outputs.Count, "files.outputs", "count", f.Outputs.Count.String())
	add(f.Outputs.Bytes != df.Outputs.Bytes, "files.outputs", "bytes", f.Outputs.Bytes.String())
	add(f.Tree.Count != df.Tree.Count, "files.tree", "count", f.Tree.Count.String())
	add(f.Tree.Bytes != df.Tree.Bytes, "files.tree", "bytes", f.Tree.Bytes.String())
	add(f.Tree.Changes.Count != df.Tree.Changes.Count, "files.tree.changes", "count", f.Tree.Changes.Count.String())
	add(f.Tree.Changes.Bytes != df.Tree.Changes.Bytes, "files.tree.changes", "bytes", f.Tree.Changes.Bytes.String())
	add(e.Network.Fetch != d.Network.Fetch, "network", "fetch", e.Network.Fetch)
	for _, a := range e.Network.Allow {
		out = append(out, value{hostField(a.Host), "network.allow", "- " + allowText(a)})
	}
	for _, name := range slices.Sorted(maps.Keys(e.Credentials)) {
		out = append(out, value{"credentials." + name, "credentials", name + ": " + credentialText(e.Credentials[name])})
	}
	return append(out, ceilings(e, &d)...)
}

// ceilings are those of the call, and of its task.
func ceilings(e, defaults *envelope.Envelope) (out []value) {
	r, d := &e.Resources, &defaults.Resources
	for _, c := range []struct {
		differs            bool
		section, key, text string
	}{
		{r.CPU != d.CPU, "resources", "cpu", r.CPU.String()},
		{r.CPUTime != d.CPUTime, "resources", "cpuTime", r.CPUTime.String()},
		{r.Wall != d.Wall, "resources", "wall", r.Wall.String()},
		{r.Memory != d.Memory, "resources", "memory", r.Memory.String()},
		{r.Pids != d.Pids, "resources", "pids", r.Pids.String()},
		{r.FileSize != d.FileSize, "resources", "fileSize", r.FileSize.String()},
		{r.OpenFiles != d.OpenFiles, "resources", "openFiles", r.OpenFiles.String()},
		{r.Output.Keep != d.Output.Keep, "resources.output", "keep", r.Output.Keep.String()},
		{r.Output.Total != d.Output.Total, "resources.output", "total", r.Output.Total.String()},
		{e.Cleanup.StopGrace != defaults.Cleanup.StopGrace, "cleanup", "stopGrace", e.Cleanup.StopGrace.String()},
		{e.Task.Calls != defaults.Task.Calls, "task", "calls", e.Task.Calls.String()},
		{e.Task.CPUTime != defaults.Task.CPUTime, "task", "cpuTime", e.Task.CPUTime.String()},
		{e.Task.Tokens != defaults.Task.Tokens, "task", "tokens", e.Task.Tokens.String()},
		{e.Task.Wall != defaults.Task.Wall, "task", "wall", e.Task.Wall.String()},
	} {
		if c.differs {
			out = append(out, value{c.section + "." + c.key, c.section, c.key + ": " + c.text})
		}
	}
	return out
}

// hostField is the field of one host, for its reason.
func hostField(host string) string { return "network.allow " + host }

func list(words []string) string {
	quotedWords := make([]string, len(words))
	for i, w := range words {
		quotedWords[i] = quoted(w)
	}
	return "[" + strings.Join(quotedWords, ", ") + "]"
}

func credentialText(c envelope.Credential) string {
	u := c.Use
	text := fmt.Sprintf("{source: %s, use: {header: %s, format: %s, host: %s, methods: %s, path: %s}", quoted(c.Source),
		quoted(u.Header), quoted(u.FormatOrDefault()), quoted(u.Host), list(u.Methods), quoted(u.Path))
	return text + "}"
}
