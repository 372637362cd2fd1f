package serve

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log"
	"math/big"
	"net/netip"
	"os"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/callcell/callcell/internal/egress/wire"
	"github.com/callcell/callcell/internal/testing/leak"
)

// authority makes a root, PEM, and a certificate of it for names.
func authority(t testing.TB, names ...string) ([]byte, tls.Certificate) {
	t.Helper()
	key := func() *ecdsa.PrivateKey {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	sign := func(tmpl, parent *x509.Certificate, of *ecdsa.PrivateKey, by *ecdsa.PrivateKey) []byte {
		der, err := x509.CreateCertificate(rand.Reader, tmpl, parent, &of.PublicKey, by)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	rootKey, leafKey := key(), key()
	soon := time.Now().Add(time.Hour)
	root := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: soon, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), NotAfter: soon, DNSNames: names, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der := sign(root, root, rootKey, rootKey)
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return text, tls.Certificate{Certificate: [][]byte{sign(leaf, root, leafKey, rootKey)}, PrivateKey: leafKey}
}

func TestSetupThatIsNone(t *testing.T) {
	good := func() *wire.Setup { return &wire.Setup{Version: wire.Version, Limits: limits()} }
	with := func(change func(*wire.Setup)) wire.Message {
		s := good()
		change(s)
		return wire.Message{Setup: s}
	}
	for name, row := range map[string]struct {
		m     wire.Message
		files int
		roots []byte
		why   string
	}{
		"another message": {wire.Message{End: &wire.End{}}, 1, nil, "another one"},
		"no roots":        {wire.Message{Setup: good()}, 0, nil, "another one"},
		"two files":       {wire.Message{Setup: good()}, 2, nil, "another one"},
		"another version": {with(func(s *wire.Setup) { s.Version = 99 }), 1, nil, "version 99"},
		"a bad resolver":  {with(func(s *wire.Setup) { s.Resolvers = []string{"dns.test:53"} }), 1, nil, "resolver"},
		"a bad limit":     {with(func(s *wire.Setup) { s.Limits.Idle = 0 }), 1, nil, "not positive"},
		"many roots":      {wire.Message{Setup: good()}, 1, bytes.Repeat([]byte("x"), maxRoots+1), "more than"},
	} {
		leak.Check(t)
		f := bareFront(t, Options{})
		var files []*os.File
		for range row.files {
			files = append(files, file(t, row.roots))
		}
		f.send(t, f.control, row.m, files...)
		err := <-f.ended
		if !errors.Is(err, ErrSetup) || !strings.Contains(err.Error(), row.why) {
			t.Errorf("%s: %v", name, err)
		}
		f.ended <- err
	}
}

func TestWhatTheFrontDoesNotSayEndsTheProcess(t *testing.T) {
	for name, row := range map[string]struct {
		m     wire.Message
		files int
	}{
		"Setup again":       {wire.Message{Setup: &wire.Setup{}}, 1},
		"a call's message":  {wire.Message{End: &wire.End{}}, 0},
		"no descriptor":     {wire.Message{Begin: &wire.Begin{Sockets: []wire.Socket{}}}, 0},
		"too few":           {wire.Message{Begin: &wire.Begin{Sockets: []wire.Socket{{Use: wire.UseCall}, {Use: wire.UseDNS}}}}, 1},
		"too many":          {wire.Message{Begin: &wire.Begin{Sockets: []wire.Socket{{Use: wire.UseCall}}}}, 2},
		"not the call's":    {wire.Message{Begin: &wire.Begin{Sockets: []wire.Socket{{Use: wire.UseDNS}}}}, 1},
		"no member of Done": {wire.Message{Done: &wire.Done{}}, 0},
	} {
		f := newFront(t, setup{})
		var files []*os.File
		for range row.files {
			files = append(files, file(t, nil))
		}
		f.send(t, f.control, row.m, files...)
		err := <-f.ended
		if err == nil || !strings.Contains(err.Error(), "not for it to say") {
			t.Errorf("%s: %v", name, err)
		}
		f.ended <- err
	}
}

func TestMainSaysWhyItEnds(t *testing.T) {
	leak.Check(t)
	memory := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(memory)
	defer log.SetOutput(log.Writer())
	ours, its := ends(t)
	var said bytes.Buffer
	code := make(chan int)
	go func() { code <- Main(its, &said) }()
	_ = ours.Close()
	if got := <-code; got != 1 || !strings.HasPrefix(said.String(), "callcell-egress: egress: not set up: ") || strings.Count(said.String(), "\n") != 1 {
		t.Errorf("%d %q", got, said.String())
	}
}

func TestNamesOfThisHostNeedNoResolver(t *testing.T) { bothWays(t, testNamesOfThisHostNeedNoResolver) }

func testNamesOfThisHostNeedNoResolver(t *testing.T, w way) {
	f := newFront(t, setup{way: w, hosts: []wire.Host{{Name: "DB.test.", Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1")}}, {Name: "not a name"}}})
	port := origin(t, "127.0.0.1:0", echo)
	s := f.begin(t, network(allow("db.test", "tcp", port)))
	s.open("db.test", port)
	if got := f.resolver.Asked(); len(got) != 0 {
		t.Errorf("asked: %q", got)
	}
	s.end()
}
