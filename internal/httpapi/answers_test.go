package httpapi

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/project/diff"
)

// TestTextsAreBoundedTogether: what several are sent is there once, a key has its
// share, and whoever has none of it may have one text, however large.
func TestTextsAreBoundedTogether(t *testing.T) {
	texts := newTexts(100)
	one, two, three, whole := make([]byte, 20), make([]byte, 20), make([]byte, 20), make([]byte, 90)
	var leaves []func()
	enter := func(key string, text []byte, want bool) {
		t.Helper()
		leave := texts.enter(key, text)
		if (leave != nil) != want {
			t.Errorf("%s may have %d bytes more: %t", key, len(text), leave != nil)
		}
		if leave != nil {
			leaves = append(leaves, leave)
		}
	}
	enter("blue", one, true)
	enter("blue", one, true)
	enter("blue", two, false) // a quarter is 25
	enter("red", whole, false)
	enter("red", two, true)
	enter("red", one, false)
	enter("green", one, true)
	enter("white", three, true)
	if size := texts.size[""]; size != 60 {
		t.Errorf("%d bytes are sent", size)
	}
	for _, leave := range leaves {
		leave()
	}
	if len(texts.times) != 0 || len(texts.size) != 0 {
		t.Errorf("%v, %v", texts.times, texts.size)
	}
	enter("red", make([]byte, 200), true)
	enter("blue", one, false)
}

// TestAssistantsAnswersAreBounded: one that there is no room for is refused, or
// broken off where it was begun; never cut short as if it were all.
func TestAssistantsAnswersAreBounded(t *testing.T) {
	full := errors.New("full")
	w := &eventWriter{ResponseWriter: httptest.NewRecorder(), header: http.Header{}, room: func(...[]byte) (func(), error) { return nil, full }}
	if n, err := w.Write([]byte("x")); n != 0 || !errors.Is(err, full) || w.started() || w.overfull() == nil {
		t.Errorf("%d, %v; begun: %t", n, err, w.started())
	}
	w.sent = true
	defer func() {
		if v := recover(); v != http.ErrAbortHandler {
			t.Errorf("%v", v)
		}
	}()
	t.Errorf("goes on: %v", w.overfull())
}

// TestAModeIsNoBytesOfAPatch: files that may only be executed now are in a patch,
// however large they are.
func TestAModeIsNoBytesOfAPatch(t *testing.T) {
	old := []byte("\x00\x01\x02\x03")
	for kind, whole := range map[envelope.ChangeKind]bool{envelope.ChangeMode: true, envelope.ChangeChanged: false} {
		left := room{packed: 3}
		f := diff.Of(old, false, &envelope.Change{Name: "a", Kind: kind, Executable: true, Data: old})
		left.add(&f)
		if got := left.packed >= 0 && left.patch.Len() > 0; got != whole {
			t.Errorf("%s: in the patch: %t, %q", kind, got, left.patch.String())
		}
	}
}
