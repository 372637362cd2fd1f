package tree

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// publicDirs are the packages that others import.
func publicDirs() []string { return []string{".", "client", "envelope"} }

// hiddenTypes returns a line for every exported name of a public package that
// has in its signature, or in an exported field, a type of an internal one: who
// imports the package could not name it, nor read what it is.
func hiddenTypes(files []source) (faults []string) {
	for _, s := range files {
		if s.test() || !slices.Contains(publicDirs(), s.dir()) {
			continue
		}
		for _, decl := range s.ast.Decls {
			for name, at := range exportedTypes(decl) {
				for _, hidden := range s.internals(at) {
					faults = append(faults, fmt.Sprintf("%s: %s shows %s", s.name, name, hidden))
				}
			}
		}
	}
	slices.Sort(faults)
	return faults
}

// exportedTypes yields what a declaration shows to others, by its name.
func exportedTypes(decl ast.Decl) map[string]ast.Node {
	out := map[string]ast.Node{}
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && ast.IsExported(funcName(d)) { // and the type that it is a method of
			out[funcName(d)] = d.Type
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch v := spec.(type) {
			case *ast.TypeSpec:
				if v.Name.IsExported() {
					out[v.Name.Name] = v.Type
				}
			case *ast.ValueSpec:
				if v.Names[0].IsExported() && v.Type != nil {
					out[v.Names[0].Name] = v.Type
				}
			}
		}
	}
	return out
}

// internals are the types of internal packages below a node, fields that are not
// exported aside.
func (s source) internals(at ast.Node) (found []string) {
	imported := map[string]bool{}
	for _, i := range s.ast.Imports {
		name, err := strconv.Unquote(i.Path.Value)
		if err != nil || !strings.Contains(name+"/", "/internal/") {
			continue
		}
		imported[path.Base(name)] = true
		if i.Name != nil {
			imported[i.Name.Name] = true
		}
	}
	ast.Inspect(at, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			return len(n.Names) == 0 || n.Names[0].IsExported() || !inStruct(at, n)
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && imported[x.Name] {
				found = append(found, x.Name+"."+n.Sel.Name)
			}
		}
		return true
	})
	return found
}

// inStruct reports whether a field is one of a struct, and no parameter.
func inStruct(at ast.Node, f *ast.Field) (is bool) {
	ast.Inspect(at, func(n ast.Node) bool {
		if s, ok := n.(*ast.StructType); ok && slices.Contains(s.Fields.List, f) {
			is = true
		}
		return !is
	})
	return is
}

func TestPublicTypes(t *testing.T) {
	all := sources(t)
	for _, dir := range publicDirs() {
		if !slices.ContainsFunc(all, func(s source) bool { return s.dir() == dir }) {
			t.Errorf("there is no package in %s: it has moved", dir)
		}
	}
	report(t, hiddenTypes(all))
}

func TestPublicTypesGoRed(t *testing.T) {
	const text = "package a\nimport (\n\"x/internal/b\"\nc \"x/internal/d\"\n\"x/e\"\n)\n" +
		"type T struct {\n\tShown b.B\n\thidden b.B\n\tfine e.E\n}\n" +
		"type I interface{ M(c.C) }\ntype own struct{ Shown b.B }\n" +
		"func F(x []*b.B) e.E { return b.G() }\nfunc (T) M() map[string]c.C { return nil }\nfunc g(b.B) {}\nfunc (own) M(b.B) {}\nvar V b.B\n"
	red(t, hiddenTypes([]source{plant(t, "a.go", text), plant(t, "internal/a.go", text), plant(t, "a_test.go", text)}),
		"a.go: F shows b.B", "a.go: I shows c.C", "a.go: T shows b.B", "a.go: T.M shows c.C", "a.go: V shows b.B")
}
