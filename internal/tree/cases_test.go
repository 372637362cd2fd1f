package tree

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	casesPage  = "docs/cases.md"
	casesFiles = "internal/runtime/container/cases_"
	suiteDir   = "internal/cell/celltest" // its rows are those of every runtime's TestConformance
)

var (
	testRef    = regexp.MustCompile("`(Test[A-Z][A-Za-z0-9]*)(?:/([^`]+))?`")
	caseNumber = regexp.MustCompile(`^([0-9]+) \S`)
	tableCase  = regexp.MustCompile(`(?m)^\| ([0-9]+) \|`)
)

// A testIndex knows every test and every text in the directory of each.
type testIndex struct {
	dirs  map[string][]string // of a test's name
	texts map[string][]string // of a directory's tests
}

func indexTests(files []source) testIndex {
	x := testIndex{map[string][]string{}, map[string][]string{}}
	for _, s := range files {
		if !s.test() && s.dir() != suiteDir {
			continue
		}
		for _, decl := range s.ast.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				x.dirs[f.Name.Name] = append(x.dirs[f.Name.Name], s.dir())
			}
		}
		x.texts[s.dir()] = append(x.texts[s.dir()], s.strings()...)
	}
	return x
}

// strings are the string literals of a file.
func (s source) strings() (texts []string) {
	ast.Inspect(s.ast, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil {
				texts = append(texts, text)
			}
		}
		return true
	})
	return texts
}

// has reports whether there is a test of that name, with that row or with rows
// of that number.
func (x testIndex) has(name, row string) bool {
	dirs := x.dirs[name]
	if row == "" {
		return len(dirs) > 0
	}
	if name == "TestConformance" {
		dirs = append(slices.Clone(dirs), suiteDir)
	}
	return slices.ContainsFunc(dirs, func(dir string) bool {
		return slices.ContainsFunc(x.texts[dir], func(text string) bool { return text == row || strings.HasPrefix(text, row+" ") })
	})
}

// staleCases returns a line for every test that the page of cases names and
// that is not there, and for every row of a case that the page has not.
func staleCases(page string, files []source) (faults []string) {
	x := indexTests(files)
	for i, line := range strings.Split(page, "\n") {
		for _, m := range testRef.FindAllStringSubmatch(line, -1) {
			if !x.has(m[1], m[2]) {
				faults = append(faults, fmt.Sprintf("%s:%d: there is no test %s", casesPage, i+1, m[0]))
			}
		}
	}
	listed := map[string]bool{}
	for _, m := range tableCase.FindAllStringSubmatch(page, -1) {
		listed[m[1]] = true
	}
	for _, s := range files {
		if !strings.HasPrefix(s.name, casesFiles) {
			continue
		}
		for _, text := range s.strings() {
			if m := caseNumber.FindStringSubmatch(text); m != nil && !listed[m[1]] {
				faults = append(faults, fmt.Sprintf("%s: case %q is not in %s", s.name, text, casesPage))
			}
		}
	}
	return faults
}

func TestCasesPage(t *testing.T) {
	for _, f := range allFiles(t) {
		if f.name == casesPage {
			report(t, staleCases(string(f.data), sources(t)))
			return
		}
	}
	t.Error("there is no " + casesPage)
}

func TestCasesPageGoesRed(t *testing.T) {
	files := []source{
		plant(t, "a/a_test.go", "package a\nfunc TestA(t *T) { t.Run(\"one\", f); t.Run(\"7 seven\", f) }\nfunc (s) TestM() {}"),
		plant(t, "b/b_test.go", "package b\nfunc TestB(t *T) { t.Run(\"two\", f) }\nfunc TestConformance() {}"),
		plant(t, suiteDir+"/c.go", "package c\nvar rows = \"a row\""),
		plant(t, casesFiles+"x_linux_test.go", "package x\nvar rows = []string{\"1 first\", \"3 third\", \"12\"}"),
		plant(t, "c/c.go", "package c\nfunc TestNone() {}"),
	}
	page := "| 1 | x | `TestA` `TestA/one` `TestA/7` `TestConformance/a row` `Tests` |\n| 2 | x | `TestA/two` `TestA/on` `TestNone` `TestM` |\n`TestB/two` `TestB/one`"
	red(t, staleCases(page, files), "cases.md:2: there is no test `TestA/two`", "`TestA/on`", "`TestNone`", "`TestM`",
		"cases.md:3: there is no test `TestB/one`", `case "3 third" is not in`)
}
