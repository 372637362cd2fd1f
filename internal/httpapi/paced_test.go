package httpapi

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// deadlines notes what an answer's connection is told.
type deadlines struct {
	*httptest.ResponseRecorder
	set []time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error {
	d.set = append(d.set, t)
	return nil
}

// TestTimeGoesWithBytes: a body has its time for every part of the size that
// others may have, and none is left when it is over.
func TestTimeGoesWithBytes(t *testing.T) {
	w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	p := &paced{ctx: t.Context(), r: strings.NewReader(strings.Repeat("x", 35)), control: http.NewResponseController(w), each: 10, left: 10, time: time.Minute}
	if n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{p}, make([]byte, 5)); n != 35 || err != nil || p.err != nil {
		t.Errorf("%d bytes, %v %v", n, err, p.err)
	}
	if len(w.set) != 3 {
		t.Errorf("%d times more time", len(w.set))
	}
	if p.rest(); len(w.set) != 4 || !w.set[3].IsZero() || w.set[2].IsZero() {
		t.Errorf("%v", w.set)
	}
}

// TestUploadsAtOnce: a team has so many, and so have all; whoever is through
// gives its place back.
func TestUploadsAtOnce(t *testing.T) {
	var u uploads
	var leaves []func()
	enter := func(team string) error {
		leave, err := u.enter(team)
		if err == nil {
			leaves = append(leaves, leave)
		}
		return err
	}
	for i := range allUploads {
		team := string(rune('a' + i/teamUploads))
		if err := enter(team); err != nil {
			t.Fatal(err)
		}
		var p *Problem
		if i%teamUploads == teamUploads-1 && !errors.As(enter(team), &p) {
			t.Errorf("team %s has one more", team)
		} else if p != nil && (p.Code != "capacity" || !p.Retry || p.Status != 503) {
			t.Errorf("%+v", p)
		}
	}
	if enter("z") == nil {
		t.Error("all together have one more")
	}
	leaves[0]()
	if err := enter("z"); err != nil {
		t.Error(err)
	}
	for _, leave := range leaves[1:] {
		leave()
	}
	if u.all != 0 || len(u.of) != 0 {
		t.Errorf("%+v", u.of)
	}
}
