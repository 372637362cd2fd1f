package tree

import (
	"fmt"
	"go/ast"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	containerDir  = "internal/runtime/container"
	userkernelDir = "internal/runtime/userkernel"
	wholeDir      = "internal/e2e" // of the whole product
)

// againAt are the tests that play at userkernel what others of their directory
// play at container: both name the same functions.
func againAt() map[string]string {
	return map[string]string{containerDir: "TestCasesAtUserkernel", wholeDir: "TestOwnKernel"}
}

// caseRow is a row of the page: number, names of tests, levels.
var caseRow = regexp.MustCompile(`(?m)^\| ([0-9]+) \|[^|]*\|([^|]*)\| ([^|]*) \|$`)

// played says at which of container and userkernel the tests of a name are
// played, as far as that can be told.
func played(files []source, makefile string) (map[string][]string, error) {
	whole, err := regexp.Compile("^(" + variable(makefile, "AT_USERKERNEL") + ")")
	if err != nil {
		return nil, err
	}
	names := map[string]map[string][]string{} // directory, function, what it names
	for _, s := range files {
		for _, decl := range s.ast.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && s.test() {
				if names[s.dir()] == nil {
					names[s.dir()] = map[string][]string{}
				}
				names[s.dir()][f.Name.Name] = namesIn(f)
			}
		}
	}
	levels := map[string][]string{}
	for dir, funcs := range names {
		again := slices.DeleteFunc(slices.Clone(funcs[againAt()[dir]]), func(name string) bool { return funcs[name] == nil })
		for name, used := range funcs {
			if dir == containerDir {
				levels[name] = append(levels[name], "container")
			}
			shares := slices.ContainsFunc(used, func(n string) bool { return n != name && slices.Contains(again, n) })
			if dir == userkernelDir || shares || dir == wholeDir && whole.MatchString(name) {
				levels[name] = append(levels[name], "userkernel")
			}
		}
	}
	return levels, nil
}

// wrongLevels returns a line for every case of the page whose levels are not
// those at which its tests are played.
func wrongLevels(page string, files []source, makefile string) (faults []string) {
	levels, err := played(files, makefile)
	if err != nil {
		return []string{"AT_USERKERNEL of the Makefile: " + err.Error()}
	}
	for _, row := range caseRow.FindAllStringSubmatch(page, -1) {
		var at []string
		for _, ref := range testRef.FindAllStringSubmatch(row[2], -1) {
			at = append(at, levels[ref[1]]...)
		}
		said := strings.Split(row[3], ", ")
		for _, level := range []string{"container", "userkernel"} {
			switch is, says := slices.Contains(at, level), slices.Contains(said, level); {
			case is && !says:
				faults = append(faults, fmt.Sprintf("%s: case %s is played at %s too", casesPage, row[1], level))
			case !is && says && level == "userkernel":
				faults = append(faults, fmt.Sprintf("%s: no test of case %s is played at %s", casesPage, row[1], level))
			}
		}
	}
	return faults
}

func TestCasesPageLevels(t *testing.T) {
	var page string
	for _, f := range allFiles(t) {
		if f.name == casesPage {
			page = string(f.data)
		}
	}
	if n := len(caseRow.FindAllString(page, -1)); n < 80 {
		t.Fatalf("%d cases are found", n)
	}
	report(t, wrongLevels(page, sources(t), makefile(t)))
}

func TestCasesPageLevelsGoesRed(t *testing.T) {
	files := []source{
		plant(t, containerDir+"/a_test.go", "package a\nfunc TestA(t *T) { as(t) }\nfunc as(t *T) {}\nfunc TestB(t *T) {}\nfunc TestCasesAtUserkernel(t *T) { play(as) }"),
		plant(t, userkernelDir+"/b_test.go", "package b\nfunc TestC(t *T) {}\nfunc TestB(t *T) {}"),
		plant(t, wholeDir+"/c_test.go", "package c\nfunc TestD(t *T) { ds(t) }\nfunc ds(t *T) {}\nfunc TestE(t *T) {}\nfunc TestF(t *T) {}\nfunc TestOwnKernel(t *T) { ds(t) }"),
	}
	page := strings.Join([]string{"| 1 | x | `TestA/1` | container |", "| 2 | x | `TestB` | userkernel |", "| 3 | x | `TestC` | container |", "| 4 | x | `TestD` | none |",
		"| 5 | x | `TestE` | container |", "| 6 | x | `TestF` `TestNone` | container, userkernel |", "| 7 | x | `TestA` `TestD` | container, userkernel |", "| 8 | x | | - |"}, "\n")
	red(t, wrongLevels(page, files, "AT_USERKERNEL := TestE"), "case 1 is played at userkernel too", "case 2 is played at container too", "case 3 is played at userkernel too",
		"case 4 is played at userkernel too", "case 5 is played at userkernel too", "no test of case 6 is played at userkernel")
	red(t, wrongLevels(page, nil, "AT_USERKERNEL := ("), "AT_USERKERNEL of the Makefile")
}
