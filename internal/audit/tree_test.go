package audit_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/store/storetest"
)

// TestTreesLeaveDigests: a row says which files there were and what they became,
// by digests, and holds none of their bytes.
func TestTreesLeaveDigests(t *testing.T) {
	for _, mode := range []audit.ArgumentMode{audit.ArgumentsKept, audit.ArgumentsDigested, audit.ArgumentsDropped} {
		l := newLog(t, new(storetest.Memory), audit.Options{Arguments: mode})
		in := intent(l.NewID())
		in.Call.Tree = &envelope.Tree{
			Files:  []envelope.File{{Name: "b", Data: []byte("CONTENT-1"), Executable: true}, {Name: "a", Data: []byte("CONTENT-2")}},
			Ignore: []envelope.Ignore{{Rules: "*.o"}},
		}
		in.Call.Workspace = &envelope.Workspace{Name: "w", Version: 3}
		res := &envelope.Result{ID: in.ID, Outcome: envelope.OutcomeCompleted,
			Changes: &envelope.Changes{Same: 1, Complete: true, Files: []envelope.Change{
				{Name: "a", Kind: envelope.ChangeChanged, Data: []byte("CONTENT-3"), Before: "sha256:00", After: "sha256:11"}, {Name: "b", Kind: envelope.ChangeRemoved, Before: "sha256:22"}}},
			Workspace: &envelope.WorkspaceUse{Name: "w", Read: 3, Wrote: 4}}
		if err := l.Intend(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Complete(t.Context(), audit.EndingOf(res)); err != nil {
			t.Fatal(err)
		}
		row := row(t, l, in.ID)
		text, err := json.Marshal(row)
		if err != nil || strings.Contains(string(text), "CONTENT") || strings.Contains(string(text), "Q09OVEVOVC") {
			t.Errorf("%v: contents are in the row: %v %s", mode, err, text)
		}
		args := row.Intent.Arguments
		if args.Tree == nil || args.Tree.Files != 2 || args.Tree.Bytes != 18 || (args.Tree.SHA256 == "") != (mode == audit.ArgumentsDropped) {
			t.Errorf("%v: %+v", mode, args.Tree)
		}
		if (args.Workspace == nil) != (mode == audit.ArgumentsDropped) {
			t.Errorf("%v: %+v", mode, args.Workspace)
		}
		c := row.Ending.Changes
		if c == nil || c.Count != 2 || len(c.Files) != 2 || c.Files[0].Kind != envelope.ChangeChanged || c.Files[0].Bytes != 9 || !c.Complete {
			t.Errorf("%v: %+v", mode, c)
		}
		if w := row.Ending.Workspace; w == nil || w.Wrote != 4 {
			t.Errorf("%v: %+v", mode, w)
		}
	}
}
