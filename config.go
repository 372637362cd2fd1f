package callcell

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/assembly"
	"github.com/callcell/callcell/internal/config"
)

// Config says what a Callcell is made from. It is filled in as it is, or by
// LoadConfig and ParseConfig, and then changed; State and Helpers must be there.
// A Config may be copied, and used for more than one New.
type Config struct {
	// State is the directory of the audit log. It is made where it is not
	// there; nobody but its owner may write to it. Several processes may share
	// one.
	State string
	// Helpers is the directory of callcell-launcher and callcell-init, and of
	// what is started where it is needed: callcell-egress (a network),
	// callcell-runsc and callcell-guest (level userkernel), callcell-image.
	Helpers string

	// Profiles are the envelopes that calls name. One under the name default
	// is there in any case: envelope.Default, unless it is given here.
	Profiles map[string]envelope.Envelope
	// DefaultProfile is the profile of a call that names none; "" is default.
	DefaultProfile string
	// Floors are the weakest levels that code may run at, by who wrote it.
	// What is left out has its default: reviewed code may run at container,
	// model and thirdparty at userkernel, hostile at microvm.
	Floors map[envelope.Trust]envelope.Level

	// Caller is who calls, for the rows; "" is embedded: and the program's name.
	Caller string
	// Arguments is what a row keeps of a call's arguments: "kept" (also ""),
	// "digested" or "dropped".
	Arguments string
	// Warn is told, in a line each, what an operator must hear of and a caller
	// cannot mend: something is left of a cell, a row could not be completed, an
	// anchor or a collector does not answer. It is called concurrently, and from
	// within Run, and must not block. nil: nobody is told.
	Warn func(text string)
	// Ended is told of every call when its row is written, refused ones too
	// (r.Refusal says why), with the result that Run returns next. It is called
	// concurrently, from within Run, and must not block; it keeps neither call
	// nor r, and changes nothing of them. A panic in it is dropped. nil: nobody
	// is told.
	Ended func(call *envelope.Call, r *envelope.Result)

	rest *config.Config // of a document; nil: the defaults. Never changed
}

// ConfigError is a Config, or a configuration document, that cannot be used.
type ConfigError struct {
	Place string // FILE:LINE:COLUMN in a document, or FILE; "" where there is none
	Field string // as in a configuration file: state, profiles.small.files.scratch; "" is all of it
	Msg   string
	Hint  string // how to mend it; may be empty
	Err   error  // the cause; may be nil
}

// Error names the place, the field and the fault.
func (e *ConfigError) Error() string {
	text := "callcell: "
	for _, part := range []string{e.Place, e.Field} {
		if part != "" {
			text += part + ": "
		}
	}
	return text + e.Msg
}

// Unwrap returns the cause.
func (e *ConfigError) Unwrap() error { return e.Err }

// LoadConfig reads the configuration file at path as the commands do: an empty
// path is the default place, and no file there is the defaults; a file that
// others can write is refused. What it leaves out is as the commands have it:
// State is the host's, Helpers the directory of the running program. The fields
// of the Config that it returns can be changed; what has no field stays as the
// document says. An error is a *ConfigError.
func LoadConfig(path string) (Config, error) {
	return read(func(host config.Host) (*config.Config, error) { return config.Load(path, host) })
}

// ParseConfig is LoadConfig of a document in memory, of at most 1 MiB; name
// stands for its file in errors. The document is YAML; JSON is taken too, so
// that a program can marshal what it makes.
func ParseConfig(name string, text []byte) (Config, error) {
	return read(func(host config.Host) (*config.Config, error) { return config.Read(name, text, host) })
}

func read(load func(config.Host) (*config.Config, error)) (Config, error) {
	host, err := config.ThisHost()
	if err != nil {
		return Config{}, configError(err)
	}
	rest, err := load(host)
	if err != nil {
		return Config{}, configError(err)
	}
	return Config{
		State: rest.State, Helpers: rest.Helpers, Profiles: cloned(rest.Profiles), DefaultProfile: rest.DefaultProfile,
		Floors: maps.Clone(rest.Floors), Arguments: rest.Audit.Arguments, rest: rest,
	}, nil
}

// Warnings names every choice that widens what calls may touch or thins the
// record, in a line each, with its place where a document has it. An embedding
// program prints them when it starts: they are no errors.
func (c Config) Warnings() []string { return c.merged().Warnings() }

// merged is the document, or the defaults, with the fields over it.
func (c *Config) merged() *config.Config {
	conf := config.Default(config.Host{})
	floors := conf.Floors
	if c.rest != nil {
		*conf = *c.rest
	}
	conf.State, conf.Helpers = c.State, c.Helpers
	conf.DefaultProfile = cmp.Or(c.DefaultProfile, config.BuiltinProfile)
	conf.Audit.Arguments = cmp.Or(c.Arguments, config.ArgumentsKept)
	conf.Profiles = map[string]envelope.Envelope{config.BuiltinProfile: envelope.Default()}
	maps.Copy(conf.Profiles, cloned(c.Profiles))
	maps.Copy(floors, c.Floors)
	conf.Floors = floors
	return conf
}

func cloned(profiles map[string]envelope.Envelope) map[string]envelope.Envelope {
	out := make(map[string]envelope.Envelope, len(profiles))
	for name, profile := range profiles {
		out[name] = profile.Clone()
	}
	return out
}

// complete makes the configuration of a host out of c, and holds it to the same
// checks as one in a file.
func (c *Config) complete() (*config.Config, error) {
	conf := c.merged()
	if err := conf.Validate(); err != nil {
		fault := configError(err)
		fault.Place = "" // the fields of c are over the document
		return nil, fault
	}
	if err := helpersThere(c.Helpers); err != nil {
		return nil, err
	}
	return conf, nil
}

func configError(err error) *ConfigError {
	var fault *config.Error
	if !errors.As(err, &fault) {
		return &ConfigError{Msg: err.Error(), Err: err}
	}
	place := fault.File
	if fault.Pos.Line > 0 {
		place = fmt.Sprintf("%s:%d:%d", fault.File, fault.Pos.Line, fault.Pos.Column)
	}
	return &ConfigError{Place: place, Field: fault.Field, Msg: fault.Msg, Hint: fault.Hint, Err: err}
}

// openError is a house that cannot be opened, as a fault of the configuration:
// a log, of State.
func openError(err error) *ConfigError {
	var log *assembly.LogError
	if errors.As(err, &log) {
		return &ConfigError{Field: "state", Msg: log.Error(), Hint: log.Refusal().Hint, Err: err}
	}
	return configError(err)
}

// helpersThere finds out now what every call would be refused for. Away from
// Linux there are none.
func helpersThere(dir string) error {
	if runtime.GOOS != "linux" {
		return nil
	}
	for _, name := range []string{"callcell-launcher", "callcell-init"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err == nil && !info.Mode().IsRegular() {
			err = fmt.Errorf("%s is no file", name)
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("there is no %s in %s: %w", name, dir, fs.ErrNotExist)
		}
		if err != nil {
			return &ConfigError{Field: "helpers", Msg: err.Error(), Hint: "install both beside each other; make build puts them into bin", Err: err}
		}
	}
	return nil
}
