// Package trust says what must be in a cell so that its programs believe the
// call's own authority: files, and the variables that point to them.
//
//	/run/callcell/ca-bundle.pem   the system's authorities and the call's
//	/run/callcell/ca.pem          the call's alone
//	/run/callcell/ca.p12          both, as a trust store of Java
//
// There is no place that all programs look at, so each family is told in its
// own way:
//
//	SSL_CERT_FILE         OpenSSL, and with it Python's ssl, Ruby, PHP; Go
//	CURL_CA_BUNDLE        curl
//	GIT_SSL_CAINFO        git
//	REQUESTS_CA_BUNDLE    Python's requests, which has a bundle of its own
//	PIP_CERT              pip
//	AWS_CA_BUNDLE         the AWS tools
//	CARGO_HTTP_CAINFO     cargo
//	NODE_EXTRA_CA_CERTS   Node: beside its own, so the call's alone
//	NPM_CONFIG_CAFILE     npm, where a configuration names a bundle of its own
//	JAVA_TOOL_OPTIONS     Java
//
// Java has no variable for a trust store. JDK_JAVA_OPTIONS is read by the
// program java only, from version 9 on; JAVA_TOOL_OPTIONS is read by every
// virtual machine: that of javac, keytool and mvn, and of programs that embed
// one. So it is the latter. Either makes Java print a line to standard error
// ("Picked up JAVA_TOOL_OPTIONS: ..."), which cannot be turned off: where a
// program's standard error is compared, unset it.
//
// Not reached are programs that read one fixed file and no variable, such as
// those on GnuTLS (wget of Debian, apt) and browsers with a store of their
// own; and those that pin a certificate, which is what inspection is for them.
//
// This package parses nothing of a stranger: what it takes for a certificate
// it puts down as it is, in the form of a file, and nothing else.
package trust

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"path"
	"strconv"

	"software.sslmate.com/src/go-pkcs12"
)

// The files, relative to the directory that holds them (/run).
const (
	BundleFile = "callcell/ca-bundle.pem"
	CAFile     = "callcell/ca.pem"
	JavaFile   = "callcell/ca.p12"
)

// The bounds of what is taken.
const (
	MaxCA    = 64 << 10 // bytes of the call's authority
	MaxRoots = 4 << 20  // bytes of the system's
)

// javaPassword is the password of every trust store that ships with Java. It
// keeps nothing secret: certificates are public.
const javaPassword = pkcs12.DefaultPassword

var (
	// ErrCA is wrapped where the call's authority is not one certificate.
	ErrCA = errors.New("the call's authority is not one PEM certificate")
	// ErrRoots is wrapped where the system's authorities cannot be taken.
	ErrRoots = errors.New("the system's authorities are not PEM certificates")
)

// Bundle returns the files by name. ca is the call's authority, exactly one
// PEM certificate; systemRoots are PEM certificates, or empty, with any text
// between them.
func Bundle(ca string, systemRoots []byte) (map[string][]byte, error) {
	if len(ca) > MaxCA {
		return nil, fmt.Errorf("%w: %d bytes, want at most %d", ErrCA, len(ca), MaxCA)
	}
	if len(systemRoots) > MaxRoots {
		return nil, fmt.Errorf("%w: %d bytes, want at most %d", ErrRoots, len(systemRoots), MaxRoots)
	}
	own, err := certificates([]byte(ca))
	if err != nil || len(own) != 1 {
		return nil, fmt.Errorf("%w: %d found (%v)", ErrCA, len(own), err)
	}
	roots, err := certificates(systemRoots)
	if err != nil || len(roots) == 0 && len(bytes.TrimSpace(systemRoots)) > 0 {
		return nil, fmt.Errorf("%w: %d found (%v)", ErrRoots, len(roots), err)
	}
	all := append(roots, own[0])
	store, err := javaStore(all)
	if err != nil {
		return nil, fmt.Errorf("a trust store for Java: %w", err)
	}
	return map[string][]byte{BundleFile: write(all), CAFile: write(own), JavaFile: store}, nil
}

// errBlock says that there is something else than certificates.
var errBlock = errors.New("something else than a certificate")

// certificates returns the bytes of each certificate, unread.
func certificates(text []byte) (all [][]byte, _ error) {
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			return all, nil
		}
		if block.Type != "CERTIFICATE" || len(block.Headers) > 0 || len(block.Bytes) == 0 {
			return nil, errBlock
		}
		all, text = append(all, block.Bytes), rest
	}
}

func write(all [][]byte) []byte {
	var out bytes.Buffer
	for _, der := range all {
		_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: der}) // a Buffer takes everything
	}
	return out.Bytes()
}

// javaStore returns a PKCS#12 trust store. Its entries have numbers for names:
// their own would have to be read.
func javaStore(all [][]byte) ([]byte, error) {
	entries := make([]pkcs12.TrustStoreEntry, len(all))
	for i, der := range all {
		entries[i] = pkcs12.TrustStoreEntry{Cert: &x509.Certificate{Raw: der}, FriendlyName: "root " + strconv.Itoa(i)}
	}
	entries[len(all)-1].FriendlyName = "callcell"
	return pkcs12.Modern2023.EncodeTrustStoreEntries(entries, javaPassword)
}

// Variables returns the variables of the environment, where the files are
// below dir (/run).
func Variables(dir string) map[string]string {
	bundle, ca, java := path.Join(dir, BundleFile), path.Join(dir, CAFile), path.Join(dir, JavaFile)
	return map[string]string{
		"SSL_CERT_FILE":       bundle,
		"CURL_CA_BUNDLE":      bundle,
		"GIT_SSL_CAINFO":      bundle,
		"REQUESTS_CA_BUNDLE":  bundle,
		"PIP_CERT":            bundle,
		"AWS_CA_BUNDLE":       bundle,
		"CARGO_HTTP_CAINFO":   bundle,
		"NODE_EXTRA_CA_CERTS": ca,
		"NPM_CONFIG_CAFILE":   bundle,
		"JAVA_TOOL_OPTIONS": "-Djavax.net.ssl.trustStore=" + java +
			" -Djavax.net.ssl.trustStoreType=PKCS12 -Djavax.net.ssl.trustStorePassword=" + javaPassword,
	}
}
