package source

import (
	"path/filepath"
	"strings"

	"github.com/callcell/callcell/internal/config/guarded"
)

// commandSource is what a program writes.
type commandSource struct {
	argv []string
	home string
}

func (*commandSource) Kind() Kind    { return Command }
func (*commandSource) Group() string { return "" }
func (*commandSource) Field() string { return "" }

func openCommand(line, home string) (*commandSource, error) {
	argv, err := split(line)
	switch {
	case err != nil:
		return nil, &Fault{Command, Invalid, "the line cannot be split: " + err.Error(), "quote like in a shell"}
	case len(argv) == 0 || !filepath.IsAbs(argv[0]):
		return nil, &Fault{Command, Invalid, "the program is not named by its full path", "write it from / on; there is no shell and no search"}
	}
	return &commandSource{argv: argv, home: home}, nil
}

// environment is all that the program finds in its environment.
func (c *commandSource) environment(r Request) []string {
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "CALLCELL_CALL=" + r.Call}
	if c.home != "" {
		env = append(env, "HOME="+c.home)
	}
	if len(r.Scopes) > 0 {
		env = append(env, "CALLCELL_SCOPES="+strings.Join(r.Scopes, " "))
	}
	return env
}

// check holds the program to the rules for files that are obeyed.
func (c *commandSource) check() error {
	file, err := guarded.Open(c.argv[0])
	if err != nil {
		fault := fileFault(err)
		fault.Kind = Command
		if fault.Reason == Absent {
			fault.Msg, fault.Hint = "there is no such program", "install it"
		}
		return fault
	}
	return file.Close()
}
