package tree

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/callcell/callcell"

// A wall says what some packages must not import.
//
// A pattern that starts with ./ is a package of this module, others are import
// paths; with /... at the end it is the package and all below it.
type wall struct {
	rooms  []string // whom it holds for
	except []string // of rooms, whom not
	banned []string // what they must not import
	only   []string // if not nil: beside the standard library and each other they may import this alone
	direct bool     // judge their own imports only, not what those import
	later  bool     // the rooms are not built yet; a row that finds one must lose this
	why    string
}

// A graph has the imports of every package, the standard library's too.
type graph map[string][]string

func matches(patterns []string, pkg string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		if rest, ok := strings.CutPrefix(p, "./"); ok {
			p = module + "/" + rest
			if rest == "..." {
				p = module + "/..."
			}
		}
		tree, below := strings.CutSuffix(p, "/...")
		return pkg == tree || below && strings.HasPrefix(pkg, tree+"/")
	})
}

func standard(pkg string) bool {
	first, _, _ := strings.Cut(pkg, "/")
	return !strings.Contains(first, ".")
}

// bans reports whether the wall stands between its rooms and pkg.
func (w wall) bans(pkg string) bool {
	if matches(w.banned, pkg) {
		return true
	}
	return w.only != nil && !standard(pkg) && !matches(w.only, pkg) && !matches(w.rooms, pkg)
}

// judge returns a line for every package of the graph that goes through the
// wall, with the way it takes, and how many packages the wall holds for.
func (w wall) judge(g graph) (faults []string, rooms int) {
	for _, room := range slices.Sorted(maps.Keys(g)) {
		if !matches(w.rooms, room) || matches(w.except, room) {
			continue
		}
		rooms++
		faults = append(faults, w.ways(g, room)...)
	}
	return faults, rooms
}

// ways walks the imports of a room, nearest first.
func (w wall) ways(g graph, room string) (faults []string) {
	from := map[string]string{room: ""}
	for queue := []string{room}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		for _, next := range g[at] {
			if _, seen := from[next]; seen {
				continue
			}
			from[next] = at
			if w.bans(next) {
				faults = append(faults, chain(from, next)+": "+w.why)
			} else if !w.direct {
				queue = append(queue, next)
			}
		}
	}
	return faults
}

func chain(from map[string]string, pkg string) string {
	text := strings.TrimPrefix(pkg, module+"/")
	for pkg = from[pkg]; pkg != ""; pkg = from[pkg] {
		text = strings.TrimPrefix(pkg, module+"/") + " -> " + text
	}
	return text
}

// importGraph asks the go command. Tests' imports are not in it.
func importGraph(t *testing.T) graph {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-deps", "-json=ImportPath,Imports", "./...")
	cmd.Dir = root(t)
	cmd.Env = append(os.Environ(), "GOOS=linux", "CGO_ENABLED=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.Bytes())
	}
	g := graph{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var pkg struct {
			ImportPath string
			Imports    []string
		}
		err := dec.Decode(&pkg)
		if errors.Is(err, io.EOF) {
			return g
		}
		if err != nil {
			t.Fatal(err)
		}
		g[pkg.ImportPath] = pkg.Imports
	}
}

func TestWalls(t *testing.T) {
	g := importGraph(t)
	for _, w := range walls() {
		faults, rooms := w.judge(g)
		report(t, faults)
		switch {
		case rooms == 0 && !w.later:
			t.Errorf("the wall of %q holds for no package: it has moved, or the row has a slip", w.rooms)
		case rooms > 0 && w.later:
			t.Errorf("the wall of %q has rooms now: take its mark later off", w.rooms)
		}
		if w.why == "" || w.banned == nil && w.only == nil {
			t.Errorf("the wall of %q has no reason, or bans nothing", w.rooms)
		}
	}
}

// TestWallsGoRed plants an import behind every kind of wall.
func TestWallsGoRed(t *testing.T) {
	g := graph{
		module:                      {"fmt"},
		module + "/a":               {module + "/b", "fmt"},
		module + "/a/deep":          {module + "/b"},
		module + "/ab":              {"net/http"},
		module + "/b":               {module + "/c"},
		module + "/c":               {"net/http", "example.com/x/y"},
		"net/http":                  {"net/textproto"},
		"example.com/x/y":           nil,
		module + "/planted/runtime": nil,
	}
	for _, c := range []struct {
		name  string
		wall  wall
		rooms int
		want  []string
	}{
		{"through others", wall{rooms: []string{"./a"}, banned: []string{"net/http"}, why: "r"}, 1, []string{"a -> b -> c -> net/http: r"}},
		{"and all below", wall{rooms: []string{"./a/..."}, banned: []string{"net/http"}}, 2, []string{"a -> b -> c -> net/http", "a/deep -> b -> c -> net/http"}},
		{"through the standard library", wall{rooms: []string{"./a"}, banned: []string{"net/textproto"}}, 1, []string{"c -> net/http -> net/textproto"}},
		{"its own imports alone", wall{rooms: []string{"./a"}, banned: []string{"net/http"}, direct: true}, 1, nil},
		{"its own imports, red", wall{rooms: []string{"./c"}, banned: []string{"example.com/..."}, direct: true}, 1, []string{"c -> example.com/x/y"}},
		{"only the standard library", wall{rooms: []string{"./a"}, only: []string{}}, 1, []string{"a -> b"}},
		{"only that", wall{rooms: []string{"./a"}, only: []string{"./b", "./c"}}, 1, []string{"a -> b -> c -> example.com/x/y"}},
		{"everyone but", wall{rooms: []string{"./..."}, except: []string{"./ab"}, banned: []string{"net/http"}, direct: true}, 6, []string{"c -> net/http"}},
		{"nobody", wall{rooms: []string{"./d/..."}, banned: []string{"fmt"}}, 0, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			faults, rooms := c.wall.judge(g)
			if rooms != c.rooms {
				t.Errorf("holds for %d packages, want %d", rooms, c.rooms)
			}
			red(t, faults, c.want...)
		})
	}
}
