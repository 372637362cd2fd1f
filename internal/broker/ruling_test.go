package broker

import (
	"reflect"
	"sync"
	"testing"

	"github.com/callcell/callcell/envelope"
)

// TestRememberedIsWhatFollows: a profile that changes under its name, also in
// place, is ruled on anew; a request is never answered from memory; who is given
// a ruling's parts cannot change another's.
func TestRememberedIsWhatFollows(t *testing.T) {
	var m rulings
	profile := envelope.Default()
	profile.Network.Allow = []envelope.Allow{{Host: "a.example", Ports: []int{443}}}
	pids := envelope.Count(7)
	for i, change := range []func(){
		func() {},
		func() { profile.Resources.CPU++ },
		func() { profile.Network.Allow[0].Host = "b.example" },
		func() { profile.Network.Allow[0].Ports[0] = 80 },
		func() { profile.Environment = []string{"A"} },
	} {
		change()
		for _, request := range []*envelope.Request{nil, {Resources: &envelope.ResourcesRequest{Pids: &pids}}, nil} {
			got, err := m.of("p", profile, request)
			want, failed := rule(profile, request)
			if err != nil || failed != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%d: got %+v %v, want %+v %v", i, got, err, want, failed)
			}
		}
		again, err := m.of("p", profile, nil)
		if once, _ := m.of("p", profile, nil); err != nil || once != again {
			t.Errorf("%d: it is worked out each time", i)
		}
		f := &flight{result: &envelope.Result{}}
		f.force(again)
		f.result.Envelope.Network.Allow[0].Host = "c.example"
		f.result.Warnings = append(f.early, "x")
		if fresh, _ := rule(profile, nil); !reflect.DeepEqual(fresh, again) {
			t.Errorf("%d: a result changed the ruling", i)
		}
	}
	if profile.Resources.Memory = -1; true {
		if r, err := m.of("p", profile, nil); err == nil {
			t.Errorf("a profile that is not valid: %+v", r)
		}
	}
}

// TestRulingsTogether is for the race detector, and for the bound.
func TestRulingsTogether(t *testing.T) {
	var m rulings
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			profile := envelope.Default()
			for n := range maxRulings {
				profile.Resources.CPU = envelope.Default().Resources.CPU + envelope.CPU(i%2)
				r, err := m.of(string(rune('a'+n)), profile, nil)
				if err != nil || r.env.Resources.CPU != profile.Resources.CPU {
					t.Errorf("%+v %v", r, err)
				}
			}
		})
	}
	all.Wait()
	if len(m.by) > maxRulings {
		t.Errorf("%d are remembered", len(m.by))
	}
}
