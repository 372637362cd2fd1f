package cell

import (
	"reflect"
	"strings"
	"testing"

	"gvisor.dev/gvisor/runsc/boot"
)

const usual = "-spec-fd=3 -io-fds=4 -mount-confs=erofs:none -status-fd=5 -stdio-fds=6,7,8 -memory=268435456"

func TestParse(t *testing.T) {
	o, err := parse(strings.Fields(usual + " -pass-fd=9:3,10:4 -loopback=198.18.0.1/15 -cpus=2"))
	if err != nil {
		t.Fatal(err)
	}
	if want := []int{3, 5, 4, 6, 7, 8, 9, 10}; !reflect.DeepEqual(o.fds(), want) {
		t.Errorf("descriptors %v, not %v", o.fds(), want)
	}
	if want := []boot.FDMapping{{Host: 9, Guest: 3}, {Host: 10, Guest: 4}}; !reflect.DeepEqual(o.pass, want) {
		t.Errorf("passed are %v", o.pass)
	}
	if o.cpus != 2 || o.network != networkNone || o.memory != 256<<20 || len(o.lo) != 1 {
		t.Errorf("got %+v", o)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, r := range []struct{ more, why string }{
		{"", ""},
		{"-spec-fd=-1", "are needed"},
		{"-stdio-fds=6,7", "three descriptors"},
		{"-io-fds=4,9", "both of them"},
		{"-mount-confs=lisafs:none", "both of them"}, // added to the first
		{"-mount-confs=zip:none", "invalid"},
		{"-io-fds=4,9 -mount-confs=erofs:self", "no flag passes"},
		{"-io-fds=4,9 -mount-confs=none:memory", "no flag passes"},
		{"-io-fds=2", "below 3"},
		{"-io-fds=253", "above"},
		{"-io-fds=3", "twice"},
		{"-io-fds=x", "not a descriptor"},
		{"-pass-fd=9", "HOST:GUEST"},
		{"-pass-fd=9:1", "HOST:GUEST"},
		{"-pass-fd=8:3", "twice"},
		{"-exec-fd=8", "twice"},
		{"-exec-fd=0", "below 3"},
		{"-exec-fd=-2", "below 3"},
		{"-cpus=-1", "-cpus"},
		{"-memory=1000", "-memory"},
		{"-network=sandbox", "-network"},
		{"-network=host -loopback=10.0.0.1/32", "-loopback"},
		{"-loopback=10.0.0.1", "no '/'"},
		{"-debug now", "not a flag"},
		{"-rootless", "not defined"},
	} {
		_, err := parse(strings.Fields(usual + " " + r.more))
		if (err == nil) != (r.why == "") || err != nil && !strings.Contains(err.Error(), r.why) {
			t.Errorf("%q: %v, want %q", r.more, err, r.why)
		}
	}
}
