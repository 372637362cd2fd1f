package config

import "github.com/callcell/callcell/envelope"

// Images bound the store of images.
type Images struct {
	Bytes   envelope.Size  `json:"bytes"`   // of all of them together
	Tree    envelope.Size  `json:"tree"`    // of one
	Entries envelope.Count `json:"entries"` // files, links and directories of one
}

func defaultImages() Images {
	return Images{Bytes: 64 * envelope.GiB, Tree: 16 * envelope.GiB, Entries: 1_000_000}
}

func checkImages(c *Config) error {
	i := c.Images
	switch {
	case i.Tree < envelope.MiB || i.Tree > envelope.TiB:
		return bad("images.tree", i.Tree.String()+" is not from 1Mi to 1Ti", "16Gi is the default")
	case i.Bytes < i.Tree:
		return bad("images.bytes", i.Bytes.String()+" is less than one image may have", "write "+i.Tree.String()+" or more")
	case i.Entries < 1 || i.Entries > 10_000_000:
		return bad("images.entries", i.Entries.String()+" is not from 1 to 10 million", "1M is the default")
	}
	return nil
}
