package tree

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// packageDocs returns a line for every directory whose Go files do not have
// exactly one doc of the package between them.
func packageDocs(files []source) (faults []string) {
	docs := map[string][]string{}
	for _, s := range files {
		if s.test() {
			continue
		}
		docs[s.dir()] = append(docs[s.dir()], "")
		if s.ast.Doc == nil {
			continue
		}
		text := s.ast.Doc.Text()
		if want := docStart(s); !strings.HasPrefix(text, want+" ") {
			faults = append(faults, fmt.Sprintf("%s: the package's doc does not start with %q", s.name, want))
		}
		docs[s.dir()] = append(docs[s.dir()], path.Base(s.name))
	}
	for _, dir := range slices.Sorted(maps.Keys(docs)) {
		named := slices.DeleteFunc(docs[dir], func(name string) bool { return name == "" })
		if len(named) != 1 {
			faults = append(faults, fmt.Sprintf("%s: %d docs of the package, want one: %s", dir, len(named), strings.Join(named, ", ")))
		}
	}
	return faults
}

func docStart(s source) string {
	if s.ast.Name.Name == "main" {
		return "Command " + path.Base(s.dir())
	}
	return "Package " + s.ast.Name.Name
}

func TestPackageDocs(t *testing.T) { report(t, packageDocs(sources(t))) }

func TestPackageDocsGoRed(t *testing.T) {
	red(t, packageDocs([]source{
		plant(t, "a/a.go", "// Package a is.\npackage a"),
		plant(t, "a/b.go", "// A licence, which is no doc.\n\npackage a"),
		plant(t, "b/a.go", "package b"),
		plant(t, "b/a_test.go", "// Package b is.\npackage b"),
		plant(t, "c/a.go", "// Package c is.\npackage c"),
		plant(t, "c/b.go", "// Package c is.\npackage c"),
		plant(t, "d/a.go", "// The package d.\npackage d"),
		plant(t, "cmd/e/a.go", "// Package main is.\npackage main"),
	}), `d/a.go: the package's doc does not start with "Package d"`, `cmd/e/a.go: the package's doc does not start with "Command e"`,
		"b: 0 docs", "c: 2 docs of the package, want one: a.go, b.go")
}

var (
	codeBlock = regexp.MustCompile("(?ms)^[ \t]*```.*?^[ \t]*```[ \t]*$|`[^`\n]*`")
	linkText  = regexp.MustCompile(`\]\(<?([^)>\s]+)>?(?:\s+"[^"]*")?\)|(?m)^\[[^\]]+\]:\s*<?([^>\s]+)>?`)
	scheme    = regexp.MustCompile(`^[a-z][a-z0-9+.-]*:`)
)

// brokenLinks returns a line for every link of a Markdown file to a file of
// the tree that is not there.
func brokenLinks(files []file) (faults []string) {
	there := map[string]bool{".": true}
	for _, f := range files {
		for name := f.name; name != "."; name = path.Dir(name) {
			there[name] = true
		}
	}
	for _, f := range files {
		if path.Ext(f.name) != ".md" {
			continue
		}
		text := codeBlock.ReplaceAllString(string(f.data), "")
		for _, m := range linkText.FindAllStringSubmatch(text, -1) {
			target, _, _ := strings.Cut(m[1]+m[2], "#")
			if target == "" || scheme.MatchString(target) {
				continue
			}
			if to := path.Join(path.Dir(f.name), target); strings.HasPrefix(target, "/") || !there[to] {
				faults = append(faults, fmt.Sprintf("%s: the link to %s leads nowhere", f.name, target))
			}
		}
	}
	return faults
}

func TestMarkdownLinks(t *testing.T) { report(t, brokenLinks(allFiles(t))) }

func TestMarkdownLinksGoRed(t *testing.T) {
	red(t, brokenLinks([]file{
		{"a.md", []byte("[ok](b/c.md#x) [dir](b) [here](#top) [web](https://x.test/) [no](c.md) ![pic](p.png \"t\")\n```\n[code](none)\n```\n`[x](none)`\n[ref]: gone.md\n")},
		{"b/c.md", []byte("[up](../a.md) [abs](/a.md) [side](a.md)")},
	}), "a.md: the link to c.md", "a.md: the link to p.png", "a.md: the link to gone.md", "b/c.md: the link to /a.md", "b/c.md: the link to a.md")
}
