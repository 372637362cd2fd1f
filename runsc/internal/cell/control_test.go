package cell

import (
	"encoding/json"
	"net/netip"
	"reflect"
	"testing"

	"gvisor.dev/gvisor/runsc/boot"
)

// TestLoopbackIsGVisors: what is sent decodes to what stock runsc sends.
func TestLoopbackIsGVisors(t *testing.T) {
	decode := func(text string) (args boot.CreateLinksAndRoutesArgs) {
		if err := json.Unmarshal([]byte(text), &args); err != nil {
			t.Fatal(err)
		}
		return args
	}
	stock, err := json.Marshal(&boot.CreateLinksAndRoutesArgs{LoopbackLinks: []boot.LoopbackLink{boot.DefaultLoopbackLink}})
	if err != nil {
		t.Fatal(err)
	}
	ours, err := loopback(nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := decode(ours), decode(string(stock)); !reflect.DeepEqual(got, want) {
		t.Errorf("it decodes to %+v, not to %+v", got, want)
	}
	more, err := loopback([]netip.Prefix{netip.MustParsePrefix("198.18.0.1/15")})
	if err != nil {
		t.Fatal(err)
	}
	link := decode(more).LoopbackLinks[0]
	if a := link.Addresses[2]; a.Address.String() != "198.18.0.1" || a.PrefixLen != 15 {
		t.Errorf("the third address is %+v", a)
	}
	if r := link.Routes[2]; r.Destination.String() != "198.18.0.0/15" {
		t.Errorf("its route is %v", r)
	}
}
