package tree

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// A ban is a text that must not be in any file.
type ban struct {
	text   *regexp.Regexp
	except []string // files, or directories that end in /
	why    string
}

// bans are put together from pieces, so that this file does not hold what it
// looks for.
func bans() []ban {
	hosts := []string{"proxy.golang" + ".org", "sum.golang" + ".org", "registry.npmjs" + ".org", "pypi" + ".org", "files.pythonhosted" + ".org",
		"crates" + ".io", "deb.debian" + ".org", "archive.ubuntu" + ".com", "repo1.maven" + ".org", "repo.maven.apache" + ".org"}
	return []ban{
		{regexp.MustCompile(`\b(` + "TO" + "DO|FIX" + "ME|X" + "XX" + `)\b`), nil,
			"open work is a line of ROUGH_EDGES.md"},
		{regexp.MustCompile(`(^|[^\w.~$})-])/(` + "work/(main|shared|[.])|root/(go|[.])|home/[a-z]" + `)`), nil,
			"a path of one machine"},
		{regexp.MustCompile(strings.ReplaceAll(strings.Join(hosts, "|"), ".", `\.`)), []string{"go.sum"},
			"which registry serves a dependency is the machine's to say"},
	}
}

// banned returns a line for every line of a file that has a text it must not.
func banned(files []file, list []ban) (faults []string) {
	for _, b := range list {
		for _, f := range files {
			if b.excepts(f.name) || !b.text.Match(f.data) {
				continue
			}
			for i, line := range strings.Split(string(f.data), "\n") {
				if found := b.text.FindString(line); found != "" {
					faults = append(faults, fmt.Sprintf("%s:%d: %q: %s", f.name, i+1, found, b.why))
				}
			}
		}
	}
	return faults
}

func (b ban) excepts(name string) bool {
	for _, e := range b.except {
		if name == e || strings.HasSuffix(e, "/") && strings.HasPrefix(name, e) {
			return true
		}
	}
	return false
}

func TestText(t *testing.T) { report(t, banned(textFiles(t), bans())) }

func TestTextGoesRed(t *testing.T) {
	red(t, banned([]file{
		{"a.go", []byte("ok\n// TO" + "DO: x\nfunc mastodon() {} // X" + "X" + "XX\n")},
		{"b.go", []byte("\"/ho" + "me/ann/x\"\n$HOME/home/x\n./work/main\nread /wo" + "rk/main\n/homework/x /root /work/left\n/ro" + "ot/.cache\n")},
		{"go.sum", []byte("pypi" + ".org")},
		{"c.md", []byte("see https://pypi" + ".org/x")},
		{"d/e.md", []byte("pypi-org")},
	}, bans()), "a.go:2: ", "b.go:1: ", "b.go:4: ", "b.go:6: ", "c.md:1: ")
}

// modFaults returns a line for every directive that go.mod must not have.
func modFaults(mod string) (faults []string) {
	for i, line := range strings.Split(mod, "\n") {
		word, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "replace", "exclude", "toolchain":
			faults = append(faults, fmt.Sprintf("go.mod:%d: %s: what is built here is what everybody builds", i+1, word))
		}
	}
	return faults
}

func TestGoMod(t *testing.T) {
	for _, f := range allFiles(t) {
		if f.name == "go.mod" {
			report(t, modFaults(string(f.data)))
			return
		}
	}
	t.Error("there is no go.mod")
}

func TestGoModGoesRed(t *testing.T) {
	red(t, modFaults("module x\ngo 1.26.0\ntoolchain go1.26.8\nrequire a v1.0.0\nreplace a => ../a\nexclude (\n\ta v1.1.0\n)\n"),
		"go.mod:3: toolchain", "go.mod:5: replace", "go.mod:6: exclude")
}
