package mcp

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/callcell/callcell/internal/testing/leak"
)

func TestReadMessage(t *testing.T) {
	for text, want := range map[string]Message{
		`{"jsonrpc":"2.0","id":1,"method":"ping"}`:                                                                  {Method: "ping", ID: int64(1)},
		`{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"run_code"}}`:                             {Method: "tools/call", ID: "a", Tool: "run_code"},
		`{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"Name":"run_code"}}`:                             {Method: "tools/call", ID: "a"},
		`{"jsonrpc":"2.0","id":"a","method":"tools/call","params":[1]}`:                                             {Method: "tools/call", ID: "a"},
		` {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}` + "\n":                     {Method: "notifications/cancelled"},
		`{"jsonrpc":"2.0","id":-9007199254740991,"method":"ping"}`:                                                  {Method: "ping", ID: int64(-9007199254740991)},
		`{"jsonrpc":"2.0","id":4,"result":{}}`:                                                                      {},
		`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"name":"run_code","uri":"callcell://file/x"}}`: {Method: "resources/read", ID: int64(1)},
	} {
		if got, err := ReadMessage([]byte(text)); err != nil || got != want {
			t.Errorf("%s: %+v %v", text, got, err)
		}
	}
	ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	for name, text := range map[string]string{
		"nothing": "", "blanks": " \n", "no JSON": "{", "a batch": "[" + ping + "]", "two": ping + ping, "a brace more": ping + "}",
		"not JSON-RPC": `{"id":1,"method":"ping"}`, "too deep": `{"jsonrpc":"2.0","id":1,"method":"x","params":` + strings.Repeat("[", 65) + strings.Repeat("]", 65) + "}",
		"too large":              ping + strings.Repeat(" ", MaxMessage),
		"too many values":        `{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":[` + strings.Repeat("0,", maxValues) + `0]}}`,
		"too many members":       `{"jsonrpc":"2.0","id":1,"method":"x","params":{` + strings.Repeat(`"a":0,`, maxValues) + `"a":0}}`,
		"too many lists":         `{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":[` + strings.Repeat("[],", maxValues/2) + `0]}}`,
		"a part of a number":     `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`,
		"a number written oddly": `{"jsonrpc":"2.0","id":1e2,"method":"ping"}`,
		"a number too large":     `{"jsonrpc":"2.0","id":1e300,"method":"ping"}`,
		"a number not exact":     `{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}`,
		"an answer to a part":    `{"jsonrpc":"2.0","id":1.5,"result":{}}`,
	} {
		if got, err := ReadMessage([]byte(text)); err == nil || got != (Message{}) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// FuzzReadMessage: what is read is one JSON value; a call of a tool is told by
// its very name; and what cancels a request names that request.
func FuzzReadMessage(f *testing.F) {
	for _, seed := range []string{`{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":"\u0000","method":"tools/call","params":{"name":"fetch","NAME":"x"}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled"}`, `{"jsonrpc":"2.0","id":9007199254740993,"method":"tools/call","params":{"name":"list_profiles"}}`, "[]", "{}}", "\x00"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := ReadMessage(text)
		if err != nil {
			if m != (Message{}) {
				t.Fatalf("%+v beside an error", m)
			}
			return
		}
		if !json.Valid(text) || m.Counted() && m.Method != "tools/call" {
			t.Fatalf("%+v", m)
		}
		if m.ID == nil {
			return
		}
		cancels, err := ReadMessage(m.Cancels())
		if err != nil || cancels.Method != "notifications/cancelled" || cancels.ID != nil {
			t.Fatalf("%s: %+v %v", m.Cancels(), cancels, err)
		}
		var back struct {
			Params struct{ RequestID json.RawMessage }
		}
		var sent map[string]any
		if json.Unmarshal(text, &sent) != nil || fmt.Sprint(idOf(sent["id"])) != fmt.Sprint(m.ID) {
			t.Fatalf("%s has the id %v", text, m.ID)
		}
		id, err := json.Marshal(m.ID)
		if err != nil || json.Unmarshal(m.Cancels(), &back) != nil || string(back.Params.RequestID) != string(id) {
			t.Fatalf("%s is cancelled by %s", id, m.Cancels())
		}
	})
}

// idOf is an id as it was written: a number that is whole, as one.
func idOf(v any) any {
	if n, ok := v.(float64); ok && n == math.Trunc(n) {
		return int64(n)
	}
	return v
}

// TestRoomIsKept: whatever is taken and given back, nobody has more than his
// room and the one above, and what was given back can be had again.
func TestRoomIsKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		above := NewRoom(100, nil)
		rooms := []*Room{NewRoom(60, above), NewRoom(70, above), above, nil}
		held := make([]int64, len(rooms))
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				i, n := rapid.IntRange(0, 2).Draw(t, "room"), rapid.Int64Range(0, 80).Draw(t, "bytes")
				had, free := rooms[i].Used(), 100-above.Used()
				got := rooms[i].take(n)
				if fits := n <= free && n <= rooms[i].most-had; got != fits {
					t.Fatalf("%d of %d, with %d free above: %v", n, rooms[i].most-had, free, got)
				}
				if got {
					held[i] += n
				}
			},
			"give": func(t *rapid.T) {
				i := rapid.IntRange(0, 2).Draw(t, "room")
				n := rapid.Int64Range(0, held[i]).Draw(t, "bytes")
				held[i] -= n
				rooms[i].give(n)
			},
			"": func(t *rapid.T) {
				if rooms[0].Used() != held[0] || rooms[1].Used() != held[1] || above.Used() != held[0]+held[1]+held[2] {
					t.Fatalf("%v, and used are %d %d %d", held, rooms[0].Used(), rooms[1].Used(), above.Used())
				}
			},
		})
	})
	var none *Room
	if !none.take(1 << 60) {
		t.Error("no room bounds something")
	}
	none.give(1)
}

// TestRoomIsSharedByMany: takers at once never pass it.
func TestRoomIsSharedByMany(t *testing.T) {
	leak.Check(t)
	above := NewRoom(50, nil)
	var all sync.WaitGroup
	for range 8 {
		r := NewRoom(20, above)
		all.Go(func() {
			for range 500 {
				if r.take(7) {
					if above.Used() > 50 || r.Used() > 20 {
						t.Error("too much")
					}
					r.give(7)
				}
			}
		})
	}
	all.Wait()
	if above.Used() != 0 {
		t.Errorf("%d are left", above.Used())
	}
}
