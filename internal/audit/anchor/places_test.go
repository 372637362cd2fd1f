package anchor

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/callcell/callcell/internal/testing/leak"
)

const line = `{"version":1,"note":"é"}`

func send(t *testing.T, a Anchor) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return a.Send(ctx, []byte(line))
}

func TestFile(t *testing.T) {
	leak.Check(t)
	path := filepath.Join(t.TempDir(), "checkpoints")
	f, err := NewFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := send(t, f); err != nil {
			t.Fatal(err)
		}
	}
	half, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := half.WriteString(`{"versi`); err != nil {
		t.Fatal(err)
	}
	half.Close()
	if err := send(t, f); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if want := line + "\n" + line + "\n{\"versi\n" + line + "\n"; err != nil || string(text) != want {
		t.Errorf("%q, want %q", text, want)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestFileRefuses(t *testing.T) {
	dir := t.TempDir()
	link, pipe := filepath.Join(dir, "link"), filepath.Join(dir, "pipe")
	if err := errors.Join(os.Symlink("/dev/null", link), syscall.Mkfifo(pipe, 0o600)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{link: syscall.ELOOP, pipe: ErrPlace, filepath.Join(dir, "no", "where"): os.ErrNotExist, dir: syscall.EISDIR} {
		f, err := NewFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := send(t, f); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
	}
	for _, path := range []string{"", "x", "/a/../b", "/a/"} {
		if _, err := NewFile(path); !errors.Is(err, ErrPlace) {
			t.Errorf("%q: %v", path, err)
		}
	}
}

// message is what RFC 5424 says of one.
var message = regexp.MustCompile(`^<109>1 \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z [!-~]{1,255} callcell \d+ checkpoint - (.*)$`)

func wantMessage(t *testing.T, name, text string) {
	t.Helper()
	if m := message.FindStringSubmatch(text); m == nil || m[1] != line {
		t.Errorf("%s: %q", name, text)
	}
}

func TestSyslogDatagrams(t *testing.T) {
	leak.Check(t)
	path := filepath.Join(t.TempDir(), "log")
	for _, network := range []string{"unixgram", "udp"} {
		address := map[string]string{"unixgram": path, "udp": "127.0.0.1:0"}[network]
		l, err := net.ListenPacket(network, address)
		if err != nil {
			t.Fatal(err)
		}
		place := map[string]string{"unixgram": "unix://" + path, "udp": "udp://" + l.LocalAddr().String()}[network]
		s, err := NewSyslog(place, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := send(t, s); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 4096)
		n, _, err := l.ReadFrom(b)
		if err != nil {
			t.Fatal(err)
		}
		wantMessage(t, network, string(b[:n]))
		if err := s.Send(t.Context(), []byte(strings.Repeat("x", 3000))); !errors.Is(err, ErrAnswer) {
			t.Errorf("%s: a large one: %v", network, err)
		}
		l.Close()
		if err := send(t, s); network == "unixgram" && err == nil {
			t.Error("nobody listens, and it is taken")
		}
	}
}

func TestSyslogStreams(t *testing.T) {
	leak.Check(t)
	server := httptest.NewUnstartedServer(nil)
	server.StartTLS() // for its certificate
	certificate, roots := server.TLS.Certificates, server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	server.Close()
	path := filepath.Join(t.TempDir(), "log")
	for _, scheme := range []string{"tcp", "tls", "unix"} {
		var l net.Listener
		var err error
		switch scheme {
		case "unix":
			l, err = net.Listen("unix", path)
		case "tls":
			l, err = tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: certificate})
		default:
			l, err = net.Listen("tcp", "127.0.0.1:0")
		}
		if err != nil {
			t.Fatal(err)
		}
		place := scheme + "://" + l.Addr().String()
		got := make(chan string, 1)
		go func() {
			conn, err := l.Accept()
			if err != nil {
				got <- err.Error()
				return
			}
			defer conn.Close()
			all, _ := io.ReadAll(conn)
			got <- string(all)
		}()
		s, err := NewSyslog(place, roots)
		if err != nil {
			t.Fatal(err)
		}
		if err := send(t, s); err != nil {
			t.Fatal(scheme, err)
		}
		text := <-got
		if scheme == "unix" {
			text = strings.TrimSuffix(text, "\n")
		} else {
			length, rest, _ := strings.Cut(text, " ")
			if n, err := strconv.Atoi(length); err != nil || n != len(rest) {
				t.Errorf("%s: %q", scheme, text)
			}
			text = rest
		}
		wantMessage(t, scheme, text)
		l.Close()
	}
}

// TestSyslogDoesNotTrustAnybody: another's certificate is no collector's.
func TestSyslogDoesNotTrustAnybody(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	server.Config.ErrorLog = nil
	s, err := NewSyslog("tls://"+server.Listener.Addr().String(), x509.NewCertPool())
	if err != nil {
		t.Fatal(err)
	}
	var unknown *tls.CertificateVerificationError
	if err := send(t, s); !errors.As(err, &unknown) {
		t.Errorf("%v", err)
	}
}

func TestSyslogPlaces(t *testing.T) {
	for _, place := range []string{"", "x", "unix://", "unix:log", "unix://host/log", "udp://host", "udp://:514", "udp://host:0", "udp://host:99999",
		"tcp://host:1/x", "tls://u@host:1", "tls://host:1?x", "http://host:1", "udp://host:1#x", "udp:host:1"} {
		if _, err := NewSyslog(place, nil); !errors.Is(err, ErrPlace) {
			t.Errorf("%q: %v", place, err)
		}
	}
	for _, place := range []string{"unix:///dev/log", "udp://[::1]:514", "tcp://log.example:601", "tls://log.example:6514"} {
		if s, err := NewSyslog(place, nil); err != nil || s.Name() != "syslog "+place {
			t.Errorf("%q: %v", place, err)
		}
	}
}

func TestHTTP(t *testing.T) {
	leak.Check(t)
	var body, kind string
	answers := map[string]func(http.ResponseWriter){
		"/ok":       func(w http.ResponseWriter) { w.WriteHeader(204) },
		"/endless":  func(w http.ResponseWriter) { io.Copy(w, endless{}) },
		"/no":       func(w http.ResponseWriter) { w.WriteHeader(500) },
		"/redirect": func(w http.ResponseWriter) { w.Header().Set("Location", "/ok"); w.WriteHeader(307) },
		"/header":   func(w http.ResponseWriter) { w.Header().Set("X", strings.Repeat("x", 64<<10)) },
	}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		body, kind = string(b), r.Method+" "+r.Header.Get("Content-Type")
		answers[r.URL.Path](w)
	}))
	roots := server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	for path, good := range map[string]bool{"/ok": true, "/endless": true, "/no": false, "/redirect": false, "/header": false} {
		h, err := NewHTTP(server.URL+path, roots)
		if err != nil {
			t.Fatal(err)
		}
		err = send(t, h)
		if (err == nil) != good || body != line || kind != "POST application/json" || strings.Contains(h.Name(), path) {
			t.Errorf("%s: %v, %s %q", path, err, kind, body)
		}
		if err != nil && strings.Contains(err.Error(), path) {
			t.Errorf("%s is in %v", path, err)
		}
	}
	h, err := NewHTTP(server.URL+"/ok", x509.NewCertPool())
	if err != nil {
		t.Fatal(err)
	}
	var unknown *tls.CertificateVerificationError
	if err := send(t, h); !errors.As(err, &unknown) {
		t.Errorf("another's certificate: %v", err)
	}
	server.CloseClientConnections()
	server.Close()
	if err := send(t, h); err == nil {
		t.Error("nobody listens, and it is taken")
	}
}

// endless is a body without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// TestHTTPHonoursItsContext: an anchor that never answers.
func TestHTTPHonoursItsContext(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		if conn, err := l.Accept(); err == nil {
			_, _ = bufio.NewReader(conn).ReadString(0)
			conn.Close()
		}
	}()
	h, err := NewHTTP("http://"+l.Addr().String()+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := h.Send(ctx, []byte(line)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

func TestHTTPPlaces(t *testing.T) {
	for _, place := range []string{"", "x", "http://anchor.example/", "http://localhost/", "https://", "https://u:p@host/", "https://host/#x", "ftp://host/", "https:host", "http://10.0.0.1/"} {
		if _, err := NewHTTP(place, nil); !errors.Is(err, ErrPlace) {
			t.Errorf("%q: %v", place, err)
		}
	}
	for _, place := range []string{"https://anchor.example/x?y", "http://127.0.0.1:8080/", "http://[::1]/"} {
		if _, err := NewHTTP(place, nil); err != nil {
			t.Errorf("%q: %v", place, err)
		}
	}
}
