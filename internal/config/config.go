package config

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/config/guarded"
	"github.com/callcell/callcell/internal/placement"
)

// Version is the only version of the configuration there is.
const Version = 1

// Config is the configuration of a host, complete.
//
// To add a field: add it here and to wire, with its JSON name; give it a
// default in Default and copy it in read and wireOf; hold it to a check in
// checks; where a value of it widens the surface, name that in Warnings; add
// it to testdata/full.yaml. Print finds it by itself.
type Config struct {
	// State is the directory of the store, the audit log and images.
	State string
	// Helpers is the directory of callcell-launcher and callcell-init.
	Helpers string
	// Profiles are the operator's envelopes by name. There is always one
	// named DefaultProfile.
	Profiles map[string]envelope.Envelope
	// DefaultProfile is the profile of a call that names none.
	DefaultProfile string
	// Floors has, for every trust, the weakest level that its code may run at.
	Floors map[envelope.Trust]envelope.Level
	Audit  Audit
	Egress Egress
	Images Images
	// Workspaces bound what a team keeps from call to call.
	Workspaces Workspaces
	// Credentials are the sources that an envelope's entries name.
	Credentials Credentials
	Gateway     Gateway
	Serve       Serve
	// Daemon has calls of this host's commands made by a daemon.
	Daemon Daemon
	// Telemetry, Webhooks and Health are what others hear of this host.
	Telemetry Telemetry
	Webhooks  []Webhook
	Health    Health

	doc *Document // nil where there is no file
}

// wire is the file. Profiles are read one by one, over the default envelope.
type wire struct {
	Version        int                        `json:"version"`
	State          string                     `json:"state"`
	Helpers        string                     `json:"helpers"`
	Profiles       map[string]json.RawMessage `json:"profiles"`
	DefaultProfile string                     `json:"defaultProfile"`
	Floors         map[string]envelope.Level  `json:"floors"`
	Audit          Audit                      `json:"audit"`
	Egress         Egress                     `json:"egress"`
	Images         Images                     `json:"images"`
	Workspaces     Workspaces                 `json:"workspaces"`
	Credentials    Credentials                `json:"credentials"`
	Gateway        gatewayFile                `json:"gateway"`
	Serve          Serve                      `json:"serve"`
	Daemon         Daemon                     `json:"daemon"`
	Telemetry      Telemetry                  `json:"telemetry"`
	Webhooks       []Webhook                  `json:"webhooks"`
	Health         Health                     `json:"health"`
}

// BuiltinProfile is the profile that is there where the file defines none of
// that name: envelope.Default.
const BuiltinProfile = "default"

// Default returns the configuration of a host without a file.
func Default(host Host) *Config {
	return &Config{
		State:          host.state(),
		Helpers:        filepath.Dir(host.Executable),
		Profiles:       map[string]envelope.Envelope{BuiltinProfile: envelope.Default()},
		DefaultProfile: BuiltinProfile,
		Floors:         placement.DefaultFloors(),
		Audit:          defaultAudit(),
		Egress:         defaultEgress(),
		Images:         defaultImages(),
		Workspaces:     defaultWorkspaces(),
		Credentials:    Credentials{OAuth2: map[string]OAuth2{}},
		Gateway:        defaultGateway(),
		Serve:          defaultServe(),
		Telemetry:      defaultTelemetry(),
		Webhooks:       []Webhook{},
		Health:         defaultHealth(),
	}
}

// Load reads and validates the configuration in the file at path. With an
// empty path it is the one in the default place, or the defaults where there
// is none. An error is a *Error.
func Load(path string, host Host) (*Config, error) {
	named := path != ""
	if !named {
		path = host.ConfigFile()
	}
	if path == "" || !named && absent(path) {
		c := Default(host)
		return c, c.Validate()
	}
	full, err := filepath.Abs(path)
	if err != nil {
		return nil, fileError(path, err)
	}
	data, err := guarded.Read(full, MaxYAML)
	if err != nil {
		return nil, fileError(path, err)
	}
	return Read(path, data, host)
}

// absent reports whether nothing is at path: a link that leads nowhere is
// something.
func absent(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}

func fileError(path string, err error) *Error {
	e := &Error{File: path, Msg: err.Error(), Err: err}
	var guard *guarded.Error
	if errors.As(err, &guard) {
		e.File, e.Msg, e.Hint = guard.Path, guard.Err.Error(), guard.Hint
	}
	return e
}

// Read reads and validates the configuration in data, which is the content of
// file. An error is a *Error.
func Read(file string, data []byte, host Host) (*Config, error) {
	doc, err := Parse(file, data)
	if err != nil {
		return nil, err
	}
	c := Default(host)
	c.doc = doc
	w := wire{Version: Version, State: c.State, Helpers: c.Helpers, DefaultProfile: c.DefaultProfile, Audit: c.Audit, Egress: c.Egress, Images: c.Images, Workspaces: c.Workspaces, Credentials: c.Credentials,
		Gateway: c.Gateway.file(), Serve: c.Serve, Daemon: c.Daemon, Telemetry: c.Telemetry, Webhooks: c.Webhooks, Health: c.Health}
	if err := doc.Decode(&w); err != nil {
		return nil, err
	}
	if err := c.take(w); err != nil {
		return nil, err
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return c, nil
}

// take takes over what the file says.
func (c *Config) take(w wire) error {
	if w.Version != Version {
		return c.doc.Locate(&envelope.FieldError{Field: "version", Msg: "not a version of the configuration", Hint: "write version: 1"}, "")
	}
	c.State, c.Helpers, c.DefaultProfile = w.State, w.Helpers, w.DefaultProfile
	c.Audit, c.Egress, c.Images, c.Workspaces, c.Credentials, c.Serve = w.Audit, w.Egress, w.Images, w.Workspaces, w.Credentials, w.Serve
	c.Daemon, c.Telemetry, c.Webhooks, c.Health = w.Daemon, w.Telemetry, w.Webhooks, w.Health
	if err := c.takeGateway(w.Gateway); err != nil {
		return err
	}
	for word, level := range w.Floors {
		var trust envelope.Trust
		if err := trust.UnmarshalText([]byte(word)); err != nil {
			return c.doc.Locate(&envelope.FieldError{Field: "floors" + segment(word, false), Msg: err.Error(), Hint: "name who wrote the code"}, "")
		}
		c.Floors[trust] = level
	}
	for _, name := range sortedKeys(w.Profiles) {
		e, err := envelope.DecodeEnvelope(w.Profiles[name], envelope.Default())
		if err != nil {
			return c.doc.Locate(err, "profiles"+segment(name, false))
		}
		c.Profiles[name] = e
	}
	return nil
}

// Profile returns a profile by its name, the default one for "".
func (c *Config) Profile(name string) (envelope.Envelope, bool) {
	if name == "" {
		name = c.DefaultProfile
	}
	e, ok := c.Profiles[name]
	return e.Clone(), ok
}

// File is the file that was read, "" for the defaults.
func (c *Config) File() string {
	if c.doc == nil {
		return ""
	}
	return c.doc.file
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
