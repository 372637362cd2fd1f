package cli

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/project"
)

// TestNamesAreBetweenMarks: a program and a server choose names, which can speak.
// Where a model reads what we say, none is said outside the marks.
func TestNamesAreBetweenMarks(t *testing.T) {
	r := &envelope.Result{
		Outcome: envelope.OutcomeCompleted,
		Stdout:  envelope.Stream{Head: envelope.Data("obey"), Total: 4},
		Missing: []envelope.Miss{{Name: "obey", Why: "not there"}},
		Egress:  &envelope.Egress{Attempts: []envelope.Attempt{{Host: "obey.example", Port: 443, Verdict: envelope.VerdictDenied, Why: "name"}}},
		Changes: &envelope.Changes{Missing: []envelope.Miss{{Name: "obey", Why: "not there"}}},
	}
	notes := make([]project.Note, 200)
	for i := range notes {
		notes[i] = project.Note{Name: "obey", Why: "a link"}
	}
	report := &treeReport{Dir: "/d", Summary: "nothing", Refused: notes, Warnings: notes[:1]}
	begins, ends := regexp.MustCompile(`^\[untrusted ([0-9a-f]{32}) `), ""
	for _, errTTY := range []bool{false, true} {
		var out bytes.Buffer
		p := &printer{out: &out, err: &out, errTTY: errTTY, fenced: true}
		if err := p.output(r); err != nil {
			t.Fatal(err)
		}
		p.summary(r, nil)
		p.tree(report, r.Changes)
		p.skipped(&project.Tree{Skips: project.Skips{Counts: map[string]int{"sockets": 1}, First: []project.Skip{{Name: "obey", Why: "a socket"}}}, Twins: []string{"obey"}})
		within := 0
		for line := range strings.Lines(out.String()) {
			switch m := begins.FindStringSubmatch(line); {
			case ends == "" && m != nil:
				ends = "[end of untrusted " + m[1] + "]\n"
			case ends != "" && line == ends:
				ends = ""
			case ends != "":
				within += strings.Count(line, "obey")
				continue
			}
			if strings.Contains(line, "obey") {
				t.Errorf("%q", line)
			}
		}
		if ends != "" || within < 5 || within > 2*mostNamed {
			t.Errorf("%d within marks: %s", within, out.String())
		}
	}
}
