package cell

import (
	"encoding/json"
	"fmt"
	"io"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"gvisor.dev/gvisor/runsc/config"
	"gvisor.dev/gvisor/runsc/specutils"
)

// maxSpec bounds the bundle's config.json, in bytes.
const maxSpec = 1 << 20

// What follows is the part of a bundle's config.json that a cell can have. To
// find out what all the fields of the whole type are takes the decoder half a
// millisecond of every start. What is more is refused, and not left out. A test
// holds it against gVisor's reader.
type (
	bundleSpec struct {
		Version     string            `json:"ociVersion"`
		Hostname    string            `json:"hostname"`
		Process     *processSpec      `json:"process"`
		Root        *specs.Root       `json:"root"`
		Mounts      []mountSpec       `json:"mounts"`
		Annotations map[string]string `json:"annotations"`
		Linux       *linuxSpec        `json:"linux"`
	}
	processSpec struct {
		User            userSpec                 `json:"user"`
		Args            []string                 `json:"args"`
		Env             []string                 `json:"env"`
		Cwd             string                   `json:"cwd"`
		NoNewPrivileges bool                     `json:"noNewPrivileges"`
		Capabilities    *specs.LinuxCapabilities `json:"capabilities"`
		Rlimits         []specs.POSIXRlimit      `json:"rlimits"`
	}
	userSpec struct {
		UID uint32 `json:"uid"`
		GID uint32 `json:"gid"`
	}
	mountSpec struct {
		Destination string   `json:"destination"`
		Type        string   `json:"type"`
		Source      string   `json:"source"`
		Options     []string `json:"options"`
	}
	linuxSpec struct {
		Namespaces []specs.LinuxNamespace `json:"namespaces"`
	}
)

// readSpec reads a bundle's config.json.
func readSpec(r io.ReaderAt, conf *config.Config) (*specs.Spec, error) {
	d := json.NewDecoder(io.NewSectionReader(r, 0, maxSpec))
	d.DisallowUnknownFields()
	var b bundleSpec
	if err := d.Decode(&b); err != nil {
		return nil, fmt.Errorf("config.json: %w", err)
	}
	spec := b.spec()
	if err := specutils.ValidateSpec(spec, conf); err != nil {
		return nil, err
	}
	return spec, nil
}

// spec is the whole type. Its paths are absolute: the bundle is at the root.
func (b *bundleSpec) spec() *specs.Spec {
	s := &specs.Spec{Version: b.Version, Hostname: b.Hostname, Root: b.Root, Annotations: b.Annotations}
	if p := b.Process; p != nil {
		s.Process = &specs.Process{
			User: specs.User{UID: p.User.UID, GID: p.User.GID}, Args: p.Args, Env: p.Env, Cwd: p.Cwd,
			NoNewPrivileges: p.NoNewPrivileges, Capabilities: p.Capabilities, Rlimits: p.Rlimits,
		}
	}
	if s.Root != nil {
		s.Root.Path = absolute(s.Root.Path)
	}
	for _, m := range b.Mounts {
		s.Mounts = append(s.Mounts, specs.Mount{Destination: m.Destination, Type: m.Type, Source: absolute(m.Source), Options: m.Options})
	}
	if b.Linux != nil {
		s.Linux = &specs.Linux{Namespaces: b.Linux.Namespaces}
	}
	return s
}

func absolute(path string) string {
	if path == "" || path[0] == '/' {
		return path
	}
	return "/" + path
}
