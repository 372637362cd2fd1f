package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/testing/leak"
)

// good is a call that writes a text and ends well.
func good(text string) Runner {
	return func(_ context.Context, _ *envelope.Call, out, err io.Writer) *envelope.Result {
		fmt.Fprintln(err, "installing")
		_, failed := io.WriteString(out, text)
		r := &envelope.Result{ID: "01890000-0000-7000-8000-000000000001", Outcome: envelope.OutcomeCompleted}
		if failed != nil {
			r.Outcome = envelope.OutcomeOutput
		}
		r.Outputs = []envelope.File{{Name: pipFile, Data: []byte(pipText)}}
		return r
	}
}

const pipText = `{"version":"1","install":[{"metadata":{"name":"six","version":"1.16.0"},"download_info":{"url":"https://x.test/six.whl",
"archive_info":{"hash":"sha256=8abb2f1d86890a2dfb989f9a77cfcfd3e47c2a354b01111771326f8aa26e0254"}}}]}`

func sixPlan(t *testing.T, lock *Lock) *Plan {
	t.Helper()
	p, err := PlanBuild(BuildOptions{Name: "six", Pip: []string{"six"}, Lock: lock, Tool: []byte("x"), Limits: Limits{Bytes: 1 << 20, Entries: 100}})
	must(t, err)
	return p
}

func TestMakeRecordsWhatCameOut(t *testing.T) {
	leak.Check(t)
	m, store := newMaker(t)
	made, err := m.Make(t.Context(), sixPlan(t, nil), good("the tree"))
	must(t, err)
	r, err := m.Index.Get("build:six")
	must(t, err)
	if r.Added == "" || r.Added != made.Record.Added || r.Tree != "" || store.trees[r.Added].Bytes != 8 || store.staged != 0 {
		t.Errorf("%+v; store %+v", r, store.trees)
	}
	if len(r.Lock.Pip) != 1 || r.Lock.Pip[0].Version != "1.16.0" || r.Lock.Added != r.Added || r.Call == "" {
		t.Errorf("lock %+v", r.Lock)
	}
	if log, err := m.Index.Log(r); err != nil || string(log) != "installing\n" {
		t.Errorf("log %q, %v", log, err)
	}
	f, err := m.Index.Find("build:six", envelope.LevelContainer)
	if err != nil || f.Root.Added != r.Added || f.Root.Tree != "" || f.Env["PYTHONPATH"] != "/opt/callcell/python" || f.Digest != r.Digest() {
		t.Errorf("found %+v, %v", f, err)
	}
	var refusal *envelope.Refusal
	if _, err = m.Index.Find("build:six", envelope.LevelUserKernel); !errors.As(err, &refusal) || refusal.Hint != "callcell image host" {
		t.Errorf("a kernel of its own without a snapshot: %v", err)
	}
}

// TestMakeLeavesNothing: of what did not come to its end, there is neither
// record nor tree nor goroutine, and what was there before is.
func TestMakeLeavesNothing(t *testing.T) {
	leak.Check(t)
	ended := func(o envelope.Outcome, code int) Runner {
		return func(_ context.Context, _ *envelope.Call, out, err io.Writer) *envelope.Result {
			fmt.Fprintln(err, "E: no such package")
			io.WriteString(out, "half")
			return &envelope.Result{ID: "x", Outcome: o, Exit: envelope.Exit{Code: code}}
		}
	}
	for name, c := range map[string]struct {
		run    Runner
		adjust func(*Maker, *memory)
		want   string
	}{
		"it fails":                            {ended(envelope.OutcomeCompleted, 1), nil, "status 1"},
		"it fails, and its stream has no end": {ended(envelope.OutcomeCompleted, 1), func(_ *Maker, s *memory) { s.ending = errors.New("no end mark") }, "(status 1): E: no such package"},
		"it is ended":                         {ended(envelope.OutcomeMemory, -1), nil, "memory"},
		"its stream is bad":                   {good("x"), func(_ *Maker, s *memory) { s.refuse = &Error{Kind: KindSource, Msg: "not a tar stream"} }, "not a tar stream"},
		"it is too much":                      {good(strings.Repeat("x", 200)), nil, "too much"},
		"there is no room":                    {good("x"), func(m *Maker, _ *memory) { m.Most = 0 }, "the store holds"},
		"it cannot be kept":                   {good("x"), func(_ *Maker, s *memory) { s.keep = errors.New("disk full") }, "disk full"},
		"its report is wrong": {func(ctx context.Context, c *envelope.Call, o, e io.Writer) *envelope.Result {
			r := good("x")(ctx, c, o, e)
			r.Outputs = nil
			return r
		}, nil, "malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			m, store := newMaker(t)
			before, err := m.Make(t.Context(), sixPlan(t, nil), good("before"))
			must(t, err)
			if c.adjust != nil {
				c.adjust(m, store)
			}
			if _, err := m.Make(t.Context(), sixPlan(t, nil), c.run); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			r, err := m.Index.Get("build:six")
			if err != nil || r.Added != before.Record.Added || len(store.trees) != 1 || store.staged != 0 {
				t.Errorf("%+v, %v; %d trees, %d staged", r, err, len(store.trees), store.staged)
			}
		})
	}
}

// TestWhatWasDeniedIsNamed: a build that was kept from a host says which, once,
// and what lets it; a host's name is a program's word, and bounded.
func TestWhatWasDeniedIsNamed(t *testing.T) {
	no := func(host string, port int) envelope.Attempt {
		return envelope.Attempt{Host: host, Port: port, Verdict: envelope.VerdictDenied, Why: "no entry of network.allow covers it"}
	}
	attempts := []envelope.Attempt{{Host: "index.test", Port: 443, Verdict: envelope.VerdictAllowed}, no("files.test", 443), no("files.test", 443), no("a.test", 0)}
	for i := range 50 {
		attempts = append(attempts, no(strings.Repeat("\x1b", 1000)+fmt.Sprint(i), 1))
	}
	m, _ := newMaker(t)
	_, err := m.Make(t.Context(), sixPlan(t, nil), func(_ context.Context, _ *envelope.Call, _, err io.Writer) *envelope.Result {
		fmt.Fprintln(err, "ERROR: no matching distribution")
		return &envelope.Result{ID: "x", Outcome: envelope.OutcomeCompleted, Exit: envelope.Exit{Code: 1}, Egress: &envelope.Egress{Attempts: attempts}}
	})
	var fault *Error
	if !errors.As(err, &fault) || !strings.Contains(fault.Hint, "--allow") {
		t.Fatalf("%v", err)
	}
	for text, want := range map[string]int{`"files.test", port 443 (no entry`: 1, `"a.test" (no`: 1, "index.test": 0, "\x1b": 0, "may not reach": 1} {
		if n := strings.Count(err.Error(), text); n != want {
			t.Errorf("%q %d times in %v", text, n, err)
		}
	}
	if len(err.Error()) > 4096 {
		t.Errorf("an error of %d bytes", len(err.Error()))
	}
	attempts = []envelope.Attempt{{Host: "index.test", Port: 443, Verdict: envelope.VerdictDenied, Why: "resolved address not allowed", Blocked: "10.1.2.3"}}
	_, err = m.Make(t.Context(), sixPlan(t, nil), func(context.Context, *envelope.Call, io.Writer, io.Writer) *envelope.Result {
		return &envelope.Result{ID: "x", Outcome: envelope.OutcomeCompleted, Exit: envelope.Exit{Code: 1}, Egress: &envelope.Egress{Attempts: attempts}}
	})
	if !errors.As(err, &fault) || !strings.Contains(fault.Hint, "network.private has 10.1.2.3") || strings.Contains(fault.Hint, "--allow") {
		t.Errorf("the host is allowed, and its address is not: %v, %+v", err, fault)
	}
}

// TestComplaint: of what a build printed the lines that say why it failed are
// told, and not its last one.
func TestComplaint(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "one\ntwo\n\n": "two", "ERROR: no match\n[notice] a new pip\n": "ERROR: no match",
		"npm error code E404\nnpm error 404 none\nnpm error A complete log of this run can be found in: /x.log\n": "npm error code E404; npm error 404 none",
	} {
		k := newKept(nil)
		fmt.Fprint(k, text)
		if got := k.complaint(); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestMakeIsCancelled(t *testing.T) {
	leak.Check(t)
	m, store := newMaker(t)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := m.Make(ctx, sixPlan(t, nil), func(ctx context.Context, _ *envelope.Call, out, _ io.Writer) *envelope.Result {
		io.WriteString(out, "half")
		cancel()
		return &envelope.Result{ID: "x", Outcome: envelope.OutcomeCancelled}
	})
	if err == nil || len(store.trees) != 0 || store.staged != 0 {
		t.Errorf("%v; %d trees, %d staged", err, len(store.trees), store.staged)
	}
}

func TestCollect(t *testing.T) {
	leak.Check(t)
	m, store := newMaker(t)
	_, err := m.Make(t.Context(), sixPlan(t, nil), good("one"))
	must(t, err)
	_, err = m.Make(t.Context(), sixPlan(t, nil), good("another"))
	must(t, err) // in the place of the one
	busy := Tree{Digest: "sha256:" + strings.Repeat("b", 64), Bytes: 5, Owned: true}
	theirs := Tree{Digest: "sha256:" + strings.Repeat("c", 64), Bytes: 5}
	store.trees[theirs.Digest] = theirs
	store.trees[busy.Digest], store.inUse[busy.Digest] = busy, true

	dry, err := Collect(t.Context(), m.Index, store, true)
	if err != nil || len(dry.Removed) != 2 || len(store.trees) != 4 {
		t.Errorf("dry: %+v, %v", dry, err)
	}
	done, err := Collect(t.Context(), m.Index, store, false)
	if err != nil || len(done.Removed) != 1 || done.Bytes != 3 || len(done.InUse) != 1 || done.Kept != 1 || len(store.trees) != 3 {
		t.Errorf("%+v, %v", done, err)
	}
	must(t, m.Index.Remove(t.Context(), "build:six"))
	if done, err = Collect(t.Context(), m.Index, store, false); err != nil || len(done.Removed) != 1 {
		t.Errorf("%+v, %v", done, err)
	}
	var fault *Error
	if _, err := m.Index.Get("build:six"); !errors.As(err, &fault) || fault.Kind != KindAbsent || !strings.Contains(fault.Hint, "image build six") {
		t.Errorf("after rm: %v", err)
	}
}

// TestCollectStopsAtARecordThatCannotBeRead: it may name any tree.
func TestCollectStopsAtARecordThatCannotBeRead(t *testing.T) {
	m, store := newMaker(t)
	_, err := m.Make(t.Context(), sixPlan(t, nil), good("one"))
	must(t, err)
	must(t, replace(m.Index.file("build:other"), []byte("{")))
	if _, err := Collect(t.Context(), m.Index, store, false); err == nil || len(store.trees) != 1 {
		t.Errorf("%v, %d trees", err, len(store.trees))
	}
}

// TestLockKeepsOthersOut: nothing is removed while something is made.
func TestLockKeepsOthersOut(t *testing.T) {
	m, store := newMaker(t)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := m.Make(t.Context(), sixPlan(t, nil), func(_ context.Context, c *envelope.Call, o, e io.Writer) *envelope.Result {
		cancel()
		var fault *Error
		if _, err := Collect(ctx, m.Index, store, false); !errors.As(err, &fault) || fault.Kind != KindInUse {
			t.Errorf("collected meanwhile: %v", err)
		}
		return good("one")(ctx, c, o, e)
	})
	must(t, err)
}

// TestOwnerStays, whoever asks first.
func TestOwnerStays(t *testing.T) {
	dir := t.TempDir()
	owners := make(chan string, 8)
	for range cap(owners) {
		go func() {
			owner, err := NewIndex(dir).Owner()
			if err != nil {
				t.Error(err)
			}
			owners <- owner
		}()
	}
	first := <-owners
	for range cap(owners) - 1 {
		if o := <-owners; o != first || len(o) != 32 {
			t.Errorf("%q and %q", o, first)
		}
	}
}

// TestBaseThatIsMadeAnew: what was installed on one base is not recorded as on
// another, which somebody has pulled under the same name meanwhile.
func TestBaseThatIsMadeAnew(t *testing.T) {
	base := &Record{Version: 1, Name: "oci:base:1", Tree: "sha256:" + sum}
	for image, want := range map[string]bool{base.Digest(): true, "sha256:" + strings.Repeat("cd", 32): false, "": false} {
		m, trees := newMaker(t)
		p, err := PlanBuild(BuildOptions{Name: "six", Base: base, Run: []string{"true"}, Tool: []byte("x"), Limits: Limits{Bytes: 1 << 20, Entries: 100}})
		must2(t, err)
		made, err := m.Make(t.Context(), p, func(ctx context.Context, call *envelope.Call, stdout, stderr io.Writer) *envelope.Result {
			r := good("a tree")(ctx, call, stdout, stderr)
			r.Image = image
			return r
		})
		if (err == nil) != want || want && made.Record.Tree != base.Tree {
			t.Errorf("built on %q: %v", image, err)
		}
		if left, _ := trees.List(t.Context()); !want && len(left) > 0 {
			t.Errorf("left %v", left)
		}
	}
}

// TestQuotaOfMakersAtOnce: what others keep meanwhile counts too.
func TestQuotaOfMakersAtOnce(t *testing.T) {
	m, store := newMaker(t)
	m.Most = 150
	_, err := m.Make(t.Context(), sixPlan(t, nil), func(ctx context.Context, call *envelope.Call, stdout, stderr io.Writer) *envelope.Result {
		if _, err := m.Make(ctx, sixPlan(t, nil), good(strings.Repeat("a", 100))); err != nil {
			t.Error(err)
		}
		return good(strings.Repeat("b", 100))(ctx, call, stdout, stderr)
	})
	var fault *Error
	if !errors.As(err, &fault) || fault.Kind != KindQuota || len(store.trees) != 1 || store.staged != 0 {
		t.Errorf("%v; %d trees, %d staged", err, len(store.trees), store.staged)
	}
	if _, err := m.Make(t.Context(), sixPlan(t, nil), good("b")); err != nil {
		t.Error(err)
	}
}
