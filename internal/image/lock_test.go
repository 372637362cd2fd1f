package image

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

var sum = strings.Repeat("ab", 32)

func TestLockChanges(t *testing.T) {
	a := &Lock{Version: 1, Base: "host", Pip: []Locked{{"numpy", "1.0", sum}, {"six", "1.1", sum}}, Added: "sha256:" + sum}
	b := &Lock{Version: 1, Base: "host", Pip: []Locked{{"numpy", "1.1", sum}, {"toml", "2", sum}}, Added: "x"}
	want := []string{"pip: numpy 1.0 -> 1.1", "pip: + toml 2", "pip: - six 1.1"}
	if got := b.Changes(a); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := a.Changes(a); len(got) != 0 {
		t.Errorf("nothing changed: %q", got)
	}
	c := *a
	c.Added = "sha256:" + strings.Repeat("cd", 32)
	if got := c.Changes(a); len(got) != 1 || !strings.HasPrefix(got[0], "content: ") {
		t.Errorf("the content: %q", got)
	}
}

func TestParseLockRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"no lock":        `[]`,
		"version":        `{"version":2,"base":"host"}`,
		"unknown key":    `{"version":1,"base":"host","gem":[]}`,
		"more":           `{"version":1,"base":"host"} {}`,
		"a brace more":   `{"version":1,"base":"host"}}`,
		"a bracket":      `{"version":1,"base":"host"}]`,
		"a flag":         `{"version":1,"base":"host","pip":[{"name":"--index-url","version":"1","sha256":"` + sum + `"}]}`,
		"a second line":  `{"version":1,"base":"host","pip":[{"name":"six","version":"1\n--index-url x","sha256":"` + sum + `"}]}`,
		"a long name":    `{"version":1,"base":"host","pip":[{"name":"` + strings.Repeat("a", 215) + `","version":"1","sha256":"` + sum + `"}]}`,
		"a long version": `{"version":1,"base":"host","pip":[{"name":"six","version":"` + strings.Repeat("1", 129) + `","sha256":"` + sum + `"}]}`,
		"half a sum":     `{"version":1,"base":"host","pip":[{"name":"six","version":"1","sha256":"` + sum[:32] + `"}]}`,
		"no sum":         `{"version":1,"base":"host","pip":[{"name":"six","version":"1","sha256":""}]}`,
	} {
		var fault *Error
		if _, err := ParseLock([]byte(text)); !errors.As(err, &fault) || fault.Hint == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzParseLock: what is accepted is one line of pip's for each package, and no
// word of it is a flag.
func FuzzParseLock(f *testing.F) {
	good, err := json.Marshal(Lock{Version: 1, Base: "host", Pip: []Locked{{"six", "1.16.0", sum}}})
	must2(f, err)
	f.Add(good)
	f.Add([]byte(`{"version":1,"base":"host"}}`))
	f.Add([]byte(`{"version":1,"base":"host","pip":[{"name":"a\u000ab","version":"1","sha256":""}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := ParseLock(text)
		if err != nil {
			if l != nil {
				t.Error("a lock beside an error")
			}
			return
		}
		lines := strings.Split(strings.TrimSuffix(l.requirements(), "\n"), "\n")
		if len(l.Pip) > 0 && len(lines) != len(l.Pip) || strings.HasPrefix(l.requirements(), "-") || strings.Contains(l.requirements(), "\n-") {
			t.Errorf("%q", l.requirements())
		}
	})
}

func must2(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// FuzzPipReport: what comes out of a cell is packages or an error.
func FuzzPipReport(f *testing.F) {
	f.Add([]byte(pipText))
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := pipReport(text)
		if err == nil && checkLocked(list) != nil {
			t.Errorf("%+v", list)
		}
	})
}

func TestBuildRefusesNamesThatAreFlags(t *testing.T) {
	for _, o := range []BuildOptions{
		{Pip: []string{"--index-url=https://x.test"}}, {Pip: []string{"six\n--pre"}}, {Pip: []string{"git+https://x.test/a"}},
		{Pip: []string{"./local"}}, {NPM: []string{"--registry=x"}}, {NPM: []string{"a;b"}}, {NPM: []string{"../x"}}, {Apt: []string{"x"}}, {},
		{Run: []string{"true"}, Base: &Record{Name: "build:x", Added: "sha256:" + sum}},
		{Pip: []string{"six"}, Lock: &Lock{Base: "oci:x"}},
	} {
		o.Name = "x"
		var fault *Error
		if _, err := PlanBuild(o); !errors.As(err, &fault) || fault.Kind != KindSource {
			t.Errorf("%+v: %v", o, err)
		}
	}
	for _, good := range []BuildOptions{
		{Pip: []string{"six", "numpy>=1.2,<3", "requests[socks]==2.31.0", "torch==2.1.0+cpu"}}, {NPM: []string{"@scope/pkg@1.2.3", "left-pad", "a@^2"}},
	} {
		good.Name = "x"
		if _, err := PlanBuild(good); err != nil {
			t.Errorf("%+v: %v", good, err)
		}
	}
}

// TestScriptsAreScripts: the shell reads each, and the words of a user are
// words.
func TestScriptsAreScripts(t *testing.T) {
	for name, o := range map[string]BuildOptions{
		"pip": {Pip: []string{"six"}, PipIndex: "https://x.test/a'b $(touch /tmp/x)"}, "npm": {NPM: []string{"a"}, NPMRegistry: "https://x.test/"},
		"apt": {Apt: []string{"jq"}, Base: &Record{Name: "oci:x"}}, "run": {Run: []string{"echo 'hi' # not the end"}, CA: []byte("x")}, "lock": {Pip: []string{"six"}, NPM: []string{"a"}, Lock: &Lock{Base: "host"}},
	} {
		cmd := exec.Command("/bin/sh", "-n")
		cmd.Stdin = strings.NewReader(o.script())
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v %s\n%s", name, err, out, o.script())
		}
		if o.PipIndex != "" && !strings.Contains(o.script(), `'https://x.test/a'\''b $(touch /tmp/x)'`) {
			t.Errorf("%s", o.script())
		}
	}
}

// TestNPMLockHasItsOwnPackage: npm ci wants the package.json that the lock was
// made for.
func TestNPMLockHasItsOwnPackage(t *testing.T) {
	if got := rootPackage([]byte(`{"packages":{"":{"dependencies":{"a":"1.0.0"}},"node_modules/a":{"version":"1.0.0"}}}`)); got != `{"dependencies":{"a":"1.0.0"}}`+"\n" {
		t.Errorf("%s", got)
	}
	if got := rootPackage([]byte(`nothing`)); got != "{}\n" {
		t.Errorf("%s", got)
	}
}

func TestRecordsAreHeldToTheirRules(t *testing.T) {
	x := NewIndex(t.TempDir())
	for name, r := range map[string]*Record{
		"version": {Name: "host"}, "name": {Version: 1, Name: "../x"}, "digest": {Version: 1, Name: "host", Tree: "sha256:" + strings.Repeat("AB", 32)},
	} {
		if x.Put(r) == nil {
			t.Errorf("%s: it is recorded", name)
		}
	}
	r := &Record{Version: 1, Name: "oci:x:1", Tree: "sha256:" + sum}
	must(t, x.Put(r))
	must(t, os.WriteFile(x.file("oci:y:1"), []byte(`{"version":1,"name":"oci:x:1","bytes":0,"entries":0,"made":"2026-01-01T00:00:00Z"}`), 0o600))
	if _, err := x.Get("oci:y:1"); err == nil {
		t.Error("a record under the name of another")
	}
	if list, err := x.List(); err != nil || len(list) != 2 {
		t.Errorf("%v, %v", list, err)
	}
	text, err := os.ReadFile(x.file("oci:x:1"))
	must(t, err)
	for _, more := range []string{"}", "]", "{}", "x", "\x00"} {
		must(t, os.WriteFile(x.file("oci:x:1"), append(text, more...), 0o600))
		if _, err := x.Get("oci:x:1"); err == nil {
			t.Errorf("a record, and after it %q", more)
		}
	}
}

// TestWhatACellSaysIsCutInErrors: a fault of megabytes is told in a line.
func TestWhatACellSaysIsCutInErrors(t *testing.T) {
	long := strings.Repeat("\x1b", 1<<20)
	text, err := json.Marshal(map[string]any{"install": []any{map[string]any{"metadata": map[string]string{"name": long, "version": long}}}})
	must2(t, err)
	_, pip := pipReport(text)
	_, deb := debReport([]byte(long + "\n"))
	_, oci := pulled("oci:x", "x", []byte(`{"digest":"`+strings.Repeat("x", 1<<20)+`"}`))
	for _, err := range []error{pip, deb, oci} {
		if err == nil || len(err.Error()) > 4096 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
	}
}
