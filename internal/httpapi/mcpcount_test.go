package httpapi_test

import (
	"strings"
	"testing"
	"time"

	"github.com/callcell/callcell/internal/gateway"
	"github.com/callcell/callcell/internal/testing/leak"
)

// stopped is a clock that does not go on.
type stopped struct{ at time.Time }

func (s stopped) Now() time.Time { return s.at }

func (stopped) Ticker(time.Duration) (<-chan time.Time, func()) { return nil, func() {} }

// TestEveryMessageIsCounted: a key can send no message without end. What names a
// tool and ends before it comes there is no call, and what cancels a call is
// counted apart, where it is small.
func TestEveryMessageIsCounted(t *testing.T) {
	leak.Check(t)
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_command","arguments":{"argv":["/bin/print"]}}}`
	cancels := func(why string) string {
		return `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"none","reason":"` + why + `"}}`
	}
	for _, c := range []struct {
		name, body string
		headers    []string
		most       int // that are taken
	}{
		{"its _meta is none", strings.Replace(call, `"arguments"`, `"_meta":5,"arguments"`, 1), nil, 60},
		{"another tool is named, too", strings.Replace(call, `"arguments"`, `"name":"other","arguments"`, 1), nil, 600},
		{"nobody waits for its answer", strings.Replace(call, `"id":1,`, "", 1), nil, 60},
		{"a revision that there is not", call, []string{"Mcp-Protocol-Version", "1999-01-01"}, 60},
		{"the client says that it was counted", strings.Replace(call, `"arguments"`, `"_meta":5,"arguments"`, 1), []string{"Callcell-Message", "x"}, 60},
		{"it cancels", cancels(""), nil, 1200 + 600},
		{"it is large and cancels", cancels(strings.Repeat("x", 1<<10)), nil, 600},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStandAt(t, stopped{time.Now()}, nil)
			_, key := s.key("blue", gateway.RoleCall)
			session := s.session(key)
			taken := 0
			for a := s.mcp("POST", key, session, c.body, c.headers...); a.StatusCode != 429; a = s.mcp("POST", key, session, c.body, c.headers...) {
				if taken++; taken > c.most {
					t.Fatalf("more than %d were taken: %d %s", c.most, a.StatusCode, a.body)
				}
			}
			if taken < c.most-5 { // what opens the session is counted, too
				t.Errorf("%d were taken", taken)
			}
		})
	}
}

// TestCallsAreCountedOnce: what the gateway counts is not counted as no call, too.
func TestCallsAreCountedOnce(t *testing.T) {
	leak.Check(t)
	s := newStand(t, nil)
	_, key := s.key("blue", gateway.RoleCall)
	session := s.session(key)
	for i := range 100 {
		for _, params := range []string{`{"name":"run_command","arguments":{"argv":["/bin/print"]}}`, `{"name":"run_command","arguments":{"sudo":true}}`, `{"name":"list_profiles","arguments":{}}`} {
			if a := s.mcp("POST", key, session, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`+params+`}`); a.StatusCode != 200 {
				t.Fatalf("%d: %s: %d %s", i, params, a.StatusCode, a.body)
			}
		}
	}
}
