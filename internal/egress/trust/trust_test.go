package trust

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"os/exec"
	"strings"
	"testing"

	"software.sslmate.com/src/go-pkcs12"
)

func certificate(t testing.TB, n int64) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(n), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func serials(t *testing.T, text []byte) (all []int64) {
	t.Helper()
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			return all
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		all, text = append(all, c.SerialNumber.Int64()), rest
	}
}

func TestBundleHasTheSystemsAuthoritiesAndTheCalls(t *testing.T) {
	roots := "# one\n" + certificate(t, 1) + "\n# two\n" + certificate(t, 2)
	files, err := Bundle(certificate(t, 3), []byte(roots))
	if err != nil {
		t.Fatal(err)
	}
	if got := serials(t, files[BundleFile]); len(got) != 3 || got[2] != 3 {
		t.Errorf("bundle has %v", got)
	}
	if bytes.Contains(files[BundleFile], []byte("#")) {
		t.Error("the text between is in the bundle")
	}
	if got := serials(t, files[CAFile]); len(got) != 1 || got[0] != 3 {
		t.Errorf("ca has %v", got)
	}
	java, err := pkcs12.DecodeTrustStore(files[JavaFile], javaPassword)
	if err != nil || len(java) != 3 {
		t.Errorf("Java's has %d, %v", len(java), err)
	}
	if len(files) != 3 {
		t.Errorf("%d files", len(files))
	}
}

func TestBundleWithoutSystemAuthorities(t *testing.T) {
	for _, roots := range []string{"", " \n"} {
		files, err := Bundle(certificate(t, 3), []byte(roots))
		if err != nil || len(serials(t, files[BundleFile])) != 1 {
			t.Errorf("%v", err)
		}
	}
}

func TestBundleTakesCertificatesAlone(t *testing.T) {
	good := certificate(t, 1)
	key := "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"
	headers := strings.Replace(good, "CERTIFICATE-----\n", "CERTIFICATE-----\nA: b\n\n", 1)
	for name, c := range map[string]struct {
		ca, roots string
		want      error
	}{
		"no ca":         {"", good, ErrCA},
		"two":           {good + good, good, ErrCA},
		"a key":         {key, good, ErrCA},
		"and a key":     {good + key, good, ErrCA},
		"headers":       {headers, good, ErrCA},
		"long":          {good + strings.Repeat("\n", MaxCA), good, ErrCA},
		"no root":       {good, "hello", ErrRoots},
		"root's key":    {good, good + key, ErrRoots},
		"long roots":    {good, good + strings.Repeat("\n", MaxRoots), ErrRoots},
		"empty content": {"-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n", good, ErrCA},
	} {
		t.Run(name, func(t *testing.T) {
			files, err := Bundle(c.ca, []byte(c.roots))
			if !errors.Is(err, c.want) || files != nil {
				t.Errorf("%v, %d files", err, len(files))
			}
		})
	}
}

func TestVariablesPointToTheFiles(t *testing.T) {
	files, err := Bundle(certificate(t, 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range Variables("/run") {
		found := false
		for file := range files {
			found = found || strings.HasSuffix(strings.Fields(value)[0], "/run/"+file)
		}
		if !found {
			t.Errorf("%s=%s names no file of the bundle", name, value)
		}
	}
}

// The front calls this package, and nothing that talks HTTP is to come with it.
func TestImports(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range strings.Lines(string(out)) {
		if pkg = strings.TrimSpace(pkg); pkg == "net/http" || strings.HasSuffix(pkg, "/internal/egress/inspect") {
			t.Errorf("imports %s", pkg)
		}
	}
}

// FuzzBundle: what Bundle takes has exactly one authority of the call in every
// file of PEM, and nothing but certificates.
func FuzzBundle(f *testing.F) {
	good := certificate(f, 1)
	f.Add(good, []byte(good))
	f.Add(good+good, []byte("x"))
	f.Add("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", []byte(nil))
	f.Add("-----BEGIN X-----\nAAAA\n-----END X-----\n", []byte("-----BEGIN CERTIFICATE-----\nA: b\n\nAAAA\n-----END CERTIFICATE-----\n"))
	f.Fuzz(func(t *testing.T, ca string, roots []byte) {
		files, err := Bundle(ca, roots)
		if err != nil {
			if files != nil {
				t.Error("an error, and files")
			}
			return
		}
		own, errOwn := certificates(files[CAFile])
		all, errAll := certificates(files[BundleFile])
		if errOwn != nil || errAll != nil || len(own) != 1 || len(all) == 0 || !bytes.Equal(all[len(all)-1], own[0]) {
			t.Errorf("%d and %d certificates, %v, %v", len(own), len(all), errOwn, errAll)
		}
	})
}
