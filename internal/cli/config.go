package cli

import "fmt"

// configCmd is "callcell config".
type configCmd struct{}

// Run prints the configuration in force, redacted.
func (*configCmd) Run(a *app) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	for _, w := range cfg.Warnings() {
		fmt.Fprintln(a.err, "warning:", w)
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
