package envelope

import (
	"slices"
	"strings"
)

// Within reports whether a gives no more than p in any field: the order of the
// table in the package doc. It is reflexive and transitive, and written apart
// from Narrow, so that each is a test of the other. Both should be valid;
// what is not in a closed set is within itself alone.
func Within(a, p Envelope) bool {
	return a.Version == p.Version &&
		withinLevel(a.Level, p.Level) &&
		a.Trust >= p.Trust &&
		a.Image == p.Image &&
		subset(a.Environment, p.Environment) &&
		withinFiles(a.Files, p.Files) &&
		withinNetwork(a.Network, p.Network) &&
		a.Privilege == p.Privilege &&
		withinCredentials(a.Credentials, p.Credentials) &&
		withinResources(a.Resources, p.Resources) &&
		a.Cleanup.StopGrace <= p.Cleanup.StopGrace &&
		withinTask(a.Task, p.Task) &&
		withinCoResidency(a.CoResidency, p.CoResidency)
}

func withinLevel(a, p Level) bool {
	runs := func(l Level) bool { return slices.Contains(Levels(), l) }
	switch {
	case a == p:
		return true
	case !runs(a):
		return false
	case p == LevelAuto:
		return true
	}
	return runs(p) && a > p
}

func withinFiles(a, p Files) bool {
	if a.Scratch > p.Scratch || a.Inodes > p.Inodes {
		return false
	}
	if a.Outputs.Count > p.Outputs.Count || a.Outputs.Bytes > p.Outputs.Bytes {
		return false
	}
	if a.Tree.Count > p.Tree.Count || a.Tree.Bytes > p.Tree.Bytes ||
		a.Tree.Changes.Count > p.Tree.Changes.Count || a.Tree.Changes.Bytes > p.Tree.Changes.Bytes {
		return false
	}
	for name, mount := range a.Mounts {
		if other, ok := p.Mounts[name]; !ok || other != mount {
			return false
		}
	}
	return true
}

func withinNetwork(a, p Network) bool {
	for _, entry := range a.Allow {
		for _, port := range entry.Ports {
			if !someAllows(p.Allow, entry, port) {
				return false
			}
		}
	}
	return subset(a.Private, p.Private) && (a.Fetch == p.Fetch || a.Fetch == "" && p.Fetch == FetchPublic)
}

// someAllows compares names label by label, from the last one.
func someAllows(list []Allow, a Allow, port int) bool {
	for _, p := range list {
		same := slices.Contains(p.Ports, port) && spoken(p, port) == spoken(a, port)
		if same && (looksInto(a, port) || !looksInto(p, port)) && labelsWithin(a.Host, p.Host) {
			return true
		}
	}
	return false
}

func spoken(a Allow, port int) string {
	defaults := map[int]string{80: "http", 443: "tls"}
	if a.Protocol == "" {
		return defaults[port]
	}
	return a.Protocol
}

func looksInto(a Allow, port int) bool { return a.Inspect && spoken(a, port) == "tls" }

func labelsWithin(a, p string) bool {
	as, ps := strings.Split(a, "."), strings.Split(p, ".")
	if ps[0] != "*" {
		return slices.Equal(as, ps)
	}
	domain := ps[1:]
	return len(as) > len(domain) && slices.Equal(as[len(as)-len(domain):], domain)
}

func withinCredentials(a, p map[string]Credential) bool {
	for name, c := range a {
		if other, ok := p[name]; !ok || !sameCredential(c, other) {
			return false
		}
	}
	return true
}

// sameCredential reports whether two entries mean the same: a credential is
// kept whole or not at all.
func sameCredential(a, p Credential) bool {
	ua, up := a.Use, p.Use
	return a.Source == p.Source && a.TTL == p.TTL && sameSet(a.Scopes, p.Scopes) &&
		strings.EqualFold(ua.Header, up.Header) &&
		ua.FormatOrDefault() == up.FormatOrDefault() &&
		ua.Host == up.Host && ua.PortOrDefault() == up.PortOrDefault() &&
		sameSet(ua.Methods, up.Methods) && ua.Path == up.Path &&
		ua.File == up.File && ua.Env == up.Env
}

func withinResources(a, p Resources) bool {
	return a.CPU <= p.CPU && a.CPUTime <= p.CPUTime && a.Wall <= p.Wall &&
		a.Memory <= p.Memory && a.Pids <= p.Pids && a.FileSize <= p.FileSize &&
		a.OpenFiles <= p.OpenFiles &&
		a.Output.Keep <= p.Output.Keep && a.Output.Total <= p.Output.Total
}

func withinTask(a, p Task) bool {
	return a.Calls <= p.Calls && a.CPUTime <= p.CPUTime && a.Tokens <= p.Tokens && a.Wall <= p.Wall
}

// withinCoResidency orders the words by how few others run meanwhile.
func withinCoResidency(a, p string) bool {
	if a == p {
		return true
	}
	ia, ip := slices.Index(coResidencies(), a), slices.Index(coResidencies(), p)
	return ia >= 0 && ip >= 0 && ia >= ip
}

func subset[T comparable](a, p []T) bool {
	for _, x := range a {
		if !slices.Contains(p, x) {
			return false
		}
	}
	return true
}

func sameSet(a, p []string) bool { return subset(a, p) && subset(p, a) }
