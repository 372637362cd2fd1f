package ignore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/project/ignore"
	"github.com/callcell/callcell/internal/testing/spent"
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
	before := spent.CPU()
	for range 100 {
		slow.One(strings.Repeat("a", 255), false)
		slow.One("x/"+strings.Repeat("a/", 60)+"c", false)
	}
	if took := spent.CPU() - before; took > 5*time.Second {
		t.Errorf("200 names took %v", took)
	}
}

// TestMatchingIsBounded: each rule is bounded and so is their number, and names
// come by the hundred thousand.
func TestMatchingIsBounded(t *testing.T) {
	deep := strings.Repeat("d", 250) + "/" + strings.Repeat("e", 250)
	var dirs []envelope.Ignore
	for range ignore.MaxRules {
		dirs = append(dirs, envelope.Ignore{Dir: deep, Rules: "x"})
	}
	for name, rules := range map[string][]envelope.Ignore{
		"stars":       {{Rules: strings.Repeat(strings.Repeat("*a", 200)+"b\n", ignore.MaxRules)}},
		"classes":     {{Rules: strings.Repeat("*"+strings.Repeat("[a-b]", 90)+"c\n", ignore.MaxRules)}},
		"open class":  {{Rules: strings.Repeat("*["+strings.Repeat("a", 500)+"\n", ignore.MaxRules)}},
		"named class": {{Rules: strings.Repeat("*"+strings.Repeat("[[:alpha:]]", 40)+"1\n", ignore.MaxRules)}},
		"paths":       {{Rules: strings.Repeat("x/"+strings.Repeat("**/a/", 80)+"b\n", ignore.MaxRules)}},
		"directories": dirs,
	} {
		t.Run(name, func(t *testing.T) {
			all, m := ignore.New(rules), ignore.NewMeter(ignore.Work/32)
			began, n := time.Now(), 0
			for ; n < 10_000 && !m.Over(); n++ {
				all.Says("x/"+strings.Repeat("a/", 30)+strings.Repeat("a", 250), false, m)
				all.Says(deep+"e/"+strings.Repeat("a", 250), false, m)
			}
			if !m.Over() {
				t.Errorf("%d names are looked at", n)
			}
			t.Logf("%d names, %v", n, time.Since(began))
		})
	}
}

// TestUsualTreesAreWithinTheBound: a hundred thousand files, and rules as people
// write them.
func TestUsualTreesAreWithinTheBound(t *testing.T) {
	rules := strings.Repeat("node_modules/\n*.o\n/build\n*.py[cod]\n.env*\ndoc/**/gen\n!keep\n*~\n.DS_Store\n**/target\n", 20)
	w := ignore.New([]envelope.Ignore{{Rules: rules}}).Walk()
	for i := range 100_000 {
		w.File("src/internal/package" + string(rune('a'+i%26)) + "/some_file_name_of_usual_length.go")
	}
	if w.Over() {
		t.Error("it is not")
	}
}
