package inspect

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// The times of an authority and of what it signs.
const (
	authorityLife = 25 * time.Hour
	authorityBack = 5 * time.Minute // for a clock in the cell that is behind
)

// The bounds of an authority.
const (
	maxHosts  = 1024
	maxLeaves = 256
)

// ErrName is wrapped where an authority may not vouch for a name.
var ErrName = errors.New("the call's authority may not vouch for this name")

// Authority is the certificate authority of one call. Its key is in memory
// alone and its certificate is constrained, critically, to the names that it
// was made for. It may be used by many goroutines. It prints as a mask.
type Authority struct {
	hosts map[string]bool // names and literal addresses; wildcards as they are written
	cert  *x509.Certificate
	key   *ecdsa.PrivateKey
	leaf  *ecdsa.PrivateKey // of all leaves: they are the same party's
	pem   string

	mu     sync.Mutex // guards what follows
	leaves map[string]*tls.Certificate
	order  []string // of leaves, oldest first
}

// NewAuthority makes an authority for hosts: names in lower case without a
// final dot, literal addresses, and wildcards (*.example.com). It is valid for
// 25 hours from now, and from five minutes before. X.509 can permit a domain
// with all below it only, so the certificate permits more than hosts do; the
// Authority itself signs for hosts alone. At most 1024 hosts, at least one.
func NewAuthority(hosts []string, now time.Time) (*Authority, error) {
	if len(hosts) == 0 || len(hosts) > maxHosts {
		return nil, fmt.Errorf("an authority for %d hosts: want 1 to %d", len(hosts), maxHosts)
	}
	a := &Authority{hosts: map[string]bool{}, leaves: map[string]*tls.Certificate{}}
	t, err := template(now)
	if err != nil {
		return nil, err
	}
	for _, host := range hosts {
		if err := a.permit(t, host); err != nil {
			return nil, err
		}
	}
	exclude(t)
	if err := a.sign(t); err != nil {
		return nil, fmt.Errorf("make the call's authority: %w", err)
	}
	return a, nil
}

func template(now time.Time) (*x509.Certificate, error) {
	n, err := serial()
	if err != nil {
		return nil, err
	}
	return &x509.Certificate{
		SerialNumber:                n,
		Subject:                     pkix.Name{CommonName: "callcell call " + hex.EncodeToString(n.Bytes()[:4])},
		NotBefore:                   now.Add(-authorityBack),
		NotAfter:                    now.Add(authorityLife),
		KeyUsage:                    x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		ExtKeyUsage:                 []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid:       true,
		IsCA:                        true,
		MaxPathLenZero:              true,
		PermittedDNSDomainsCritical: true,
	}, nil
}

// permit adds one host to what the authority may vouch for.
func (a *Authority) permit(t *x509.Certificate, host string) error {
	name := strings.TrimPrefix(host, "*.")
	addr, err := netip.ParseAddr(host)
	switch {
	case err == nil && addr.Zone() == "" && addr.String() == host && !addr.Is4In6():
		t.PermittedIPRanges = append(t.PermittedIPRanges, one(addr))
	case name != "" && len(name) <= 253 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == "" &&
		!strings.HasPrefix(name, ".") && !strings.HasSuffix(name, ".") && !strings.Contains(name, ".."):
		t.PermittedDNSDomains = append(t.PermittedDNSDomains, name)
	default:
		return fmt.Errorf("%w: %q is neither a name in lower case nor an address", ErrName, host)
	}
	a.hosts[host] = true
	return nil
}

func one(addr netip.Addr) *net.IPNet {
	return &net.IPNet{IP: addr.AsSlice(), Mask: net.CIDRMask(addr.BitLen(), addr.BitLen())}
}

// exclude takes out the kinds of names of which none is permitted: without a
// constraint of its kind, a name is free.
func exclude(t *x509.Certificate) {
	v4, v6 := 0, 0
	for _, n := range t.PermittedIPRanges {
		if len(n.IP) == net.IPv4len {
			v4++
		} else {
			v6++
		}
	}
	if v4 == 0 {
		t.ExcludedIPRanges = append(t.ExcludedIPRanges, &net.IPNet{IP: make(net.IP, net.IPv4len), Mask: make(net.IPMask, net.IPv4len)})
	}
	if v6 == 0 {
		t.ExcludedIPRanges = append(t.ExcludedIPRanges, &net.IPNet{IP: make(net.IP, net.IPv6len), Mask: make(net.IPMask, net.IPv6len)})
	}
	if len(t.PermittedDNSDomains) == 0 {
		t.ExcludedDNSDomains = []string{""}
	}
}

func (a *Authority) sign(t *x509.Certificate) (err error) {
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return err
	}
	if a.leaf, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return err
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, a.key.Public(), a.key)
	if err != nil {
		return err
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return err
	}
	a.pem = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return nil
}

// serial returns a random positive number of 16 bytes.
func serial() (*big.Int, error) {
	var b [16]byte
	if _, err := rand.Read(b[:]); err != nil {
		return nil, fmt.Errorf("a serial number: %w", err)
	}
	b[0] = b[0]&0x7f | 0x40
	return new(big.Int).SetBytes(b[:]), nil
}

// PEM returns the authority's certificate.
func (a *Authority) PEM() string { return a.pem }

// Format implements fmt.Formatter: whatever the verb, a mask.
func (a *Authority) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("authority(***)")) }

// MarshalText implements encoding.TextMarshaler with the mask.
func (a *Authority) MarshalText() ([]byte, error) { return []byte("authority(***)"), nil }

// vouches reports whether host is one of the authority's, itself or by a
// wildcard.
func (a *Authority) vouches(host string) bool {
	if a.hosts[host] {
		return !strings.HasPrefix(host, "*")
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return false
	}
	for rest := host; ; {
		_, above, found := strings.Cut(rest, ".")
		if !found {
			return false
		}
		if a.hosts["*."+above] {
			return true
		}
		rest = above
	}
}

// certificate returns the leaf of a host with its key. It is made at the first
// call; the last 256 are kept. The error wraps ErrName where the host is not
// one of the authority's.
func (a *Authority) certificate(host string) (*tls.Certificate, error) {
	if !a.vouches(host) {
		return nil, fmt.Errorf("%w: %q", ErrName, host)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.leaves[host]; c != nil {
		return c, nil
	}
	c, err := a.mint(host)
	if err != nil {
		return nil, fmt.Errorf("a certificate for %s: %w", host, err)
	}
	if len(a.order) >= maxLeaves {
		delete(a.leaves, a.order[0])
		a.order = a.order[1:]
	}
	a.leaves[host], a.order = c, append(a.order, host)
	return c, nil
}

func (a *Authority) mint(host string) (*tls.Certificate, error) {
	n, err := serial()
	if err != nil {
		return nil, err
	}
	t := &x509.Certificate{
		SerialNumber: n,
		// No name of a host: OpenSSL would hold a common name that looks like
		// one against the constraints.
		Subject:               pkix.Name{CommonName: "callcell inspected connection"},
		NotBefore:             a.cert.NotBefore,
		NotAfter:              a.cert.NotAfter,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		t.IPAddresses = []net.IP{addr.AsSlice()}
	} else {
		t.DNSNames = []string{host}
	}
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, a.leaf.Public(), a.key)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.leaf, Leaf: leaf}, nil
}
