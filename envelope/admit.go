package envelope

import (
	"slices"
	"strings"
)

// Admits reports whether the envelope admits the call: the variables it sets
// are listed, its files fit into the scratch space, it names outputs only where
// some are allowed, and fetches only where something may be reached. Both must
// be valid. The error is a *FieldError with
// ReasonPolicy. It is not the place for the call's Request: that is Narrow's.
func (e *Envelope) Admits(c *Call) error {
	for _, run := range []func(*Envelope, *Call) *FieldError{admitEnv, admitTree, admitInputs, admitOutputs, admitFetch, admitNeeds} {
		if err := run(e, c); err != nil {
			err.Reason = ReasonPolicy
			return err
		}
	}
	return nil
}

func admitEnv(e *Envelope, c *Call) *FieldError {
	for _, name := range sorted(c.Env) {
		if slices.Contains(e.Environment, name) {
			continue
		}
		hint := "no variable may be set here"
		if len(e.Environment) > 0 {
			hint = "these may be set: " + strings.Join(e.Environment, ", ")
		}
		return fault(entryField("env", name), "the envelope does not list it", hint)
	}
	return nil
}

func admitInputs(e *Envelope, c *Call) *FieldError {
	bytes, nodes := 0, map[string]bool{}
	if c.Script != nil {
		bytes, nodes[c.Script.FileName()] = len(c.Script.Code), true
	}
	for _, f := range c.files() {
		bytes += len(f.Data)
		nodes[f.Name] = true
		for dir := range parents(f.Name) {
			nodes[dir] = true
		}
		if Count(len(nodes)) > e.Files.Inodes {
			return fault("inputs", "are more than "+e.Files.Inodes.String()+" files and directories, which is files.inodes", "pass them in one archive")
		}
	}
	if Size(bytes) > e.Files.Scratch {
		return fault("inputs", "have "+Size(bytes).String()+", and files.scratch is "+e.Files.Scratch.String(), "send less, or choose a profile with more scratch")
	}
	return nil
}

func admitOutputs(e *Envelope, c *Call) *FieldError {
	if len(c.Outputs) > 0 && e.Files.Outputs.Count == 0 {
		return fault("outputs", "asks for files, and files.outputs.count is 0", "print the result, or choose a profile that returns files")
	}
	return nil
}

func admitFetch(e *Envelope, c *Call) *FieldError {
	if c.Fetch != nil && e.Network.Fetch == "" && len(e.Network.Allow) == 0 {
		return fault("fetch", "the envelope reaches no host", "choose a profile with network.fetch: public, or with the host in network.allow")
	}
	return nil
}
