package mcp

import (
	"context"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/trace"
)

// sunk takes traces.
type sunk chan trace.Trace

func (k sunk) Put(t trace.Trace) { k <- t }

// TestTraceOfTheClient: a call is below the span that its _meta says, with what
// was done for it here; what is no traceparent is none.
func TestTraceOfTheClient(t *testing.T) {
	sink := make(sunk, 10)
	seen := make(chan *trace.Call, 10)
	s := newStand(t, func(o *Options) { o.Traces = sink }, func(ctx context.Context, _ *envelope.Call) *envelope.Result {
		seen <- trace.From(ctx)
		return prints("42\n")
	})
	for text, want := range map[string]string{"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01": "4bf92f3577b34da6a3ce929d0e0e4736", "nonsense": "", "": ""} {
		params := &sdk.CallToolParams{Name: "run_command", Arguments: args{"argv": []string{"true"}}}
		if text != "" {
			params.Meta = sdk.Meta{"traceparent": text}
		}
		if _, err := s.CallTool(t.Context(), params); err != nil {
			t.Fatal(err)
		}
		c, got := <-seen, <-sink
		if c.Parent() != got.Parent || got.Parent.Trace.String() != want {
			t.Errorf("%q: %+v", text, got.Parent)
		}
		if len(got.Spans) != 3 || got.Spans[0].Name != "call" || got.Spans[1].Name != "receive" || got.Spans[2].Name != "render" {
			t.Errorf("%+v", got.Spans)
		}
	}
}
