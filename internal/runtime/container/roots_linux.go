package container

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/launcher/wire"
	"github.com/callcell/callcell/internal/runtime/link"
)

// mount puts a shape's mounts into a spec, by the names that the launcher's own
// configuration has for them. An error is a *cell.Error: they are more than a
// root can have.
func mount(spec *wire.Spec, s *cell.Shape) error {
	mounts := s.Envelope.Files.Mounts
	for _, name := range slices.Sorted(maps.Keys(mounts)) {
		m := mounts[name]
		spec.Mounts = append(spec.Mounts, wire.Mount{Name: name, Source: sha256.Sum256([]byte(m.Source)), Target: m.Target})
	}
	if err := spec.CheckRoot(); err != nil {
		return &cell.Error{
			Reason: envelope.ReasonPolicy, Step: "the cell's root", Err: err,
			Hint: fmt.Sprintf("a cell has at most %d mounts, beside what it is made of", wire.MaxMounts),
		}
	}
	return nil
}

// mountHint says what to write where, for a mount that the launcher refuses.
func mountHint(s *cell.Shape, spec *wire.Spec, refused *link.MountError) string {
	hint := "what of this host a cell may be given is in the launcher's own configuration, /etc/callcell/launcher.conf, which belongs to root"
	if refused.Index >= len(spec.Mounts) {
		return hint
	}
	name := spec.Mounts[refused.Index].Name
	return fmt.Sprintf("%s; it wants the line: mount.%s = %s", hint, name, s.Envelope.Files.Mounts[name].Source)
}
