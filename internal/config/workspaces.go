package config

import "github.com/callcell/callcell/envelope"

// Workspaces bound what a team keeps from call to call.
type Workspaces struct {
	Bytes    envelope.Size  `json:"bytes"`    // of one team, each content once
	Blobs    envelope.Count `json:"blobs"`    // of one team: different contents, and one for each version
	Versions envelope.Count `json:"versions"` // of one workspace; older ones go
}

func defaultWorkspaces() Workspaces {
	return Workspaces{Bytes: 8 * envelope.GiB, Blobs: 1_000_000, Versions: 100}
}

func checkWorkspaces(c *Config) error {
	w := c.Workspaces
	switch {
	case w.Bytes < envelope.MiB || w.Bytes > 64*envelope.TiB:
		return bad("workspaces.bytes", w.Bytes.String()+" is not from 1Mi to 64Ti", "8Gi is the default")
	case w.Blobs < 1 || w.Blobs > 100_000_000:
		return bad("workspaces.blobs", w.Blobs.String()+" is not from 1 to 100 million", "1M is the default")
	case w.Versions < 1 || w.Versions > 100_000:
		return bad("workspaces.versions", w.Versions.String()+" is not from 1 to 100000", "100 is the default")
	}
	return nil
}
