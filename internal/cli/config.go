package cli

import "fmt"

// configCmd is "callcell config".
type configCmd struct{}

// Help is the long text of "callcell config --help".
func (*configCmd) Help() string {
	return `Prints each value that is in force and where it is from: "default", or the file, line and
column. Secrets are not in a configuration; the command that prints one is not shown. What
widens the surface is warned about on standard error.

Root's configuration is /etc/callcell/callcell.yaml, another user's is
~/.config/callcell/callcell.yaml, and --config FILE is instead of either. A small one:

  version: 1
  defaultProfile: small
  profiles:
    small: {resources: {memory: 64Mi, wall: 10s}}`
}

// Run prints the configuration in force, redacted.
func (*configCmd) Run(a *app) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	for _, w := range cfg.Warnings() {
		a.say("warning: " + w)
	}
	return cfg.Print(a.out)
}

// versionCmd is "callcell version".
type versionCmd struct{}

// Run prints the version.
func (*versionCmd) Run(a *app) error {
	_, err := fmt.Fprintln(a.out, "callcell", a.version)
	return err
}
