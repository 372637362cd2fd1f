package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// The headers of the protocol over HTTP.
const (
	SessionHeader  = "Mcp-Session-Id"
	RevisionHeader = "Mcp-Protocol-Version"
)

// Sessionless is the first revision of the protocol without sessions.
const Sessionless = "2026-07-28"

// Handler speaks with a client over HTTP, instead of Serve, until Close. Who may
// send a request, and for which session, its caller has found out; a body has
// been read by ReadMessage. It is called once.
func (s *Server) Handler() http.Handler {
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s.sdk }, &sdk.StreamableHTTPOptions{
		Stateless:                    s.o.Session == "",
		PropagateRequestCancellation: true,
		MaxRequestBodyBytes:          MaxMessage,
		DisableLocalhostProtection:   true, // the daemon knows the names that it goes by
	})
}

// Open reports whether a client has opened the session and not ended it.
func (s *Server) Open() bool {
	for range s.sdk.Sessions() {
		return true
	}
	return false
}

// Close ends what Handler began: every call is cancelled, and it returns when
// the last one is destroyed and recorded.
func (s *Server) Close() {
	s.end()
	s.calls.Wait()
	for session := range s.sdk.Sessions() {
		_ = session.Close() // what cannot be told to a client that is gone
	}
	s.files.close()
}

// A Message is what one message of a client is, as far as it matters to who
// passes it on.
type Message struct {
	Method string // "" is an answer
	ID     any    // of a request; nil: nobody waits for an answer
	Tool   string // of a request to call one
}

// ReadMessage reads a message of a client. An error says what is wrong with it.
func ReadMessage(text []byte) (Message, error) {
	if len(text) > MaxMessage {
		return Message{}, fmt.Errorf("a message has more than %d bytes", MaxMessage)
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return Message{}, fmt.Errorf("there is no message")
	}
	msg, err := decodeLine(text)
	if err != nil {
		return Message{}, err
	}
	req, ok := msg.(*jsonrpc.Request)
	if !ok {
		return Message{}, nil
	}
	m := Message{Method: req.Method, ID: req.ID.Raw()}
	if req.Method == "tools/call" {
		var params map[string]json.RawMessage
		_ = json.Unmarshal(req.Params, &params) // the SDK says what is wrong with them
		_ = json.Unmarshal(params["name"], &m.Tool)
	}
	return m, nil
}

// Counted reports whether the message is a call of a tool of ours: those are
// counted when they are made, or by Options.Entered; Options.Heard is told of each.
func (m *Message) Counted() bool {
	return slices.Contains([]string{"run_code", "run_command", "fetch", "list_profiles"}, m.Tool)
}

// Cancels returns the message that cancels a request.
func (m *Message) Cancels() []byte {
	text, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "method": "notifications/cancelled",
		"params": map[string]any{"requestId": m.ID, "reason": "the client has gone"}})
	if err != nil {
		return nil // an id is text or a number: cannot be
	}
	return text
}
