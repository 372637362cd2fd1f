package tree

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	casesPage = "docs/cases.md"
	suiteDir  = "internal/cell/celltest" // its rows are those of every runtime's TestConformance
)

// casesFiles are those whose rows have the numbers of the page.
func casesFiles() []string {
	return []string{"internal/runtime/container/cases_", "internal/e2e/cases_", "internal/egress/fetch/cases_"}
}

var (
	testRef    = regexp.MustCompile("`((?:Test|Benchmark|Fuzz)[A-Z][A-Za-z0-9]*)(?:/([^`]+))?`")
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
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && testRef.MatchString("`"+f.Name.Name+"`") {
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

// staleNames returns a line for every test, benchmark and fuzz target that a
// page names and that is not there.
func staleNames(pages []file, files []source) (faults []string) {
	x := indexTests(files)
	for _, page := range pages {
		for i, line := range strings.Split(string(page.data), "\n") {
			for _, m := range testRef.FindAllStringSubmatch(line, -1) {
				if !x.has(m[1], m[2]) {
					faults = append(faults, fmt.Sprintf("%s:%d: there is no test %s", page.name, i+1, m[0]))
				}
			}
		}
	}
	return faults
}

// staleCases returns a line for every row of a case that the page has not, and
// for every case that the page has twice.
func staleCases(page string, files []source) (faults []string) {
	listed := map[string]bool{}
	for _, m := range tableCase.FindAllStringSubmatch(page, -1) {
		if listed[m[1]] {
			faults = append(faults, fmt.Sprintf("%s: case %s has two rows", casesPage, m[1]))
		}
		listed[m[1]] = true
	}
	for _, s := range files {
		if !slices.ContainsFunc(casesFiles(), func(at string) bool { return strings.HasPrefix(s.name, at) }) {
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
	pages := slices.DeleteFunc(slices.Clone(allFiles(t)), func(f file) bool { return path.Ext(f.name) != ".md" })
	report(t, staleNames(pages, sources(t)))
	for _, f := range pages {
		if f.name == casesPage {
			report(t, staleCases(string(f.data), sources(t)))
			return
		}
	}
	t.Error("there is no " + casesPage)
}

func TestCasesPageGoesRed(t *testing.T) {
	files := []source{
		plant(t, "a/a_test.go", "package a\nfunc TestA(t *T) { t.Run(\"one\", f); t.Run(\"7 seven\", f) }\nfunc (s) TestM() {}\nfunc BenchmarkA() {}"),
		plant(t, "b/b_test.go", "package b\nfunc TestB(t *T) { t.Run(\"two\", f) }\nfunc TestConformance() {}"),
		plant(t, suiteDir+"/c.go", "package c\nvar rows = \"a row\""),
		plant(t, casesFiles()[0]+"x_linux_test.go", "package x\nvar rows = []string{\"1 first\", \"3 third\", \"12\"}"),
		plant(t, casesFiles()[1]+"x_linux_test.go", "package x\nvar rows = []string{\"4 fourth\"}"),
		plant(t, "c/c.go", "package c\nfunc TestNone() {}"),
	}
	page := "| 1 | x | `TestA` `TestA/one` `TestA/7` `TestConformance/a row` `Tests` |\n| 2 | x | `TestA/two` `TestA/on` `TestNone` `TestM` |\n`TestB/two` `TestB/one`\n| 1 | again |"
	red(t, staleNames([]file{{casesPage, []byte(page)}, {"x.md", []byte("`BenchmarkA` `BenchmarkB` `FuzzA`")}}, files),
		"cases.md:2: there is no test `TestA/two`", "`TestA/on`", "`TestNone`", "`TestM`", "cases.md:3: there is no test `TestB/one`",
		"x.md:1: there is no test `BenchmarkB`", "x.md:1: there is no test `FuzzA`")
	red(t, staleCases(page, files), "case 1 has two rows", `case "3 third" is not in`, `case "4 fourth" is not in`)
}
