package ignore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/project/ignore"
)

func TestGuardedInEverySpelling(t *testing.T) {
	for _, name := range []string{
		".git", ".git/config", ".git/hooks/pre-commit", ".GIT/config", "a/.Git/x", ".git./x", ".git /x", ".git . ./x", "git~1/x", "GIT~1", "sub/.git",
		".git::$INDEX_ALLOCATION/x", ".git:x", ".g\u200cit/config", ".\u2060git", ".G\u0130T", ".g\u0131t", ".git\u00ad/x", ".callcell/journal", ".CallCell", "a/.callcell",
	} {
		if ignore.Guarded(name) == "" {
			t.Errorf("%q may be written", name)
		}
	}
	for _, name := range []string{".gitignore", ".gitattributes", ".github/workflows/a.yml", "git", "a.git", ".gitx/a", "x.git/config", "git~10", ".callcellignore", "callcell/x"} {
		if why := ignore.Guarded(name); why != "" {
			t.Errorf("%q may not be written: %s", name, why)
		}
	}
}

func TestRulesAreBounded(t *testing.T) {
	r := ignore.New([]envelope.Ignore{{Rules: strings.Repeat("a*b\n", 2*ignore.MaxRules)}})
	if !r.Cut {
		t.Error("more than MaxRules, and nothing says so")
	}
	r = ignore.New([]envelope.Ignore{{Rules: strings.Repeat("*a", ignore.MaxRule)}})
	if !r.Cut || r.One(strings.Repeat("a", 200), false) {
		t.Error("a rule that is too long is used")
	}
	slow := ignore.New([]envelope.Ignore{{Rules: strings.Repeat("*a", ignore.MaxRule/2-1) + "b\n" + "x/" + strings.Repeat("**/a/", 60) + "b\n"}})
	began := time.Now()
	for range 100 {
		slow.One(strings.Repeat("a", 255), false)
		slow.One("x/"+strings.Repeat("a/", 60)+"c", false)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("200 names took %v", took)
	}
}
