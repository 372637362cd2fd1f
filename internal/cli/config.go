package cli

import (
	"encoding/json"
	"fmt"
)

// configCmd is "callcell config".
type configCmd struct {
	JSON bool `name:"json" help:"Print them as a JSON list of field, value and from."`
}

// Help is the long text of "callcell config --help".
func (*configCmd) Help() string {
	return `Prints each value that is in force and where it is from: "default", or the file, line and
column. Secrets are not in a configuration; the command that prints one is not shown. What
widens the surface is warned about on standard error.

  callcell config
  callcell config --json

Root's configuration is /etc/callcell/callcell.yaml, another user's is
~/.config/callcell/callcell.yaml, and --config FILE is instead of either. A small one:

  version: 1
  defaultProfile: small
  profiles:
    small: {resources: {memory: 64Mi, wall: 10s}}`
}

// Run prints the configuration in force, redacted.
func (c *configCmd) Run(a *app) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	for _, w := range cfg.Warnings() {
		a.say("warning: " + w)
	}
	if !c.JSON {
		return cfg.Print(a.out)
	}
	settings, err := cfg.Settings()
	if err != nil {
		return err
	}
	list := make([]setting, len(settings))
	for i, s := range settings {
		list[i] = setting{s.Field, json.RawMessage(s.Value), s.From}
	}
	return a.json(list, a.outTTY)
}

// setting is a config.Setting as JSON.
type setting struct {
	Field string          `json:"field"`
	Value json.RawMessage `json:"value"`
	From  string          `json:"from"`
}

// versionCmd is "callcell version".
type versionCmd struct {
	JSON bool `name:"json" help:"Print it as JSON."`
}

// Help is the long text of "callcell version --help".
func (*versionCmd) Help() string {
	return `  callcell version`
}

// Run prints the version.
func (c *versionCmd) Run(a *app) error {
	if c.JSON {
		return a.json(map[string]string{"version": a.version}, a.outTTY)
	}
	_, err := fmt.Fprintln(a.out, "callcell", a.version)
	return err
}
