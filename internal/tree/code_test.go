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

// sleeps returns a line for every test that sleeps. In a bubble of
// testing/synctest time is not real, so a file with one may.
func sleeps(files []source) (faults []string) {
	for _, s := range files {
		if !s.test() || s.imports("testing/synctest") {
			continue
		}
		ast.Inspect(s.ast, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "Sleep" && fmt.Sprint(sel.X) == "time" {
				faults = append(faults, fmt.Sprintf("%s:%d: a test sleeps: wait for what it waits for, or inject the clock", s.name, s.line(n.Pos())))
			}
			return true
		})
	}
	return faults
}

func (s source) imports(pkg string) bool {
	return slices.ContainsFunc(s.ast.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == strconv.Quote(pkg) })
}

func TestSleeps(t *testing.T) { report(t, sleeps(sources(t))) }

func TestSleepsGoRed(t *testing.T) {
	text := "package a\nimport \"time\"\nfunc f() {\n\ttime.Sleep(1)\n}\n"
	red(t, sleeps([]source{
		plant(t, "a_test.go", text), plant(t, "a.go", text),
		plant(t, "b_test.go", strings.Replace(text, "import", "import \"testing/synctest\"\nimport", 1)),
	}), "a_test.go:4: a test sleeps")
}

// keptState lists the variables at package level that may be, as "path:name",
// with the reason.
func keptState() map[string]string {
	return map[string]string{
		"cmd/callcell/main.go:version":                       "set by the linker",
		"internal/launcher/seccomp/refused.go:refusals":      "a table that nothing writes; a function would build it for every cell",
		"internal/launcher/seccomp/profile_other.go:profile": "stands for the generated table where there is none",
		"internal/launcher/seccomp/gen/moby.go:kernel":       "a constant of a struct type",
		"runsc/internal/cell/reach.go:tracePoints":           "gVisor's, reached by go:linkname",
		"runsc/internal/cell/reach.go:neverSpin":             "gVisor's, reached by go:linkname",
		"runsc/internal/filters/register.go:programs":        "gVisor's, reached by go:linkname",
	}
}

// state returns a line for every variable at package level that is not an
// error, a compiled regular expression, an embedded file, a check of an
// interface, or in the list. A table is a function that returns it.
func state(files []source, allowed map[string]string) (faults []string) {
	for _, s := range files {
		if s.test() || s.generated() {
			continue
		}
		for _, decl := range s.ast.Decls {
			if vars, ok := decl.(*ast.GenDecl); ok && vars.Tok == token.VAR {
				faults = append(faults, s.variables(vars, allowed)...)
			}
		}
	}
	return faults
}

func (s source) variables(vars *ast.GenDecl, allowed map[string]string) (faults []string) {
	for _, spec := range vars.Specs {
		v, ok := spec.(*ast.ValueSpec)
		if !ok || embedded(v.Doc) || embedded(vars.Doc) {
			continue
		}
		for i, name := range v.Names {
			if name.Name == "_" || len(v.Values) == len(v.Names) && constantCall(v.Values[i]) || allowed[s.name+":"+name.Name] != "" {
				continue
			}
			faults = append(faults, fmt.Sprintf("%s:%d: var %s is state of the package: hand it in, or return it from a function", s.name, s.line(name.Pos()), name.Name))
		}
	}
	return faults
}

func embedded(doc *ast.CommentGroup) bool {
	return doc != nil && slices.ContainsFunc(doc.List, func(c *ast.Comment) bool { return strings.HasPrefix(c.Text, "//go:embed ") })
}

// constantCall reports whether a value is made once and never changes.
func constantCall(value ast.Expr) bool {
	call, ok := value.(*ast.CallExpr)
	if !ok {
		return false
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	switch fmt.Sprint(sel.X) + "." + sel.Sel.Name {
	case "errors.New", "fmt.Errorf", "regexp.MustCompile", "netip.MustParsePrefix", "netip.MustParseAddr",
		"sync.OnceValue": // the same, made when it is first needed
		return true
	}
	return false
}

func TestState(t *testing.T) {
	report(t, state(sources(t), keptState()))
	for _, where := range slices.Sorted(maps.Keys(keptState())) {
		if keptState()[where] == "" {
			t.Errorf("%s: no reason", where)
		}
	}
}

func TestStateGoesRed(t *testing.T) {
	text := `package a
import ("errors"; "regexp"; _ "embed")
var ErrA = errors.New("a")
var (
	re = regexp.MustCompile("a")
	_ I = T{}
	//go:embed a.txt
	text string
)
var table = map[string]int{}
var a, b int
var version = "dev"
func f() { var local int; _ = local }
`
	red(t, state([]source{plant(t, "a.go", text), plant(t, "a_test.go", text)}, map[string]string{"a.go:version": "linker"}),
		"a.go:10: var table", "a.go:11: var a", "a.go:11: var b")
}

// barren returns a line for every fuzz target without a seed: without f.Add
// and without a file in testdata/fuzz. One that takes its seeds from a listing
// must fail where the listing is empty.
func barren(files []source, names []string) (faults []string) {
	for _, s := range files {
		if !s.test() {
			continue
		}
		for _, decl := range s.ast.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(f.Name.Name, "Fuzz") || f.Recv != nil || f.Body == nil {
				continue
			}
			calls := calledIn(f)
			corpus := s.dir() + "/testdata/fuzz/" + f.Name.Name + "/"
			found := slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, corpus) })
			listed := calls["Glob"] || calls["ReadDir"] || calls["WalkDir"]
			switch {
			case !found && !calls["Add"]:
				faults = append(faults, fmt.Sprintf("%s:%d: %s has no seed", s.name, s.line(f.Pos()), f.Name.Name))
			case listed && !calls["Fatal"] && !calls["Fatalf"]:
				faults = append(faults, fmt.Sprintf("%s:%d: %s does not fail where its listing of seeds is empty", s.name, s.line(f.Pos()), f.Name.Name))
			}
		}
	}
	return faults
}

// calledIn are the names of the methods and functions of other packages that a
// function calls.
func calledIn(f *ast.FuncDecl) map[string]bool {
	names := map[string]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if sel, ok := call.Fun.(*ast.SelectorExpr); ok {
				names[sel.Sel.Name] = true
			}
		}
		return true
	})
	return names
}

func TestFuzzSeeds(t *testing.T) {
	var names []string
	for _, f := range allFiles(t) {
		names = append(names, f.name)
	}
	report(t, barren(sources(t), names))
}

func TestFuzzSeedsGoRed(t *testing.T) {
	text := `package a
 func FuzzA(f *testing.F) { f.Add(1) }
 func FuzzB(f *testing.F) { f.Fuzz(nil) }
 func FuzzC(f *testing.F) { f.Fuzz(nil) }
 func FuzzD(f *testing.F) { for range fs.Glob("x") { f.Add(1) } }
 func FuzzE(f *testing.F) { if fs.Glob("x") == nil { f.Fatal() }; f.Add(1) }
`
	red(t, barren([]source{plant(t, "p/a_test.go", text)}, []string{"p/testdata/fuzz/FuzzC/1", "p/testdata/fuzz/FuzzBB/1"}),
		"p/a_test.go:3: FuzzB has no seed", "p/a_test.go:5: FuzzD does not fail")
}
