package store

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
)

// long reports whether the tests may take their time.
func long() bool { return os.Getenv("CALLCELL_LONG") != "" }

// crasher is the writer that is killed: eight callers at once, what is
// refused, what is counted, checkpoints, and rows that are pruned. It says what
// it was told is durable.
func crasher(ctx context.Context, path string) error {
	d, err := Open(ctx, path)
	if err != nil {
		return err
	}
	l, err := audit.New(d.Audit(), audit.Options{Signer: audit.NewKey([32]byte{1}), CheckpointEvents: 20, TTL: time.Second, Window: time.Second})
	if err != nil {
		return err
	}
	if _, err := l.Recover(ctx); err != nil {
		return err
	}
	out := make(chan string)
	fault := make(chan error, 8)
	for w := range 8 {
		go func() {
			for i := 0; ; i++ {
				if err := crashCall(ctx, l, w, i, out); err != nil {
					fault <- err
					return
				}
			}
		}()
	}
	for {
		select {
		case line := <-out:
			fmt.Println(line)
		case err := <-fault:
			return err
		}
	}
}

func crashCall(ctx context.Context, l *audit.Log, worker, n int, out chan<- string) error {
	id := l.NewID()
	l.Count("name", fmt.Sprint(n))
	say := func(what string, r envelope.Receipt) error {
		text, err := json.Marshal(r)
		out <- what + " " + id + " " + string(text)
		return err
	}
	if n%5 == 4 {
		r, err := l.Refuse(ctx, audit.Refused{Intent: audit.Intent{ID: id}, Refusal: envelope.Refusal{Reason: envelope.ReasonRate}})
		return errors.Join(err, say("refusal", r))
	}
	in := intent(id)
	in.Team = []string{"", "short"}[worker%2]
	if err := l.Intend(ctx, in); err != nil {
		return err
	}
	out <- "intent " + id
	r, err := l.Complete(ctx, completed(id))
	if err != nil {
		return err
	}
	if n%16 == 15 && worker == 1 {
		_, err = l.Prune(ctx, audit.Retention{Age: func(team string) time.Duration { return map[string]time.Duration{"short": 20 * time.Millisecond}[team] }})
		if errors.Is(err, audit.ErrBusy) { // the scrubbing waits for nobody
			err = nil
		}
	}
	return errors.Join(err, say("outcome", r))
}

// TestKilledUnderLoad kills the writer at random moments. After the next start
// every call that was acknowledged has its row and its receipt, none is open,
// and the chain is whole.
func TestKilledUnderLoad(t *testing.T) {
	kills := 10
	if long() {
		kills = 100
	}
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	path := file(t)
	told := map[string]string{}
	var receipts []envelope.Receipt
	for range kills {
		receipts = append(receipts, killed(t, path, told, time.Duration(rng.IntN(int(200*time.Millisecond))))...)
	}
	for round := 0; checkpoints(t, path) == 0 && round < 20; round++ { // on a slow host none wrote for long enough
		receipts = append(receipts, killed(t, path, told, time.Duration(round+1)*time.Second)...)
	}
	d := open(t, path)
	l := log(t, d, audit.Options{Clock: &clock{}})
	lost, err := l.Recover(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	key := audit.NewKey([32]byte{1}).Public()
	rep, err := l.Verify(t.Context(), audit.VerifyOptions{Against: receipts, Key: &key})
	if err != nil || !rep.Intact() || rep.Open != 0 || rep.Foreign != 0 || rep.Checkpoints == 0 || rep.Calls < int64(len(told)) {
		t.Errorf("%d calls and %d receipts were told: %+v, %v", len(told), len(receipts), rep, err)
	}
	rows := map[string]envelope.Outcome{}
	for id, what := range told {
		row, err := l.Row(t.Context(), id)
		switch {
		case errors.Is(err, audit.ErrNotFound): // pruned, which verify has held against its event
			continue
		case err != nil || row.Open():
			t.Errorf("%s of %s was told: %+v, %v", what, id, row, err)
		case what == "outcome" && row.Outcome != envelope.OutcomeCompleted, what == "refusal" && !row.Reason.Valid():
			t.Errorf("%s of %s was told, and its row ends as %s %s", what, id, row.Outcome, row.Reason)
		}
		rows[id] = row.Outcome
	}
	t.Logf("%d told, %d rows of them, %d lost at the end, %d events, %d erased, %d checkpoints", len(told), len(rows), len(lost), rep.Events, rep.Erased, rep.Checkpoints)
}

// checkpoints returns how many there are in a file that nobody has open.
func checkpoints(t *testing.T, path string) (n int) {
	t.Helper()
	d, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	err = d.read.QueryRowContext(t.Context(), "SELECT count(*) FROM events WHERE kind = ?", int64(audit.KindCheckpoint)).Scan(&n)
	if err = errors.Join(err, d.Close()); err != nil {
		t.Fatal(err)
	}
	return n
}

// killed runs the writer, kills it some time after it has said its first
// words, and returns the receipts that it gave.
func killed(t *testing.T, path string, told map[string]string, after time.Duration) (receipts []envelope.Receipt) {
	t.Helper()
	r, w := io.Pipe()
	cmd := helper(t, w, "crash", path)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		cmd.Wait()
		w.Close()
	}()
	var once sync.Once
	for lines := bufio.NewScanner(r); lines.Scan(); {
		once.Do(func() { time.AfterFunc(after, func() { cmd.Process.Kill() }) })
		note(told, lines.Text())
		f := strings.SplitN(lines.Text(), " ", 3)
		var receipt envelope.Receipt
		if len(f) == 3 && json.Unmarshal([]byte(f[2]), &receipt) == nil && receipt.Seq > 0 {
			receipts = append(receipts, receipt)
		}
	}
	return receipts
}

// TestVerifyManyEvents walks a long chain in one pass, in bounded memory.
func TestVerifyManyEvents(t *testing.T) {
	calls := 10_000
	if long() {
		calls = 500_000
	}
	d := open(t, file(t))
	const batch = 2000
	for done := 0; done < calls; done += batch {
		if err := d.Audit().Update(t.Context(), func(tx audit.Tx) error { return manyCalls(tx, batch) }); err != nil {
			t.Fatal(err)
		}
	}
	l := log(t, d, audit.Options{})
	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	var most uint64
	var steps, last int64
	began := time.Now()
	rep, err := l.Verify(t.Context(), audit.VerifyOptions{Progress: func(done, of int64) {
		if of != int64(2*calls) || done <= last || done > of {
			t.Fatalf("%d of %d after %d", done, of, last)
		}
		last = done
		if steps++; steps%64 == 0 {
			runtime.ReadMemStats(&now)
			most = max(most, now.HeapAlloc)
		}
	}})
	if err != nil || !rep.Intact() || rep.Events != int64(2*calls) || last != rep.Events {
		t.Errorf("%+v, %v", rep, err)
	}
	if grown := int64(most) - int64(before.HeapAlloc); grown > 32<<20 {
		t.Errorf("%d bytes more in memory", grown)
	}
	t.Logf("%d events in %v", rep.Events, time.Since(began))
}

// manyCalls appends calls that are not told one by one.
func manyCalls(tx audit.Tx, n int) error {
	for range n {
		now := time.Now().UTC().Round(0)
		e := audit.Entry{ID: audit.NewID(now), Chain: audit.DefaultChain, Instance: "bulk", Task: "task", Tool: "sh", Level: envelope.LevelContainer}
		if err := bulk(tx, audit.KindIntent, &e, now, `{"task":"task","tool":"sh","level":"container"}`); err != nil {
			return err
		}
		e.Outcome = envelope.OutcomeCompleted
		if err := bulk(tx, audit.KindOutcome, &e, now, `{"outcome":"completed","exit":{"code":0,"source":"host"}}`); err != nil {
			return err
		}
	}
	return nil
}

func bulk(tx audit.Tx, kind audit.Kind, entry *audit.Entry, at time.Time, body string) error {
	head, err := tx.Head(audit.DefaultChain)
	if err != nil {
		return err
	}
	e := audit.Event{Chain: audit.DefaultChain, Kind: kind, CallID: entry.ID, Instance: "bulk", At: at, Body: []byte(body)}
	e.Link(head)
	if entry.First == 0 {
		entry.First = e.Seq
	}
	if kind.Ends() {
		entry.Last = e.Seq
	}
	return tx.Append(&e, entry)
}
