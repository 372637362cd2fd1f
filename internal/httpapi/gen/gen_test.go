package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"testing"
)

// TestCommentsAreUpToDate: the document says what the source says now.
func TestCommentsAreUpToDate(t *testing.T) {
	want, err := comments("../../..")
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../comments.go")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("comments.go is not what gen makes: run go generate ./internal/httpapi, and look at what changed")
	}
}

func TestComments(t *testing.T) {
	const source = `package a

// A is one. Size is a word here. Exactly one of Name and Other.Name is set, and B.Far is not ours.
type A struct {
	// Both are named: Size is the larger.
	Name string ` + "`json:\"name,omitempty\"`" + ` // what it is called
	Size int    ` + "`json:\"bytes\"`" + ` // of Name, in bytes; nil: none.
	Not  int    ` + "`json:\"-\"`" + ` // for nobody
	Bare int    ` + "`json:\"bare\"`" + `
}

type (
	// Other is another.
	Other struct {
		Name string ` + "`json:\"theirs\"`" + `
	}
	// hidden is nobody's.
	hidden struct {
		Name string ` + "`json:\"name\"`" + `
	}
	// Inner does not cross the wire.
	Inner struct{ Name string }
)
`
	file, err := parser.ParseFile(token.NewFileSet(), "a.go", source, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	structs, got := map[string]*record{}, map[string]string{}
	for _, decl := range file.Decls {
		if _, ok := decl.(*ast.GenDecl); ok {
			gather(structs, decl)
		}
	}
	for _, s := range structs {
		s.addTo(got, "a", structs)
	}
	want := map[string]string{
		"a.A":      "A is one. Size is a word here. Exactly one of name and Other.theirs is set, and B.Far is not ours",
		"a.A.Name": "what it is called. Both are named: bytes is the larger",
		"a.A.Size": "of name, in bytes; absent: none",
		"a.Other":  "Other is another",
	}
	for key, text := range want {
		if got[key] != text {
			t.Errorf("%s: %q, want %q", key, got[key], text)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%q", got)
	}
}
