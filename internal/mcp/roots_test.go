package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/testing/leak"
)

// TestDirectoriesOfTheClientMeanNothing: a client that offers its directories is
// asked for none, also when it says that they have changed, and its call has no
// tree and no mount: those are the operator's.
func TestDirectoriesOfTheClientMeanNothing(t *testing.T) {
	leak.Check(t)
	r := &runner{run: func(context.Context, *envelope.Call) *envelope.Result { return prints("42\n") }}
	server, err := New(Options{Runner: r, Profiles: []Profile{{"default", envelope.Default()}}, Task: "t"})
	if err != nil {
		t.Fatal(err)
	}
	toServer, fromClient := io.Pipe()
	toClient, fromServer := io.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- server.Serve(context.Background(), toServer, fromServer)
		fromServer.Close()
	}()
	go func() {
		_, _ = io.WriteString(fromClient, strings.Join([]string{
			`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"roots":{"listChanged":true}},"clientInfo":{"name":"x","version":"0"}}}`,
			`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
			`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`,
			`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"run_command","arguments":{"argv":["cat","/etc/hostname"]}}}`,
			`{"jsonrpc":"2.0","id":3,"method":"ping"}`, ""}, "\n")) // the answers say what became of it
	}()
	answers := map[float64]bool{}
	for lines := bufio.NewScanner(toClient); lines.Scan(); {
		var m struct {
			ID     any
			Method string
		}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			t.Fatalf("%s: %v", lines.Bytes(), err)
		}
		if m.Method != "" && m.ID != nil {
			t.Errorf("the client is asked: %s", lines.Bytes())
		}
		if id, ok := m.ID.(float64); ok && m.Method == "" {
			answers[id] = true
		}
		if len(answers) == 3 {
			fromClient.Close()
		}
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	if c := r.last(t); c.Tree != nil || c.Workspace != nil || len(c.Inputs) > 0 || c.Request != nil && c.Request.Files != nil {
		t.Errorf("%+v", c)
	}
}
