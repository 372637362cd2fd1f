package envelope

import "maps"

// Clone returns a copy that shares no memory with e. Lists and maps that are
// nil and would be written as null are empty in the copy.
func (e *Envelope) Clone() Envelope {
	out := *e
	out.Environment = cloneList(e.Environment)
	out.Files.Mounts = make(map[string]Mount, len(e.Files.Mounts))
	maps.Copy(out.Files.Mounts, e.Files.Mounts)
	out.Network.Allow = cloneAllow(e.Network.Allow)
	out.Network.Private = cloneList(e.Network.Private)
	out.Credentials = make(map[string]Credential, len(e.Credentials))
	for name, c := range e.Credentials {
		out.Credentials[name] = c.clone()
	}
	return out
}

// Redacted returns a copy without what is the operator's alone: where a mount
// comes from on the host and where a credential is kept. It is for those who
// may know what is in force and no more; it is not valid, and its digest is
// not the envelope's.
func (e *Envelope) Redacted() Envelope {
	out := e.Clone()
	for name, m := range out.Files.Mounts {
		m.Source = ""
		out.Files.Mounts[name] = m
	}
	for name, c := range out.Credentials {
		c.Source = ""
		out.Credentials[name] = c
	}
	return out
}

func (c Credential) clone() Credential {
	c.Scopes = cloneOptional(c.Scopes)
	c.Use.Methods = cloneOptional(c.Use.Methods)
	return c
}

func cloneAllow(list []Allow) []Allow {
	out := cloneList(list)
	for i := range out {
		out[i].Ports = cloneList(out[i].Ports)
	}
	return out
}

// cloneList copies a list and makes an empty one of nil.
func cloneList[T any](list []T) []T {
	out := make([]T, len(list))
	copy(out, list)
	return out
}

// cloneOptional copies a list that is left out where it is empty.
func cloneOptional[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return cloneList(list)
}
