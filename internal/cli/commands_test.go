package cli

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// withoutAnswer are the commands that have no answer for a machine, each with its
// reason.
func withoutAnswer() map[string]string {
	return map[string]string{
		"mcp":              "its standard output is the protocol's",
		"hook claude-code": "what it prints is the client's own form of JSON; --install is for who edits its settings",
		"hook codex":       "as claude-code",
		"serve":            "it does not end with an answer; --log=json has its log as JSON",
	}
}

// leaves are the commands of a grammar that run, by name.
func leaves(t *testing.T, grammar any) map[string]*kong.Node {
	t.Helper()
	parser, err := (&app{}).parser(grammar)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]*kong.Node{}
	for _, node := range parser.Model.Leaves(false) {
		found[strings.TrimPrefix(node.Path(), parser.Model.Name+" ")] = node
	}
	return found
}

func answers(node *kong.Node) bool {
	return slices.ContainsFunc(node.Flags, func(f *kong.Flag) bool { return f.Name == "json" && f.Help != "" })
}

// speechless returns a line for every command that does not take --json and is
// not excepted, and for every exception that is none.
func speechless(all map[string]*kong.Node, excepted map[string]string) (faults []string) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if _, may := excepted[name]; answers(all[name]) == may {
			faults = append(faults, fmt.Sprintf("%s: takes --json: %v; may be without: %v", name, answers(all[name]), may))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(excepted)) {
		if all[name] == nil {
			faults = append(faults, name+": there is no such command")
		}
	}
	return faults
}

// TestEveryCommandAnswersMachines: what a person can have of a command, a machine
// can have as JSON.
func TestEveryCommandAnswersMachines(t *testing.T) {
	for _, fault := range speechless(leaves(t, &grammar{}), withoutAnswer()) {
		t.Error(fault)
	}
}

func TestEveryCommandAnswersMachinesGoesRed(t *testing.T) {
	type speaks struct {
		JSON bool `name:"json" help:"Print it as JSON."`
	}
	planted := leaves(t, &struct {
		One speaks `cmd:""`
		Sub struct {
			Two   struct{} `cmd:""`
			Three struct{} `cmd:""`
			Four  speaks   `cmd:""`
		} `cmd:""`
	}{})
	got := speechless(planted, map[string]string{"sub three": "", "sub four": "", "five": ""})
	want := []string{"sub four: takes --json: true; may be without: true", "sub two: takes --json: false; may be without: false", "five: there is no such command"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// AnsweringMachines are the commands that take --json, for the tests that run
// them.
func AnsweringMachines(t *testing.T) []string {
	t.Helper()
	all := leaves(t, &grammar{})
	maps.DeleteFunc(all, func(_ string, node *kong.Node) bool { return !answers(node) })
	return slices.Sorted(maps.Keys(all))
}

// helpOf is the long text of a command, "" where there is none.
func helpOf(node *kong.Node) string {
	if h, ok := node.Target.Addr().Interface().(kong.HelpProvider); ok {
		return h.Help()
	}
	return ""
}

// exampleLine is an example in a help or in Markdown: its line is indented, and
// begins with a command.
var exampleLine = regexp.MustCompile(`(?m)^(?:  |    )((?:[a-z]+ [^\n]*[|;&] *)?callcell (?:[^\\\n]|\\\n|\\.)*)$`)

// TestExamplesAreCommandLines: every command shows one in its help, and those, and
// the ones of README and docs, are taken by the parser as they are written.
func TestExamplesAreCommandLines(t *testing.T) {
	texts := map[string]string{"callcell --help": description}
	for name, node := range leaves(t, &grammar{}) {
		texts[name+" --help"] = helpOf(node)
		if node.Parent.Type == kong.CommandNode {
			texts[strings.TrimPrefix(node.Parent.Path(), "callcell ")+" --help"] = helpOf(node.Parent)
		}
	}
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal(pages, err)
	}
	shown := map[string]bool{}
	for _, page := range append(pages, "../../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		texts[page] = string(text)
	}
	for _, where := range slices.Sorted(maps.Keys(texts)) {
		found := exampleLine.FindAllStringSubmatch(texts[where], -1)
		if len(found) == 0 && strings.HasSuffix(where, "--help") && where != "mcp --help" { // its examples are of clients
			t.Errorf("callcell %s: there is no example", where)
		}
		for _, m := range found {
			for _, words := range commandLines(m[1]) {
				shown[strings.Join(words, " ")] = true
				if err := taken(words); err != nil {
					t.Errorf("%s: %q: %v", where, words, err)
				}
			}
		}
	}
	if len(shown) < 80 {
		t.Errorf("%d examples were found", len(shown))
	}
}

// taken reports what keeps the parser from taking a command line.
func taken(words []string) error {
	a := &app{printer: printer{out: io.Discard, err: io.Discard}}
	_, err := a.parse(spread(usual(a.cut(words[1:]))))
	return err
}

func TestExamplesGoRed(t *testing.T) {
	for line, bad := range map[string]bool{
		"callcell run -- true": false, "callcell run --nosuch -- true": true, "callcell audit lst": true, "callcell image rm": true,
		"callcell audit list -- x": true, "callcell help run": false,
	} {
		if err := taken(strings.Fields(line)); (err != nil) != bad {
			t.Errorf("%q: %v", line, err)
		}
	}
}

// commandLines are the command lines of callcell in a line of a shell, as words.
// What stands for words of the reader's own (...) is none of them.
func commandLines(line string) (all [][]string) {
	var words []string
	word, in, quote := "", false, rune(0)
	end := func() {
		if in && word != "..." {
			words = append(words, word)
		}
		word, in = "", false
	}
	next := func() {
		end()
		if len(words) > 0 && words[0] == "callcell" {
			all = append(all, words)
		}
		words = nil
	}
	escaped := false
	for _, r := range line {
		switch {
		case escaped:
			escaped = false
			if r != '\n' {
				word, in = word+string(r), true
			}
		case r == '\\' && quote != '\'':
			escaped = true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word += string(r)
		case r == '\'' || r == '"':
			quote, in = r, true
		case r == '#' && !in:
			next()
			return all
		case r == '>':
			word, in = "", false // the number of a descriptor
			next()
			words = []string{"(a file)"}
		case strings.ContainsRune("|;&", r):
			next()
		case r == ' ' || r == '\n':
			end()
		default:
			word, in = word+string(r), true
		}
	}
	next()
	return all
}

func TestCommandLines(t *testing.T) {
	for line, want := range map[string][][]string{
		`callcell run -- sh -c 'a; b' && callcell version`: {{"callcell", "run", "--", "sh", "-c", "a; b"}, {"callcell", "version"}},
		`callcell image list   # inspect, rm`:              {{"callcell", "image", "list"}},
		"callcell run --in a \\\n  --out b -- c":           {{"callcell", "run", "--in", "a", "--out", "b", "--", "c"}},
		`callcell key create --team ops > key`:             {{"callcell", "key", "create", "--team", "ops"}},
		`callcell x --a "b c" '' | tee f; callcell y ...`:  {{"callcell", "x", "--a", "b c", ""}, {"callcell", "y"}},
	} {
		if got := commandLines(line); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}
