package assembly

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/config"
	"github.com/callcell/callcell/internal/testing/leak"
)

// logConfig is a configuration with a state of its own.
func logConfig(t *testing.T, text string) *config.Config {
	t.Helper()
	dir := t.TempDir()
	c, err := config.Read("callcell.yaml", []byte("state: "+filepath.Join(dir, "state")+"\nhelpers: /nowhere\n"+strings.ReplaceAll(text, "DIR", dir)), config.Host{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// heard is a Watch that hears the log.
type heard chan string

func (heard) Leftover(string, envelope.Level, envelope.Report) {}
func (heard) Unrecorded(string, error)                         {}
func (heard) Panicked(string, string, any, []byte)             {}
func (h heard) Log(text string)                                { h <- text }

func call(t *testing.T, l *audit.Log, team string) {
	t.Helper()
	env := envelope.Default()
	in := audit.IntentOf(l.NewID(), "local", &envelope.Call{Tool: "sh", Argv: []string{"true"}}, &env, envelope.LevelContainer, nil, nil)
	in.Team = team
	if err := l.Intend(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Complete(t.Context(), audit.EndingOf(&envelope.Result{ID: in.ID, Outcome: envelope.OutcomeCompleted})); err != nil {
		t.Fatal(err)
	}
}

// TestAnothersState: who opens a state that is another user's, as root does that
// of a daemon with serve.user, reads what to write instead.
func TestAnothersState(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a directory away")
	}
	c := logConfig(t, "")
	if err := errors.Join(os.Mkdir(c.State, 0o700), os.Chown(c.State, 65534, 65534)); err != nil {
		t.Fatal(err)
	}
	_, err := OpenLog(t.Context(), c)
	refusal := envelope.RefusalOf(err)
	if refusal == nil || !strings.Contains(refusal.Hint, "state: "+c.State+"-own") || !strings.Contains(refusal.Hint, "--config FILE") {
		t.Errorf("%v: %+v", err, refusal)
	}
}

// TestTheLogIsAnchored: a house that is closed leaves a signed checkpoint in
// the store and at every anchor that takes it, and says which does not.
func TestTheLogIsAnchored(t *testing.T) {
	leak.Check(t)
	c := logConfig(t, "audit: {anchors: [{file: DIR/kept}, {file: DIR/no/where}]}\n")
	h, said := &House{}, make(heard, 10)
	if err := h.openLog(t.Context(), c, said); err != nil {
		t.Fatal(err)
	}
	call(t, h.Log, "")
	err := h.Close(t.Context())
	if err == nil || !strings.Contains(err.Error(), "no/where") || strings.Contains(err.Error(), "kept") {
		t.Errorf("closing: %v", err)
	}
	if text := <-said; !strings.Contains(text, "no/where does not take checkpoints") {
		t.Errorf("said %q", text)
	}
	f, err := os.Open(c.Audit.Anchors[0].File)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	kept, skipped, err := audit.ReadCheckpoints(f)
	if err != nil || skipped != 0 || len(kept) != 1 || kept[0].Heads[0].Seq != 2 {
		t.Fatalf("%+v, %v", kept, err)
	}
	key, err := LogKey(c)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := OpenLog(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	report, err := reader.Log.Verify(t.Context(), audit.VerifyOptions{Key: &key, Checkpoints: kept})
	if err = errors.Join(err, reader.Close(t.Context())); err != nil || !report.Intact() || report.Checkpoints != 1 || report.ProvenTo != 2 {
		t.Errorf("%+v, %v", report, err)
	}
}

// TestReadersLeaveNoKey: who only reads makes none, and writes nothing.
func TestReadersLeaveNoKey(t *testing.T) {
	c := logConfig(t, "")
	h, err := OpenLog(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(c.KeyFile()); !os.IsNotExist(err) {
		t.Errorf("%v", err)
	}
}

// TestAnUnsafeKeyStopsTheLog: nothing is written that nobody can vouch for.
func TestAnUnsafeKeyStopsTheLog(t *testing.T) {
	c := logConfig(t, "")
	if err := errors.Join(os.MkdirAll(c.State, 0o700), os.WriteFile(c.KeyFile(), []byte("x"), 0o644)); err != nil {
		t.Fatal(err)
	}
	h := &House{}
	err := h.openLog(t.Context(), c, nil)
	var fault *LogError
	if !errors.As(err, &fault) || fault.Refusal().Hint != "chmod 600 "+c.KeyFile() {
		t.Errorf("%v", err)
	}
	if err := h.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAnAnchorWithoutItsRoots(t *testing.T) {
	c := logConfig(t, "audit: {anchors: [{http: 'https://anchor.example/', roots: DIR/none.pem}]}\n")
	err := (&House{}).openLog(t.Context(), c, nil)
	var fault *config.Error
	if !errors.As(err, &fault) || fault.Field != "audit.anchors[0]" || fault.Hint == "" {
		t.Errorf("%v", err)
	}
}
