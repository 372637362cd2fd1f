package cli_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/callcell/callcell/client"
	"github.com/callcell/callcell/envelope"
)

// certificate writes a certificate for loopback with a serial number, and its key,
// and returns the former. at is when the files say that they were written.
func certificate(t *testing.T, cert, key string, serial int64, at time.Time) *x509.Certificate {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(24 * time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	written(t, cert, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), at)
	written(t, key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})), at)
	made, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func written(t *testing.T, name, text string, at time.Time) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(name, at, at); err != nil {
		t.Fatal(err)
	}
}

// TestDaemonOverTLS: with a certificate from files calls are made over TLS, by
// either version of HTTP, and by none without it. Files that were renewed are used
// for the next connection, and ones that cannot be read are not.
func TestDaemonOverTLS(t *testing.T) {
	bin := binaries(t)
	conf, _ := stand(t)
	dir, now := filepath.Dir(conf), time.Now().Truncate(time.Second)
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	trusted := x509.NewCertPool()
	trusted.AddCert(certificate(t, cert, key, 1, now.Add(-3*time.Minute)))
	cmd := exec.Command(filepath.Join(bin, "callcell"), serveArgs(conf, "--dev", "--tls-key", key)...)
	cmd.Env = append(cmd.Environ(), "CALLCELL_TLS_CERT="+cert)
	d := startBy(t, cmd)
	if !strings.HasPrefix(d.address, "https://127.0.0.1:") {
		t.Errorf("it serves %s", d.address)
	}
	calls := func(two bool, want int64) {
		t.Helper()
		api, err := client.New(d.address, d.devKey(t))
		if err != nil {
			t.Fatal(err)
		}
		var seen tls.ConnectionState
		transport := &http.Transport{ForceAttemptHTTP2: two, TLSClientConfig: &tls.Config{RootCAs: trusted, VerifyConnection: func(s tls.ConnectionState) error { seen = s; return nil }}}
		defer transport.CloseIdleConnections()
		api.HTTP.Transport = transport
		r, err := api.Run(t.Context(), &envelope.Call{Argv: []string{"echo", "hello"}})
		if err != nil || string(r.Stdout.Head) != "hello\n" {
			t.Errorf("%+v %v", r, err)
		}
		if proto := seen.NegotiatedProtocol; (proto == "h2") != two || len(seen.PeerCertificates) == 0 || seen.PeerCertificates[0].SerialNumber.Int64() != want || seen.Version < tls.VersionTLS12 {
			t.Errorf("%q, %+v", proto, seen.PeerCertificates)
		}
	}
	calls(false, 1)
	calls(true, 1)
	trusted.AddCert(certificate(t, cert, key, 2, now.Add(-2*time.Minute)))
	calls(true, 2)
	written(t, cert, "half a cert", now.Add(-time.Minute))
	calls(false, 2)
	trusted.AddCert(certificate(t, cert, key, 3, now))
	calls(false, 3)
	plain := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	if r, err := plain.Get(strings.Replace(d.address, "https", "http", 1) + "/healthz"); err == nil {
		if r.Body.Close(); r.StatusCode == http.StatusOK {
			t.Error("it answers without TLS")
		}
	}
	if err := d.end(syscall.SIGTERM); err != nil || t.Failed() {
		t.Errorf("%v\n%s", err, strings.Join(d.log, "\n"))
	}
}
