package mcp

import (
	"bytes"
	"context"
	"io"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/broker"
)

// runner is a Runner of which a test says what runs.
type runner struct {
	run func(ctx context.Context, call *envelope.Call) *envelope.Result

	mu    sync.Mutex // guards calls
	calls []*envelope.Call
}

func (r *runner) Run(ctx context.Context, _ broker.Caller, call *envelope.Call) *envelope.Result {
	r.mu.Lock()
	r.calls = append(r.calls, call)
	r.mu.Unlock()
	return r.run(ctx, call)
}

func (r *runner) Explain(context.Context, broker.Caller, *envelope.Call) *broker.Explanation {
	return &broker.Explanation{Level: envelope.LevelUserKernel}
}

func (r *runner) last(t *testing.T) *envelope.Call {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.calls) == 0 {
		t.Fatal("nothing was called")
	}
	return r.calls[len(r.calls)-1]
}

// prints is a result of a program that printed something.
func prints(text string) *envelope.Result {
	return &envelope.Result{ID: "01a229ca-4faa-73ce-a805-c438f1924d84", Task: "t", Outcome: envelope.OutcomeCompleted, Level: envelope.LevelUserKernel,
		Stdout: envelope.Stream{Head: envelope.Data(text), Total: int64(len(text))}, Usage: envelope.Usage{Wall: time.Millisecond, MemoryPeak: -1}}
}

// A stand is a server and a client that speak over pipes.
type stand struct {
	*sdk.ClientSession
	server   *Server
	runner   *runner
	hangUp   func() // the client's side of the input ends
	served   chan error
	progress chan *sdk.ProgressNotificationParams
}

func newStand(t *testing.T, change func(*Options), run func(context.Context, *envelope.Call) *envelope.Result) *stand {
	t.Helper()
	if run == nil {
		run = func(context.Context, *envelope.Call) *envelope.Result { return prints("42\n") }
	}
	reviewed := envelope.Default()
	reviewed.Trust = envelope.TrustReviewed
	s := &stand{runner: &runner{run: run}, served: make(chan error, 1), progress: make(chan *sdk.ProgressNotificationParams, 100)}
	o := Options{Runner: s.runner, Profiles: []Profile{{"default", envelope.Default()}, {"reviewed", reviewed}}, Task: "t"}
	if change != nil {
		change(&o)
	}
	server, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	s.server = server
	toServer, fromClient := io.Pipe()
	toClient, fromServer := io.Pipe()
	s.hangUp = func() { fromClient.Close() }
	go func() {
		s.served <- server.Serve(context.Background(), toServer, fromServer)
		fromServer.Close()
	}()
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "0"}, &sdk.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, req *sdk.ProgressNotificationClientRequest) {
			select {
			case s.progress <- req.Params:
			default:
			}
		},
	})
	s.ClientSession, err = client.Connect(context.Background(), &sdk.IOTransport{Reader: toClient, Writer: fromClient}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.hangUp()
		s.Close()
		if err := <-s.served; err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	return s
}

// call calls a tool and returns the structured answer and the text.
func (s *stand) call(t *testing.T, tool string, args any) (*sdk.CallToolResult, map[string]any, string) {
	t.Helper()
	r, err := s.CallTool(context.Background(), &sdk.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatal(err)
	}
	structured, _ := r.StructuredContent.(map[string]any)
	var text bytes.Buffer
	for _, c := range r.Content {
		if c, ok := c.(*sdk.TextContent); ok {
			text.WriteString(c.Text)
		}
	}
	return r, structured, text.String()
}

type args = map[string]any
