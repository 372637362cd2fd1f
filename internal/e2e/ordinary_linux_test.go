package e2e_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/callcell/callcell/internal/launcher/template"
	"github.com/callcell/callcell/internal/testing/helpers"
	"github.com/callcell/callcell/internal/testing/world"
)

// pipHere and npmHere are what installs packages on this host.
const (
	pipHere = "/usr/lib/python3/dist-packages/pip"
	npmHere = "/usr/bin/npm"
)

// A tree is what an image of this host's programs is made of.
type tree struct {
	programs, dirs []string
	more           map[string]string // texts, and links, by name
}

// ordinaryTree is a root with the programs of the tests, as a tar stream.
func ordinaryTree() ([]byte, error) {
	t := &tree{programs: []string{"/bin/bash", "/bin/sh", "/usr/lib/git-core/git-remote-http", "/usr/lib/git-core/git-remote-https"},
		dirs: []string{"/usr/lib/locale/C.utf8"}, more: map[string]string{}}
	for _, name := range []string{"awk", "base64", "bash", "cat", "chmod", "cp", "curl", "cut", "date", "dd", "env", "find", "getent", "git", "git-upload-pack", "grep", "gzip", "head", "hostname", "id", "ln", "ls", "mkdir", "mkfifo", "mv", "node",
		"openssl", "printf", "python3", "readlink", "rm", "sed", "seq", "setsid", "sha256sum", "sleep", "sort", "stat", "tail", "tar", "test", "timeout", "touch", "tr", "true", "wc", "wget", "xargs", "yes"} {
		t.programs = append(t.programs, "/usr/bin/"+name)
	}
	for _, f := range template.Files() {
		t.more[f.Name] = f.Text
	}
	for _, add := range []func() error{t.addPython, t.addNPM, t.addApt} {
		if err := add(); err != nil {
			return nil, err
		}
	}
	return helpers.Tree(t.programs, t.dirs, t.more)
}

// addPython adds Python's library, and pip.
func (t *tree) addPython() error {
	libraries, err := filepath.Glob("/usr/lib/python3*/lib-dynload/*.so")
	if err != nil {
		return err
	}
	dirs, err := filepath.Glob("/usr/lib/python3.*")
	if err != nil {
		return err
	}
	if _, err := os.Stat(pipHere); err == nil {
		dirs = append(dirs, pipHere)
	}
	t.programs, t.dirs = append(t.programs, libraries...), append(t.dirs, dirs...)
	return nil
}

// addNPM adds npm, which is a directory with links in it, where there is one.
func (t *tree) addNPM() error {
	at, err := filepath.EvalSymlinks(npmHere)
	if err != nil {
		return nil // a test that needs it says so
	}
	dir := filepath.Dir(filepath.Dir(at))
	if filepath.Dir(dir) == "/usr/share/nodejs" { // Debian's: what it needs is beside it
		dir = filepath.Dir(dir)
	}
	t.dirs, t.more[npmHere[1:]] = append(t.dirs, dir), "-> "+at
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.Type() != fs.ModeSymlink {
			return err
		}
		to, err := os.Readlink(path)
		t.more[path[1:]] = "-> " + to
		return err
	})
}

// addApt adds the tools of Debian's packages, and a list of the world's.
func (t *tree) addApt() error {
	methods, err := filepath.Glob("/usr/lib/apt/methods/*")
	if err != nil {
		return err
	}
	methods = slices.DeleteFunc(methods, func(path string) bool { return strings.Contains(filepath.Base(path), "+") })
	t.dirs = append(t.dirs, "/usr/share/dpkg")
	t.programs = append(append(t.programs, "/usr/bin/apt-get", "/usr/bin/dpkg", "/usr/bin/dpkg-deb"), methods...)
	t.more["etc/apt/sources.list"], t.more["var/lib/dpkg/status"] = world.DebianSource, ""
	return nil
}
