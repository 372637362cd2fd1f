package container

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/launcher/wire"
)

// rooted puts into a spec what its root is made of: trees by digest, and mounts
// by the names that the launcher's own configuration has for them. An error is a
// *cell.Error.
func rooted(spec *wire.Spec, s *cell.Shape) error {
	spec.Tree, spec.Added = digits(s.Root.Tree), digits(s.Root.Added)
	mounts := s.Envelope.Files.Mounts
	for _, name := range slices.Sorted(maps.Keys(mounts)) {
		m := mounts[name]
		spec.Mounts = append(spec.Mounts, wire.Mount{Name: name, Source: sha256.Sum256([]byte(m.Source)), Target: m.Target})
	}
	if s.Envelope.Image != envelope.ImageHost && s.Root == (cell.Root{}) {
		return &cell.Error{
			Reason: envelope.ReasonSetup, Step: "image " + s.Envelope.Image, Err: errors.New("no tree is named for it"),
			Hint: "an image is made of trees of the store before a cell is",
		}
	}
	if err := spec.CheckRoot(); err != nil {
		return &cell.Error{
			Reason: envelope.ReasonPolicy, Step: "the cell's root", Err: err,
			Hint: fmt.Sprintf("a cell has at most %d mounts, beside what it is made of", wire.MaxMounts),
		}
	}
	return nil
}

// digits are those of a digest, sha256:HEX.
func digits(digest string) string { return strings.TrimPrefix(digest, "sha256:") }

// mountHint says what to write where, for a mount that the launcher refuses.
func mountHint(s *cell.Shape, refusal error) string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(s.Envelope.Files.Mounts)) {
		if text := refusal.Error(); strings.Contains(text, "mount "+name+" ") || strings.Contains(text, "mount "+name+":") {
			lines = append(lines, fmt.Sprintf("mount.%s = %s", name, s.Envelope.Files.Mounts[name].Source))
		}
	}
	return "what of this host a cell may be given is in the launcher's own configuration, /etc/callcell/launcher.conf, which belongs to root; it wants the line: " +
		strings.Join(lines, "; ")
}
