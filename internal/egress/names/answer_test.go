package names

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// notes collects what a responder notes.
type notes struct {
	mu  sync.Mutex
	all []Asked
}

func (n *notes) add(a Asked) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, a)
}

func (n *notes) take() []Asked {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.all)
}

// allow allows allowed.test, other.test and every name below many.test.
func allow(name string) (string, string) {
	name = strings.ToLower(name)
	if name == "allowed.test" || name == "other.test" || strings.HasSuffix(name, ".many.test") {
		return name, ""
	}
	return "", "not in the list"
}

func responder(n int) (*Responder, *notes) {
	var seen notes
	return New(Options{Allow: allow, Names: n, Note: seen.add}), &seen
}

// ask is a question as a resolver sends it.
func ask(name string, t dnsmessage.Type) dnsmessage.Message {
	return dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 7, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: t, Class: dnsmessage.ClassINET}},
	}
}

func pack(t testing.TB, m dnsmessage.Message) []byte {
	t.Helper()
	b, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// answer asks r and reads the answer.
func answer(t testing.TB, r *Responder, m dnsmessage.Message) dnsmessage.Message {
	t.Helper()
	b := r.Answer(pack(t, m))
	var a dnsmessage.Message
	if err := a.Unpack(b); err != nil {
		t.Fatalf("%x: %v", b, err)
	}
	return a
}

func address(m dnsmessage.Message) string {
	if len(m.Answers) != 1 {
		return ""
	}
	if a, ok := m.Answers[0].Body.(*dnsmessage.AResource); ok {
		return netip.AddrFrom4(a.A).String()
	}
	return ""
}

func TestAnswers(t *testing.T) {
	none := dnsmessage.RCodeSuccess
	for _, row := range []struct {
		name  string
		t     dnsmessage.Type
		rcode dnsmessage.RCode
		addr  string
	}{
		{"allowed.test.", dnsmessage.TypeA, none, "198.18.1.0"},
		{"ALLOWED.Test.", dnsmessage.TypeA, none, "198.18.1.0"},
		{"allowed.test.", dnsmessage.TypeAAAA, none, ""},
		{"allowed.test.", 65, none, ""}, // HTTPS
		{"allowed.test.", dnsmessage.TypeTXT, none, ""},
		{"allowed.test.", dnsmessage.TypeALL, none, ""},
		{"allowed.test.", dnsmessage.TypeAXFR, none, ""},
		{"denied.test.", dnsmessage.TypeA, dnsmessage.RCodeNameError, ""},
		{"denied.test.", dnsmessage.TypeAAAA, dnsmessage.RCodeNameError, ""},
		{"a.allowed.test.", dnsmessage.TypeA, dnsmessage.RCodeNameError, ""},
		{".", dnsmessage.TypeNS, dnsmessage.RCodeNameError, ""},
		{"198.18.1.0.", dnsmessage.TypeA, dnsmessage.RCodeNameError, ""},
		{"1.1.18.198.in-addr.arpa.", dnsmessage.TypePTR, dnsmessage.RCodeNameError, ""},
	} {
		r, _ := responder(4)
		got := answer(t, r, ask(row.name, row.t))
		if got.RCode != row.rcode || address(got) != row.addr {
			t.Errorf("%s %v: %v %q, want %v %q", row.name, row.t, got.RCode, address(got), row.rcode, row.addr)
		}
		if got.ID != 7 || !got.Response || !got.RecursionAvailable || !got.RecursionDesired || got.Truncated || len(got.Questions) != 1 || got.Questions[0].Name.String() != row.name {
			t.Errorf("%s %v: %+v %v", row.name, row.t, got.Header, got.Questions)
		}
		if soa := len(got.Authorities) == 1 && got.Authorities[0].Header.Type == dnsmessage.TypeSOA; soa != (row.addr == "") {
			t.Errorf("%s %v: an SOA: %v", row.name, row.t, soa)
		}
		if row.addr != "" && got.Answers[0].Header.TTL != 60 {
			t.Errorf("%s: for %d seconds", row.name, got.Answers[0].Header.TTL)
		}
	}
}

func TestEachNameHasAnAddressOfItsOwnThatStays(t *testing.T) {
	r, seen := responder(300)
	for i := range 300 {
		name := "n" + strconv.Itoa(i) + ".many.test"
		want := netip.AddrFrom4([4]byte{198, 18, byte(1 + i>>8), byte(i)})
		for range 2 {
			if got := address(answer(t, r, ask(name+".", dnsmessage.TypeA))); got != want.String() {
				t.Fatalf("%s: %s, want %s", name, got, want)
			}
		}
		if got := r.Table().Name(want); got != name {
			t.Fatalf("%s is of %q", want, got)
		}
		if got := r.Table().Name(netip.AddrFrom16(want.As16())); got != name {
			t.Fatalf("%s, mapped, is of %q", want, got)
		}
	}
	if got := answer(t, r, ask("one.more.many.test.", dnsmessage.TypeA)); got.RCode != dnsmessage.RCodeRefused || len(got.Answers) > 0 {
		t.Errorf("past the bound: %v", got.RCode)
	}
	if got := address(answer(t, r, ask("n7.many.test.", dnsmessage.TypeA))); got != "198.18.1.7" {
		t.Errorf("after it was full, a name of before: %q", got)
	}
	all := seen.take()
	if len(all) != 301 || !all[0].OK || all[300].OK || !strings.Contains(all[300].Why, "at most 300 names") {
		t.Errorf("%d notes, the last %+v", len(all), all[len(all)-1])
	}
}

func TestAddressesThatWereNotGivenOutHaveNoName(t *testing.T) {
	r, _ := responder(4)
	answer(t, r, ask("allowed.test.", dnsmessage.TypeA))
	for _, a := range []string{"198.18.0.1", "198.18.0.255", "198.18.1.1", "198.19.255.255", "0.0.0.0", "255.255.255.255", "127.0.0.1", "::1", "::c612:100"} {
		if got := r.Table().Name(netip.MustParseAddr(a)); got != "" {
			t.Errorf("%s is of %q", a, got)
		}
	}
	if got := r.Table().Name(netip.Addr{}); got != "" {
		t.Errorf("no address is of %q", got)
	}
}

func TestAddressesAreNotGivenOutPastTheRange(t *testing.T) {
	table := NewTable(MaxNames + 1)
	for i := range MaxNames {
		table.Addr(strconv.Itoa(i))
	}
	last := netip.MustParseAddr("198.19.255.255")
	if got := table.Name(last); got != strconv.Itoa(MaxNames-1) {
		t.Errorf("the last one is of %q", got)
	}
	if a, _ := table.Addr("more"); a.IsValid() {
		t.Errorf("and then comes %s", a)
	}
}

func TestAddressOfANameNamesIt(t *testing.T) {
	r, seen := responder(4)
	answer(t, r, ask("allowed.test.", dnsmessage.TypeA))
	got := answer(t, r, ask("0.1.18.198.In-Addr.arpa.", dnsmessage.TypePTR))
	if len(got.Answers) != 1 || got.Answers[0].Body.(*dnsmessage.PTRResource).PTR.String() != "allowed.test." {
		t.Errorf("%+v", got)
	}
	if got := answer(t, r, ask("0.1.18.198.in-addr.arpa.", dnsmessage.TypeA)); got.RCode != dnsmessage.RCodeSuccess || len(got.Answers) > 0 {
		t.Errorf("%+v", got)
	}
	if len(seen.take()) != 1 {
		t.Errorf("noted: %+v", seen.take())
	}
}

func TestRefusedNamesAreNotedOnce(t *testing.T) {
	r, seen := responder(4)
	for _, name := range []string{"denied.test.", "DENIED.test.", "denied.test.", "\xff\n.test."} {
		answer(t, r, ask(name, dnsmessage.TypeA))
		answer(t, r, ask(name, dnsmessage.TypeAAAA))
	}
	want := []Asked{{Host: "denied.test", Why: "not in the list"}, {Host: "\ufffd\n.test", Why: "not in the list"}}
	if got := seen.take(); !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}

func TestAFloodOfNamesCostsCountersOnly(t *testing.T) {
	const questions = 20_000
	count := 0
	r := New(Options{Allow: allow, Names: 4, Note: func(Asked) { count++ }})
	for i := range questions {
		answer(t, r, ask("x"+strconv.Itoa(i)+".leak.test.", dnsmessage.TypeA))
	}
	if count != questions {
		t.Errorf("%d are counted", count)
	}
	if len(r.refused) != remembered {
		t.Errorf("%d are remembered", len(r.refused))
	}
}

func TestWhatIsNoQuestion(t *testing.T) {
	plain := ask("allowed.test.", dnsmessage.TypeA)
	with := func(change func(*dnsmessage.Message)) []byte {
		m := plain
		m.Questions = slices.Clone(m.Questions)
		change(&m)
		return pack(t, m)
	}
	record := dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: plain.Questions[0].Name, Class: dnsmessage.ClassINET}, Body: &dnsmessage.AResource{}}
	opt := dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: dnsmessage.MustNewName("."), Type: dnsmessage.TypeOPT}, Body: &dnsmessage.OPTResource{}}
	for name, row := range map[string]struct {
		message []byte
		rcode   dnsmessage.RCode // 255: no answer
	}{
		"nothing":        {nil, 255},
		"half a header":  {pack(t, plain)[:11], 255},
		"an answer":      {with(func(m *dnsmessage.Message) { m.Response = true }), 255},
		"an update":      {with(func(m *dnsmessage.Message) { m.OpCode = 5 }), dnsmessage.RCodeNotImplemented},
		"no question":    {with(func(m *dnsmessage.Message) { m.Questions = nil }), dnsmessage.RCodeFormatError},
		"two questions":  {with(func(m *dnsmessage.Message) { m.Questions = append(m.Questions, m.Questions[0]) }), dnsmessage.RCodeFormatError},
		"half a name":    {pack(t, plain)[:20], dnsmessage.RCodeFormatError},
		"chaos":          {with(func(m *dnsmessage.Message) { m.Questions[0].Class = dnsmessage.ClassCHAOS }), dnsmessage.RCodeRefused},
		"any class":      {with(func(m *dnsmessage.Message) { m.Questions[0].Class = dnsmessage.ClassANY }), dnsmessage.RCodeRefused},
		"answers in it":  {with(func(m *dnsmessage.Message) { m.Answers = []dnsmessage.Resource{record} }), dnsmessage.RCodeFormatError},
		"authority":      {with(func(m *dnsmessage.Message) { m.Authorities = []dnsmessage.Resource{record} }), dnsmessage.RCodeFormatError},
		"two OPT":        {with(func(m *dnsmessage.Message) { m.Additionals = []dnsmessage.Resource{opt, opt} }), dnsmessage.RCodeFormatError},
		"many records":   {with(func(m *dnsmessage.Message) { m.Additionals = slices.Repeat([]dnsmessage.Resource{record}, 9) }), dnsmessage.RCodeFormatError},
		"bytes after it": {append(pack(t, plain), "more"...), dnsmessage.RCodeSuccess},
	} {
		r, _ := responder(4)
		got := r.Answer(row.message)
		if row.rcode == 255 {
			if got != nil {
				t.Errorf("%s is answered", name)
			}
			continue
		}
		var m dnsmessage.Message
		if err := m.Unpack(got); err != nil || m.RCode != row.rcode || m.ID != 7 {
			t.Errorf("%s: %v %v", name, m.Header, err)
		}
	}
}

func TestEDNS(t *testing.T) {
	for _, row := range []struct {
		version uint32
		rcode   dnsmessage.RCode
		addr    string
	}{{0, dnsmessage.RCodeSuccess, "198.18.1.0"}, {1, 16, ""}} {
		r, _ := responder(4)
		m := ask("allowed.test.", dnsmessage.TypeA)
		var h dnsmessage.ResourceHeader
		if err := h.SetEDNS0(4096, 0, true); err != nil {
			t.Fatal(err)
		}
		h.TTL |= row.version << 16
		m.Additionals = []dnsmessage.Resource{{Header: h, Body: &dnsmessage.OPTResource{Options: []dnsmessage.Option{{Code: 10, Data: []byte("cookie00")}}}}}
		got := answer(t, r, m)
		if len(got.Additionals) != 1 {
			t.Fatalf("version %d: no OPT", row.version)
		}
		oh := got.Additionals[0].Header
		if oh.ExtendedRCode(got.RCode) != row.rcode || address(got) != row.addr || oh.TTL>>16&0xff != 0 {
			t.Errorf("version %d: %v %q %+v", row.version, oh.ExtendedRCode(got.RCode), address(got), oh)
		}
	}
}

func TestAnswersFitADatagram(t *testing.T) {
	r, _ := responder(4)
	long := strings.Repeat(strings.Repeat("a", 61)+".", 3) + strings.Repeat("b", 57) + "."
	for _, tail := range []string{"many.test.", "none.test."} {
		name := long + tail
		if len(name) != 254 {
			t.Fatal(len(name))
		}
		m := ask(name, dnsmessage.TypeAAAA)
		m.Additionals = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: dnsmessage.MustNewName("."), Type: dnsmessage.TypeOPT, Class: 512}, Body: &dnsmessage.OPTResource{}}}
		if got := len(r.Answer(pack(t, m))); got == 0 || got > 512 {
			t.Errorf("%d bytes", got)
		}
	}
}

func FuzzAnswer(f *testing.F) {
	for _, name := range []string{"allowed.test.", "denied.test.", ".", "0.1.18.198.in-addr.arpa."} {
		for _, typ := range []dnsmessage.Type{dnsmessage.TypeA, dnsmessage.TypeAAAA, dnsmessage.TypePTR} {
			f.Add(pack(f, ask(name, typ)))
		}
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		r, _ := responder(2)
		got := r.Answer(message)
		if got == nil {
			return
		}
		var q dnsmessage.Parser
		h, err := q.Start(message)
		if err != nil {
			t.Fatal("no header is answered")
		}
		var a dnsmessage.Message
		if err := a.Unpack(got); err != nil {
			t.Fatalf("%x: %v", got, err)
		}
		if a.ID != h.ID || !a.Response || len(got) > maxAnswer {
			t.Fatalf("%+v in %d bytes", a.Header, len(got))
		}
		asked, err := q.Question()
		if len(a.Questions) == 1 && (err != nil || a.Questions[0] != asked) {
			t.Fatalf("%v is answered with %v", asked, a.Questions)
		}
		for _, rec := range a.Answers {
			name := strings.TrimSuffix(asked.Name.String(), ".")
			if host, _ := allow(name); host == "" || rec.Header.Type != dnsmessage.TypeA || rec.Header.Name != asked.Name {
				t.Fatalf("%q has %v", name, rec)
			}
		}
	})
}
