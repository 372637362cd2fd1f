package inside_test

import (
	"testing"

	"github.com/callcell/callcell/internal/guest"
)

func TestGuest(t *testing.T) {
	each(t, map[string]func(*testing.T, place){
		"how a program ends": ends,
	})
}

func ends(t *testing.T, p place) {
	s := p.prepared(t, guest.Place{})
	exit, out, err := s.probe("exit", "3")
	if exit.Code != 3 || exit.Signal != 0 || out != "out\n" || err != "err\n" {
		t.Errorf("%+v %q %q", exit, out, err)
	}
}
