package hostnet

import (
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
)

// bundles are the places where distributions have their bundle, as crypto/x509
// knows them.
func bundles() []string {
	return []string{
		"/etc/ssl/certs/ca-certificates.crt",                // Debian, Ubuntu, Arch, Gentoo
		"/etc/pki/tls/certs/ca-bundle.crt",                  // Fedora, RHEL 6
		"/etc/ssl/ca-bundle.pem",                            // openSUSE
		"/etc/pki/tls/cacert.pem",                           // OpenELEC
		"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // RHEL 7 and later
		"/etc/ssl/cert.pem",                                 // Alpine
	}
}

// Roots returns the certificate authorities that this host trusts, PEM: the
// first bundle that is there, at most 4 MiB. The error wraps ErrNoRoots where
// there is none.
func Roots() ([]byte, error) { return roots(bundles()) }

func roots(paths []string) ([]byte, error) {
	for _, path := range paths {
		text, err := read(path, maxRoots)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("hostnet: %w", err)
		}
		found := ParseRoots(text)
		if len(found) == 0 {
			return nil, fmt.Errorf("%w: %s has no certificate", ErrNoRoots, path)
		}
		return found, nil
	}
	return nil, ErrNoRoots
}

// ParseRoots returns the certificates of a bundle and nothing else of it: no
// key that somebody put beside them, no text between them. Whether each is a
// certificate is for whoever uses it to find.
func ParseRoots(text []byte) []byte {
	var out bytes.Buffer
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			return out.Bytes()
		}
		text = rest
		if block.Type == "CERTIFICATE" && len(block.Headers) == 0 {
			_ = pem.Encode(&out, block) // to memory, without headers: it cannot fail
		}
	}
}
