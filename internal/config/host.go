package config

import (
	"os"
	"path/filepath"
)

// Host is what the defaults of a configuration depend on. It is read once, at
// the edge, so that nothing below it looks at the environment.
type Host struct {
	Root       bool   // whether the caller is root
	Home       string // of the caller
	ConfigHome string // $XDG_CONFIG_HOME where it is an absolute path
	StateHome  string // $XDG_STATE_HOME where it is an absolute path
	Executable string // path of the running binary
}

// ThisHost reads the environment of the running process.
func ThisHost() (Host, error) {
	executable, err := os.Executable()
	if err != nil {
		return Host{}, &Error{Msg: "cannot tell where the running binary is", Err: err}
	}
	if real, err := filepath.EvalSymlinks(executable); err == nil {
		executable = real
	}
	home, _ := os.UserHomeDir() // "" where nobody says: then there is no default place
	return Host{
		Root: os.Geteuid() == 0, Home: absolute(home), Executable: executable,
		ConfigHome: absolute(os.Getenv("XDG_CONFIG_HOME")), StateHome: absolute(os.Getenv("XDG_STATE_HOME")),
	}, nil
}

// absolute is path, or nothing: a relative path in XDG's variables is to be
// ignored, by their specification.
func absolute(path string) string {
	if !filepath.IsAbs(path) {
		return ""
	}
	return filepath.Clean(path)
}

// ConfigFile is the default place of the configuration, "" where there is
// none.
func (h Host) ConfigFile() string {
	if h.Root {
		return "/etc/callcell/callcell.yaml"
	}
	return below(h.ConfigHome, h.Home, ".config", "callcell/callcell.yaml")
}

// state is the default place of what outlives a call.
func (h Host) state() string {
	if h.Root {
		return "/var/lib/callcell"
	}
	return below(h.StateHome, h.Home, ".local/state", "callcell")
}

func below(base, home, dir, name string) string {
	switch {
	case base != "":
		return filepath.Join(base, name)
	case home != "":
		return filepath.Join(home, dir, name)
	}
	return ""
}
