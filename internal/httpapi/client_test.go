package httpapi_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/callcell/callcell/client"
	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/gateway"
	"github.com/callcell/callcell/internal/testing/leak"
)

// TestClient: the public client does all that a key of role call may.
func TestClient(t *testing.T) {
	leak.Check(t)
	s := newStand(t, nil)
	_, key := s.key("blue", gateway.RoleCall)
	c, err := client.New(s.url, key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.HTTP.CloseIdleConnections)
	ctx := t.Context()
	hello := &envelope.Call{Argv: []string{"/bin/print", "hello"}}
	r, err := c.Run(ctx, hello, client.Task("t-1"), client.Once("k"))
	if err != nil || !r.OK() || r.Task != "t-1" || string(r.Stdout.Head) != "hello\x00" {
		t.Fatalf("%+v %v", r, err)
	}
	if again, err := c.Run(ctx, hello, client.Task("t-1"), client.Once("k")); err != nil || again.ID != r.ID {
		t.Errorf("%+v %v", again, err)
	}
	var heard []string
	last := 0
	r, err = c.Stream(ctx, hello, func(e client.Event) error {
		heard, last = append(heard, e.Kind+string(e.Data)), e.ID
		return nil
	})
	if err != nil || !r.OK() || strings.Join(heard, " ") != "begun running stdouthello\x00 result" || last != 4 {
		t.Errorf("%q %v", heard, err)
	}
	if again, err := c.Resume(ctx, r.ID, 3, func(client.Event) error { return nil }); err != nil || again.ID != r.ID {
		t.Errorf("%+v %v", again, err)
	}
	started, err := c.Start(ctx, &envelope.Call{Argv: []string{"/bin/hang"}})
	if err != nil || started.State != "running" {
		t.Fatalf("%+v %v", started, err)
	}
	if list, err := c.List(ctx); err != nil || len(list) != 3 || list[0].ID != started.ID {
		t.Errorf("%+v %v", list, err)
	}
	s.running(key, started.ID)
	if err := c.Cancel(ctx, started.ID); err != nil {
		t.Error(err)
	}
	if r, err := c.Resume(ctx, started.ID, 0, func(client.Event) error { return nil }); err != nil || !wasCancelled(r.Outcome, r.Refusal) {
		t.Errorf("%+v %v", r, err)
	}
	if st, err := c.Get(ctx, started.ID); err != nil || st.State != "done" || st.Result == nil {
		t.Errorf("%+v %v", st, err)
	}
	if e, err := c.Explain(ctx, hello); err != nil || e.Level != envelope.LevelContainer {
		t.Errorf("%+v %v", e, err)
	}
	var p *client.Problem
	if _, err := c.Run(ctx, &envelope.Call{}); !errors.As(err, &p) || p.Refusal() == nil || p.Refusal().Reason != envelope.ReasonRequest || p.Field != "argv" || p.Hint == "" {
		t.Errorf("%v", err)
	}
	if _, err := c.Get(ctx, "nothing/../x"); !errors.As(err, &p) || p.Code != "not_found" || p.Refusal() != nil {
		t.Errorf("%v", err)
	}
	for _, base := range []string{"", "127.0.0.1:7420", "ftp://x", "http://u:p@x", "http://x/y", "http://x?y"} {
		if _, err := client.New(base, key); err == nil {
			t.Errorf("%q is taken", base)
		}
	}
}

// TestCloseEndsACallThatIsWaitedFor: when the API has ended nothing of the call
// is under way, and who waits for it hears how it ended.
func TestCloseEndsACallThatIsWaitedFor(t *testing.T) {
	leak.Check(t)
	s := newStand(t, nil)
	_, key := s.key("blue", gateway.RoleCall)
	c, err := client.New(s.url, key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.HTTP.CloseIdleConnections)
	var r *envelope.Result
	heard := make(chan error, 1)
	go func() {
		var err error
		r, err = c.Run(t.Context(), &envelope.Call{Argv: []string{"/bin/hang"}})
		heard <- err
	}()
	waitFor(t, func() bool { return s.gateway.Load().Running == 1 })
	s.api.Close()
	rows, err := s.log.List(t.Context(), auditAll())
	if err != nil || len(rows) != 1 || rows[0].Open() {
		t.Errorf("it runs after Close: %+v %v", rows, err)
	}
	var why *envelope.Refusal
	var outcome envelope.Outcome
	var p *client.Problem
	switch err := <-heard; {
	case errors.As(err, &p):
		why = p.Refusal()
	case err != nil:
		t.Fatal(err)
	default:
		outcome = r.Outcome
	}
	if !wasCancelled(outcome, why) { // it may not have come to its program
		t.Errorf("%v %+v", outcome, why)
	}
	waitFor(t, func() bool { return s.gateway.Load().Running == 0 }) // who answers has its turn until then
}
