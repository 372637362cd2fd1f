package hostnet

import (
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/callcell/callcell/internal/egress/wire"
)

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestResolvers(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"one", "nameserver 192.0.2.53\n", "192.0.2.53:53"},
		{"without a final newline", "nameserver 192.0.2.53", "192.0.2.53:53"},
		{"both families", "nameserver 2001:db8::53\nnameserver 192.0.2.53\n", "[2001:db8::53]:53 192.0.2.53:53"},
		{"this host's own", "nameserver 127.0.0.53\noptions edns0 trust-ad\nsearch example.test\n", "127.0.0.53:53"},
		{"white space", "  nameserver\t 192.0.2.53 \r\n", "192.0.2.53:53"},
		{"comments", "# nameserver 192.0.2.1\n;nameserver 192.0.2.2\nnameserver 192.0.2.3 # ours\n", "192.0.2.3:53"},
		{"at most three", "nameserver 192.0.2.1\nnameserver 192.0.2.2\nnameserver 192.0.2.3\nnameserver 192.0.2.4\n", "192.0.2.1:53 192.0.2.2:53 192.0.2.3:53"},
		{"each once", "nameserver 192.0.2.1\nnameserver ::ffff:192.0.2.1\nnameserver 192.0.2.1\n", "192.0.2.1:53"},
		{"no zone", "nameserver fe80::1%eth0\nnameserver 192.0.2.1\n", "192.0.2.1:53"},
		{"nobody's", "nameserver 0.0.0.0\nnameserver ::\nnameserver ff02::fb\n", ""},
		{"no address", "nameserver\nnameserver ns.example.test\nnameserver 192.0.2\nnameserver 192.0.2.1:53\n", ""},
		{"another word", "nameservers 192.0.2.1\nNAMESERVER 192.0.2.1\n", ""},
		{"nothing", "", ""},
	} {
		if got := strings.Join(ParseResolvers([]byte(c.text)), " "); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestWithoutResolversThisHostIsAsked(t *testing.T) {
	for name, path := range map[string]string{"no file": filepath.Join(t.TempDir(), "none"), "none in it": write(t, "search example.test\n")} {
		if got := resolvers(path); !slices.Equal(got, []string{"127.0.0.1:53"}) {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := resolvers(write(t, "nameserver 192.0.2.7\n")); !slices.Equal(got, []string{"192.0.2.7:53"}) {
		t.Errorf("%q", got)
	}
}

func host(name string, addrs ...string) wire.Host {
	h := wire.Host{Name: name}
	for _, a := range addrs {
		h.Addrs = append(h.Addrs, netip.MustParseAddr(a))
	}
	return h
}

func TestHosts(t *testing.T) {
	long := strings.Repeat("a", 63)
	for _, c := range []struct {
		name, text string
		want       []wire.Host
	}{
		{"one", "10.0.0.5 db.example.test\n", []wire.Host{host("db.example.test", "10.0.0.5")}},
		{"several names", "10.0.0.5\tdb.example.test db  db2.example.test # ours", []wire.Host{host("db.example.test", "10.0.0.5"), host("db2.example.test", "10.0.0.5")}},
		{"several lines", "10.0.0.5 db.test\nfd00::5 db.test\n10.0.0.5 db.test\n", []wire.Host{host("db.test", "10.0.0.5", "fd00::5")}},
		{"one spelling", "10.0.0.5 DB.Example.TEST.\n::ffff:10.0.0.6 db.example.test\n", []wire.Host{host("db.example.test", "10.0.0.5", "10.0.0.6")}},
		{"names that cannot be allowed", "127.0.0.1 localhost\n10.0.0.1 gateway\n", nil},
		{"no names", "10.0.0.1 a..b -a.test a-.test a.test/ *.test ex\u00e4mple.test 10.0.0.7 a.7 . .. " + long + "a.test " + strings.Repeat(long+".", 4) + "test\n", nil},
		{"odd names", "10.0.0.1 a_b.test 7.a.test xn--bcher-kva.test " + long + ".test\n",
			[]wire.Host{host("a_b.test", "10.0.0.1"), host("7.a.test", "10.0.0.1"), host("xn--bcher-kva.test", "10.0.0.1"), host(long+".test", "10.0.0.1")}},
		{"no addresses", "fe80::1%eth0 a.test\n10.0.0 b.test\nc.test d.test\n", nil},
		{"no more than it says", "10.0.0.1\n#10.0.0.1 a.test\n\n   \n", nil},
		{"an address that blocks", "0.0.0.0 ads.test\n", []wire.Host{host("ads.test", "0.0.0.0")}},
	} {
		if got := ParseHosts([]byte(c.text)); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// crowd is a hosts file with n names of one address each.
func crowd(n int, name string) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "2001:db8:1111:2222:3333:4444:5555:%x %s%d.test\n", i%0xffff, name, i)
	}
	return text.String()
}

// TestTheTableFitsIntoOneMessage whatever the file says, with the longest lists
// that stand beside it.
func TestTheTableFitsIntoOneMessage(t *testing.T) {
	var deny []netip.Prefix
	for i := range 1024 {
		deny = append(deny, netip.MustParsePrefix(fmt.Sprintf("2001:db8:1111:2222:3333:4444:5555:%x/128", i)))
	}
	long := strings.Repeat(strings.Repeat("a", 60)+".", 3)
	var many strings.Builder
	for i := range 300 {
		many.WriteString(strings.ReplaceAll(crowd(20, "x"), "x", fmt.Sprintf("name%d-", i)))
	}
	for name, text := range map[string]string{
		"many names": crowd(5000, "n"), "long names": crowd(5000, long), "many addresses": strings.Repeat(crowd(1, "n"), 5) + addresses(5000),
		"many of each": many.String(),
	} {
		table := ParseHosts([]byte(text))
		if len(table) == 0 || len(table) > maxNames {
			t.Errorf("%s: %d names", name, len(table))
		}
		b, err := wire.Encode(wire.Message{Setup: &wire.Setup{Hosts: table, Deny: deny, Resolvers: make([]string, 8)}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		t.Logf("%s: %d names, %d bytes", name, len(table), len(b))
	}
}

// addresses is a hosts file with n addresses for 300 names.
func addresses(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "2001:db8:1111:2222:3333:4444:5555:%x n%d.test\n", i, i%300)
	}
	return text.String()
}

func TestALongFileIsCutAtALine(t *testing.T) {
	path := write(t, "10.0.0.1 a.test\n10.0.0.2 b.test\n")
	for max, want := range map[int]string{31: "10.0.0.1 a.test\n", 16: "10.0.0.1 a.test\n", 15: "", 32: "10.0.0.1 a.test\n10.0.0.2 b.test\n"} {
		if got, err := read(path, max); err != nil || string(got) != want {
			t.Errorf("%d bytes: %q, %v; want %q", max, got, err, want)
		}
	}
	if got := hosts(path); len(got) != 2 {
		t.Errorf("%v", got)
	}
	if got := hosts(filepath.Join(t.TempDir(), "none")); got != nil {
		t.Errorf("%v", got)
	}
}

func block(kind, data string) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: []byte(data)}))
}

func TestRootsAreCertificatesAlone(t *testing.T) {
	one, two := block("CERTIFICATE", "one"), block("CERTIFICATE", "two")
	for _, c := range []struct{ name, text, want string }{
		{"two", one + two, one + two},
		{"text between", "# one\n" + one + "\n\n# two\n" + two + "# end", one + two},
		{"a key beside them", one + block("PRIVATE KEY", "secret") + two + block("EC PRIVATE KEY", "secret"), one + two},
		{"a trusted certificate is another form", block("TRUSTED CERTIFICATE", "x") + one, one},
		{"a block with headers", "-----BEGIN CERTIFICATE-----\nA: b\n\nb25l\n-----END CERTIFICATE-----\n" + two, two},
		{"a block that does not end", one + strings.TrimSuffix(two, "-----END CERTIFICATE-----\n"), one},
		{"nothing", "", ""},
	} {
		if got := string(ParseRoots([]byte(c.text))); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestTheFirstBundleIsTaken(t *testing.T) {
	none, empty := filepath.Join(t.TempDir(), "none"), write(t, "")
	one, two := write(t, block("CERTIFICATE", "one")), write(t, block("CERTIFICATE", "two"))
	if got, err := roots([]string{none, one, two}); err != nil || string(got) != block("CERTIFICATE", "one") {
		t.Errorf("%q, %v", got, err)
	}
	for name, paths := range map[string][]string{"no file": {none}, "none in it": {empty, one}, "no place": nil} {
		if got, err := roots(paths); !errors.Is(err, ErrNoRoots) || got != nil {
			t.Errorf("%s: %q, %v; want ErrNoRoots", name, got, err)
		}
	}
	if got, err := roots([]string{t.TempDir(), one}); err == nil || errors.Is(err, ErrNoRoots) {
		t.Errorf("what is there and cannot be read: %q, %v", got, err)
	}
}

// TestThisHost reads the real files; what they say is this host's.
func TestThisHost(t *testing.T) {
	for _, at := range Resolvers() {
		if _, err := netip.ParseAddrPort(at); err != nil {
			t.Error(err)
		}
	}
	_ = Hosts()
	if pem, err := Roots(); err != nil && !errors.Is(err, ErrNoRoots) || err == nil && !bytes.Contains(pem, []byte("BEGIN CERTIFICATE")) {
		t.Errorf("%d bytes, %v", len(pem), err)
	}
}
