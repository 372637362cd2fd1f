package inspect

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/callcell/callcell/internal/testing/leak"
)

func authority(t testing.TB, hosts ...string) *Authority {
	t.Helper()
	a, err := NewAuthority(hosts, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func pool(t testing.TB, text string) *x509.CertPool {
	t.Helper()
	p := x509.NewCertPool()
	if !p.AppendCertsFromPEM([]byte(text)) {
		t.Fatal("no certificate")
	}
	return p
}

// forge signs a certificate for a host that the authority itself would not
// sign for: what somebody with its key could do.
func (a *Authority) forge(t testing.TB, host string) *x509.Certificate {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(7), NotBefore: a.cert.NotBefore, NotAfter: a.cert.NotAfter,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{host}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, a.leaf.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAuthoritySignsForItsHostsAlone(t *testing.T) {
	a := authority(t, "ok.test", "*.wild.test", "192.0.2.1", "2001:db8::1", "a.b.exact.test")
	for host, want := range map[string]bool{
		"ok.test": true, "a.wild.test": true, "a.b.wild.test": true, "192.0.2.1": true, "2001:db8::1": true, "a.b.exact.test": true,
		"a.ok.test": false, "wild.test": false, "*.wild.test": false, "evil.test": false, "evilwild.test": false, "ok.test.evil.test": false,
		"192.0.2.2": false, "2001:db8::2": false, "b.exact.test": false, "": false, ".wild.test.": false, "test": false,
	} {
		leaf, err := a.certificate(host)
		if (err == nil) != want || err != nil && !errors.Is(err, ErrName) {
			t.Errorf("%q: %v, want signed %v", host, err, want)
			continue
		}
		if err == nil {
			if _, err := leaf.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: pool(t, a.PEM())}); err != nil {
				t.Errorf("%q: %v", host, err)
			}
			if again, _ := a.certificate(host); again != leaf {
				t.Errorf("%q is signed twice", host)
			}
		}
	}
}

// What the certificate itself permits is held by whoever believes it.
func TestAuthorityIsConstrained(t *testing.T) {
	for name, c := range map[string]struct {
		hosts    []string
		ok, evil []string
	}{
		"names":     {[]string{"ok.test", "*.wild.test"}, []string{"ok.test", "a.wild.test"}, []string{"evil.test", "notok.test", "192.0.2.1", "2001:db8::1"}},
		"addresses": {[]string{"192.0.2.1"}, []string{"192.0.2.1"}, []string{"192.0.2.2", "2001:db8::1", "ok.test", "localhost"}},
		"IPv6":      {[]string{"2001:db8::1"}, []string{"2001:db8::1"}, []string{"192.0.2.2", "2001:db8::2", "ok.test"}},
		"both":      {[]string{"ok.test", "192.0.2.1", "2001:db8::1"}, []string{"ok.test", "192.0.2.1", "2001:db8::1"}, []string{"evil.test", "192.0.2.2", "2001:db8::2"}},
	} {
		t.Run(name, func(t *testing.T) {
			a := authority(t, c.hosts...)
			for _, host := range append(c.ok, c.evil...) {
				_, err := a.forge(t, host).Verify(x509.VerifyOptions{DNSName: host, Roots: pool(t, a.PEM())})
				if evil := err != nil; evil != contains(c.evil, host) {
					t.Errorf("%s: %v", host, err)
				}
				opensslVerify(t, a, host, contains(c.evil, host))
			}
		})
	}
}

func contains(all []string, s string) bool {
	for _, one := range all {
		if one == s {
			return true
		}
	}
	return false
}

// opensslVerify has OpenSSL judge a forged certificate, strictly.
func opensslVerify(t *testing.T, a *Authority, host string, evil bool) {
	t.Helper()
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Log("there is no openssl: not judged by it")
		return
	}
	dir := t.TempDir()
	ca, leaf := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "leaf.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.forge(t, host).Raw})
	if err := errors.Join(os.WriteFile(ca, []byte(a.PEM()), 0o600), os.WriteFile(leaf, text, 0o600)); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(openssl, "verify", "-no-CAfile", "-no-CApath", "-CAfile", ca, leaf).CombinedOutput()
	if (err != nil) != evil || evil && !strings.Contains(string(out), "subtree violation") {
		t.Errorf("openssl on %s: %v\n%s", host, err, out)
	}
}

func TestAuthorityIsShortLivedAndTheLast(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	a, err := NewAuthority([]string{"ok.test"}, now)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := a.certificate("ok.test")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*x509.Certificate{a.cert, leaf.Leaf} {
		if !c.NotBefore.Before(now) || now.Sub(c.NotBefore) > 10*time.Minute || c.NotAfter.Sub(now) > 25*time.Hour {
			t.Errorf("valid from %v to %v", c.NotBefore, c.NotAfter)
		}
		if len(c.ExtKeyUsage) != 1 || c.ExtKeyUsage[0] != x509.ExtKeyUsageServerAuth {
			t.Errorf("for %v", c.ExtKeyUsage)
		}
	}
	if !a.cert.IsCA || a.cert.MaxPathLen != 0 || !a.cert.MaxPathLenZero || !a.cert.PermittedDNSDomainsCritical {
		t.Errorf("CA %v, path %d, critical %v", a.cert.IsCA, a.cert.MaxPathLen, a.cert.PermittedDNSDomainsCritical)
	}
	if leaf.Leaf.IsCA || leaf.Leaf.KeyUsage&x509.KeyUsageCertSign != 0 {
		t.Error("a leaf may sign")
	}
	other := authority(t, "ok.test")
	if other.cert.SerialNumber.Cmp(a.cert.SerialNumber) == 0 || other.cert.Subject.String() == a.cert.Subject.String() {
		t.Error("two authorities look the same")
	}
}

func TestAuthorityPrintsAsAMask(t *testing.T) {
	a := authority(t, "ok.test")
	d, err := a.key.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	secret := hex.EncodeToString(d)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(a.key)
	if err != nil {
		t.Fatal(err)
	}
	js, err := json.Marshal(map[string]any{"ca": a})
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "ca", a, "o", Options{CA: a})
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "ca", a)
	printed := string(js) + log.String() + fmt.Sprint(a) + fmt.Sprintf("%v %+v %#v %s %q %x %d %v %+v", a, a, a, a, a, a, a, Options{CA: a}, struct{ A *Authority }{a})
	for _, bad := range []string{secret, string(d), string(pkcs8), "ok.test", "leaves", "0x"} {
		if strings.Contains(printed, bad) {
			t.Errorf("%q is printed: %s", bad, printed)
		}
	}
	if !strings.Contains(printed, "authority(***)") {
		t.Error("no mask")
	}
}

func TestAuthorityRefusesWhatIsNoHost(t *testing.T) {
	for _, hosts := range [][]string{
		{}, {""}, {"*."}, {"*"}, {"OK.test"}, {"ok.test."}, {".ok.test"}, {"a..test"}, {"*.*.test"}, {"a.*.test"}, {"ok.test:443"}, {"https://ok.test"},
		{"[::1]"}, {"::1%lo"}, {"::ffff:192.0.2.1"}, {"2001:DB8::1"}, {"ö.test"}, {"a b"}, {"a\x00b"}, {strings.Repeat("a", 254)}, make([]string, 2000),
	} {
		if _, err := NewAuthority(hosts, time.Now()); err == nil {
			t.Errorf("%q: an authority", hosts)
		}
	}
}

func TestLeavesAreBounded(t *testing.T) {
	leak.Check(t)
	a := authority(t, "*.test")
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() {
			for j := range 120 {
				if _, err := a.certificate("h" + strconv.Itoa(i*100+j) + ".test"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if len(a.leaves) != maxLeaves || len(a.order) != maxLeaves {
		t.Errorf("%d leaves, %d in order", len(a.leaves), len(a.order))
	}
}

// FuzzAuthority: whatever the list, an authority that is made signs for a name
// of it or for none, and what it signs is believed.
func FuzzAuthority(f *testing.F) {
	f.Add("ok.test", "ok.test")
	f.Add("*.ok.test", "a.ok.test")
	f.Add("192.0.2.1", "192.0.2.1")
	f.Add("*.ok.test", "ok.test")
	f.Add("a", "*.a")
	f.Fuzz(func(t *testing.T, listed, host string) {
		a, err := NewAuthority([]string{listed}, time.Now())
		if err != nil {
			return
		}
		leaf, err := a.certificate(host)
		if err != nil {
			return
		}
		if domain, wild := strings.CutPrefix(listed, "*."); host != listed && !(wild && strings.HasSuffix(host, "."+domain)) {
			t.Fatalf("%q was listed, %q is signed", listed, host)
		}
		if _, ok := leaf.PrivateKey.(*ecdsa.PrivateKey); !ok {
			t.Error("no key")
		}
	})
}
