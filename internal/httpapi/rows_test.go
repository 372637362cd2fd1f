package httpapi_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/callcell/callcell/client"
	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/gateway"
)

// TestClientReadsRows: in pages, by what they say, and one in full, which is what
// the log has.
func TestClientReadsRows(t *testing.T) {
	s := newStand(t, nil)
	ctx := t.Context()
	c := s.client("blue", gateway.RoleCall)
	var ids []string
	for i := range 5 {
		r, err := c.Run(ctx, &envelope.Call{Argv: []string{"/bin/print", "x"}, Task: fmt.Sprintf("t-%d", i%2), Tool: "print & <co>"})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, r.ID)
	}
	if _, err := s.client("blue", gateway.RoleCall).Run(ctx, &envelope.Call{Argv: []string{"/bin/print"}}); err != nil {
		t.Fatal(err)
	}
	var got []string
	f := &client.RowFilter{Limit: 2}
	for {
		rows, next, err := c.Rows(ctx, f)
		if err != nil {
			t.Fatal(err)
		}
		for i := range rows {
			got = append([]string{rows[i].ID}, got...)
		}
		if next == "" {
			break
		}
		f.Before = next
	}
	if !reflect.DeepEqual(got, ids) {
		t.Errorf("%q, want %q", got, ids)
	}
	rows, _, err := c.Rows(ctx, &client.RowFilter{Task: "t-1", Tool: "print & <co>", Outcome: envelope.OutcomeCompleted, Level: envelope.LevelContainer})
	if err != nil || len(rows) != 2 || rows[0].ID != ids[3] || rows[0].Task != "t-1" || rows[0].Team != "blue" || rows[0].Receipt == nil {
		t.Errorf("%+v %v", rows, err)
	}
	if rows, next, err := c.Rows(ctx, &client.RowFilter{Open: true}); err != nil || len(rows) != 0 || next != "" {
		t.Errorf("%+v %q %v", rows, next, err)
	}
	one, err := c.Row(ctx, ids[0])
	if err != nil {
		t.Fatal(err)
	}
	var there audit.Row
	here, err := s.log.Row(ctx, ids[0])
	if err = errors.Join(err, json.Unmarshal(one.Record, &there)); err != nil {
		t.Fatal(err)
	}
	want, err := json.Marshal(here)
	text, failed := json.Marshal(there)
	if err = errors.Join(err, failed); err != nil || string(text) != string(want) {
		t.Errorf("%s, want %s: %v", text, want, err)
	}
	var p *client.Problem
	if _, err := s.client("red", gateway.RoleRead).Row(ctx, ids[0]); !errors.As(err, &p) || p.Code != "not_found" {
		t.Errorf("%v", err)
	}
}
