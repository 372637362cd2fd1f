package tree

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// longVariable is what makes tests take minutes; in two, so that this file does
// not find itself.
const longVariable = "CALLCELL" + "_LONG"

// asksForLong finds the tests that do more where CALLCELL_LONG is set, by the
// directory of their package: those that name the variable, and those that use
// a function or method that does, at any distance, by its name. What names the
// variable outside of a function is a fault: nobody could tell who uses it.
func asksForLong(files []source) (found map[string][]string, faults []string) {
	uses := map[string]map[string][]string{} // directory, function, names in it
	for _, s := range files {
		if !s.test() {
			continue
		}
		for _, decl := range s.ast.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok {
				if slices.Contains(namesIn(decl), longVariable) {
					faults = append(faults, fmt.Sprintf("%s:%d: %s is asked for outside of a function", s.name, s.line(decl.Pos()), longVariable))
				}
				continue
			}
			if uses[s.dir()] == nil {
				uses[s.dir()] = map[string][]string{}
			}
			uses[s.dir()][f.Name.Name] = append(uses[s.dir()][f.Name.Name], namesIn(f)...)
		}
	}
	found = map[string][]string{}
	for dir, funcs := range uses {
		asks := reaching(funcs, longVariable)
		for _, name := range slices.Sorted(maps.Keys(asks)) {
			if strings.HasPrefix(name, "Test") {
				found[dir] = append(found[dir], name)
			}
		}
	}
	return found, faults
}

// namesIn are the identifiers of a declaration, and the name of the variable
// where one of its strings is it.
func namesIn(decl ast.Decl) (names []string) {
	ast.Inspect(decl, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			names = append(names, n.Name)
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil && text == longVariable {
				names = append(names, text)
			}
		}
		return true
	})
	return names
}

// reaching are the functions that come to a name, at any distance.
func reaching(funcs map[string][]string, name string) map[string]bool {
	asks := map[string]bool{}
	for before := -1; before < len(asks); {
		before = len(asks)
		for f, names := range funcs {
			if slices.ContainsFunc(names, func(n string) bool { return n == name || n != f && asks[n] }) {
				asks[f] = true
			}
		}
	}
	return asks
}

// longList returns a line for every test or package that the Makefile's lists
// lack, and for every one in them that does not ask.
func longList(files []source, makefile string) (faults []string) {
	found, faults := asksForLong(files)
	tests, packages := strings.Fields(variable(makefile, "LONG_TESTS")), strings.Fields(variable(makefile, "LONG_PACKAGES"))
	var asking []string
	for _, dir := range slices.Sorted(maps.Keys(found)) {
		if len(found[dir]) == 0 {
			continue
		}
		if !slices.Contains(packages, "./"+dir) {
			faults = append(faults, fmt.Sprintf("%s: LONG_PACKAGES of the Makefile lacks it: %s asks for %s", dir, found[dir][0], longVariable))
		}
		for _, name := range found[dir] {
			if asking = append(asking, name); !slices.Contains(tests, name) {
				faults = append(faults, fmt.Sprintf("%s: LONG_TESTS of the Makefile lacks %s", dir, name))
			}
		}
	}
	for _, name := range tests {
		if !slices.Contains(asking, name) {
			faults = append(faults, fmt.Sprintf("LONG_TESTS of the Makefile has %s, which does not ask for %s", name, longVariable))
		}
	}
	for _, name := range packages {
		if len(found[strings.TrimPrefix(name, "./")]) == 0 {
			faults = append(faults, fmt.Sprintf("LONG_PACKAGES of the Makefile has %s, where no test asks for %s", name, longVariable))
		}
	}
	return faults
}

// TestLongList: `make test-long` runs what is longer there, and all of it.
func TestLongList(t *testing.T) {
	report(t, longList(sources(t), makefile(t)))
}

func TestLongListGoesRed(t *testing.T) {
	const text = "package a\nimport \"os\"\n" +
		"func long() bool { return os.Getenv(\"CALLCELL_LONG\") != \"\" }\n" +
		"func count() int {\n\tif long() {\n\t\treturn 2\n\t}\n\treturn 1\n}\n" +
		"func (h house) fill() { h.put(count()) }\n" +
		"func TestFar(t T) { house{}.fill() }\n" +
		"func TestNear(t T) { t.Log(long()) }\n" +
		"func TestShort(t T) { t.Log(\"CALLCELL_LONG is not asked for\") }\n"
	files := []source{
		plant(t, "a/a_test.go", text),
		plant(t, "a/b_test.go", "package a_test\nfunc TestHere(t T) { os.LookupEnv(`CALLCELL_LONG`) }\n"),
		plant(t, "b/a_test.go", "package b\nfunc TestElsewhere(t T) { long() }\n"),
		plant(t, "c/a_test.go", "package c\nfunc TestNear(t T) { os.Getenv(\"CALLCELL_LONG\") }\n"),
		plant(t, "d/a_test.go", "package d\n\nvar long = os.Getenv(\"CALLCELL_LONG\")\n"),
	}
	const outside = "d/a_test.go:3: CALLCELL_LONG is asked for outside of a function"
	red(t, longList(files, "LONG_TESTS := TestFar TestHere \\\n\tTestNear\nLONG_PACKAGES := ./a ./c\n"), outside)
	red(t, longList(files, "LONG_TESTS := TestFar TestNear TestShort TestElsewhere\nLONG_PACKAGES := ./a ./b\n"), outside,
		"a: LONG_TESTS of the Makefile lacks TestHere", "c: LONG_PACKAGES of the Makefile lacks it",
		"has TestShort, which does not ask", "has TestElsewhere, which does not ask", "has ./b, where no test asks")
}
