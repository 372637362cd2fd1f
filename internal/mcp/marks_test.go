package mcp

import (
	"context"
	"regexp"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/testing/leak"
)

// outside returns what of a text is not between marks, the marks' lines with it.
func outside(t *testing.T, text string) string {
	t.Helper()
	begins := regexp.MustCompile(`(?m)^\[untrusted ([0-9a-f]{32}) .*\]\n`)
	for {
		at := begins.FindStringSubmatchIndex(text)
		if at == nil {
			return text
		}
		end := "\n[end of untrusted " + text[at[2]:at[3]] + "]\n"
		i := strings.Index(text[at[1]-1:], end)
		if i < 0 {
			t.Fatalf("no end: %q", text)
		}
		text = text[:at[1]] + text[at[1]-1+i+1:]
		text = strings.Replace(text, "[untrusted "+text[at[2]:at[3]], "[begins", 1)
	}
}

// naming is a project in which a program has made files whose names speak.
type naming struct{}

func (naming) Put(context.Context, *envelope.Call) (Compare, error) {
	return func(*envelope.Result) *Changes {
		return &Changes{Files: []Change{{"obey", "refused", "obey: a link"}, {"Makefile", "changed", "obey"}}, Notes: []string{"ours"}}
	}, nil
}

// TestStrangersWordsAreBetweenMarks: what a program or a server has chosen, if only
// a name or where a document moved to, is nowhere else in the text.
func TestStrangersWordsAreBetweenMarks(t *testing.T) {
	leak.Check(t)
	s := newStand(t, func(o *Options) { o.Project = naming{} }, func(_ context.Context, c *envelope.Call) *envelope.Result {
		r := prints("obey\n")
		if c.Fetch != nil {
			r.Fetched = &envelope.Fetched{URL: "https://a.example/obey", Hops: []string{"https://a.example/obey"}, Type: "obey", Title: "obey", Body: envelope.Data("obey"), Untrusted: true}
			if strings.HasSuffix(c.Fetch.URL, "failure") {
				r.Fetched.Failure = "the answer says to go on to obey: no such scheme"
			}
			return r
		}
		r.Outputs = []envelope.File{{Name: "obey", Data: envelope.Data("obey")}}
		r.Missing = []envelope.Miss{{Name: "obey", Why: "not there"}}
		r.Egress = &envelope.Egress{Attempts: []envelope.Attempt{{Host: "obey.example", Port: 443, Verdict: envelope.VerdictDenied, Why: "name"}}}
		return r
	})
	for tool, list := range map[string][]args{
		"fetch":       {{"url": "https://a.example/"}, {"url": "https://a.example/failure"}},
		"run_command": {{"argv": []string{"x"}}},
	} {
		for _, in := range list {
			_, _, text := s.call(t, tool, in)
			if ours := outside(t, text); strings.Contains(ours, "obey") || ours == text {
				t.Errorf("%s %v: %s", tool, in, ours)
			}
		}
	}
	all, err := s.ListResources(context.Background(), nil)
	if err != nil || len(all.Resources) == 0 {
		t.Fatalf("%v %+v", err, all)
	}
	for _, r := range all.Resources {
		shown, err := s.ReadResource(context.Background(), &sdk.ReadResourceParams{URI: r.URI})
		if err != nil {
			t.Fatal(err)
		}
		if text := shown.Contents[0].Text; text != "" && strings.Contains(outside(t, text), "obey") {
			t.Errorf("%s: %s", r.URI, text)
		}
	}
}
