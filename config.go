package callcell

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/config"
)

// complete makes the configuration of a host out of c, and holds it to the same
// checks as one in a file.
func (c *Config) complete() (*config.Config, error) {
	conf := config.Default(config.Host{})
	conf.State, conf.Helpers = c.State, c.Helpers
	for name, profile := range c.Profiles {
		conf.Profiles[name] = profile.Clone()
	}
	maps.Copy(conf.Floors, c.Floors)
	if c.DefaultProfile != "" {
		conf.DefaultProfile = c.DefaultProfile
	}
	if c.Arguments != "" {
		conf.Audit.Arguments = c.Arguments
	}
	if err := conf.Validate(); err != nil {
		return nil, configError(err)
	}
	return conf, helpersThere(c.Helpers)
}

func configError(err error) error {
	var fault *config.Error
	if !errors.As(err, &fault) {
		return &ConfigError{Msg: err.Error(), Err: err}
	}
	return &ConfigError{Field: fault.Field, Msg: fault.Msg, Hint: fault.Hint, Err: err}
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

// watch tells Config.Warn.
type watch struct{ warn func(string) }

func (w watch) say(text string) {
	if w.warn != nil {
		w.warn(text)
	}
}

// Log implements assembly.LogWatch.
func (w watch) Log(text string) { w.say(text) }

// Leftover implements broker.Watch.
func (w watch) Leftover(id string, level envelope.Level, report envelope.Report) {
	for _, check := range report.Checks {
		if !check.Gone {
			w.say(fmt.Sprintf("call %s: left over at level %s: %s: %q", id, level, check.What, check.Note))
		}
	}
}

// Unrecorded implements broker.Watch.
func (w watch) Unrecorded(id string, err error) {
	w.say(fmt.Sprintf("call %s: its row could not be completed: %q", id, err.Error()))
}

// Panicked implements broker.Watch.
func (w watch) Panicked(id, step string, value any, _ []byte) {
	w.say(fmt.Sprintf("call %s: a failure of our own in %s: %q", id, step, fmt.Sprint(value)))
}
