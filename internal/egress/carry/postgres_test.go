package carry

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/testing/leak"
)

// postgresServer answers the request for TLS and goes on with it, or takes
// TLS at once.
func postgresServer(t *testing.T, answer string) string {
	inside := echoTLS(t)
	return origin(t, func(c net.Conn) {
		first := make([]byte, 8)
		if _, err := io.ReadFull(c, first); err != nil {
			return
		}
		if first[0] == recordHandshake {
			inside(headed{c, io.MultiReader(bytes.NewReader(first), c)})
			return
		}
		_, _ = c.Write([]byte(answer))
		if answer == "S" {
			inside(c)
		}
	})
}

// headed is a connection with another reader.
type headed struct {
	net.Conn
	r io.Reader
}

func (h headed) Read(b []byte) (int, error) { return h.r.Read(b) }

// talk speaks TLS to the end of the connection.
func talk(t *testing.T, c net.Conn, name string) error {
	t.Helper()
	inside := tls.Client(c, &tls.Config{ServerName: name, InsecureSkipVerify: true})
	if _, err := inside.Write([]byte("select 1")); err != nil {
		return err
	}
	if err := inside.CloseWrite(); err != nil {
		return err
	}
	got, err := io.ReadAll(inside)
	if err == nil && string(got) != "select 1" {
		t.Errorf("got %q", got)
	}
	return err
}

// step writes and reads as many bytes as are expected.
func step(t *testing.T, c net.Conn, says []byte, expected string) {
	t.Helper()
	if _, err := c.Write(says); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(expected))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != expected {
		t.Fatalf("%q %v", got, err)
	}
}

func TestPostgresIsCarriedInTLS(t *testing.T) {
	leak.Check(t)
	addr := postgresServer(t, "S")
	for name, before := range map[string]func(*run){
		"asks": func(r *run) { step(t, r, postgresMessage(postgresSSL), "S") },
		"asks for GSS too": func(r *run) {
			step(t, r, postgresMessage(postgresGSS), "N")
			step(t, r, postgresMessage(postgresSSL), "S")
		},
		"at once":          func(*run) {},
		"at once, after N": func(r *run) { step(t, r, postgresMessage(postgresGSS), "N") },
	} {
		r := start(t, t.Context(), addr, envelope.ProtocolPostgres, nil)
		before(r)
		if err := talk(t, r.TCPConn, "allowed.test"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		_ = r.Close()
		out := r.end(t)
		want(t, out, envelope.VerdictAllowed, "")
		if out.Unchecked != UncheckedFronting {
			t.Errorf("%s: %+v", name, out)
		}
	}
}

func TestPostgresOfAnotherNameIsCut(t *testing.T) {
	r := start(t, t.Context(), postgresServer(t, "S"), envelope.ProtocolPostgres, nil)
	step(t, r, postgresMessage(postgresSSL), "S")
	if err := talk(t, r.TCPConn, "other.test"); err == nil || !strings.Contains(err.Error(), "access denied") {
		t.Error(err)
	}
	want(t, r.end(t), envelope.VerdictCut, `the ClientHello names "other.test", not "allowed.test"`)
}

func TestPostgresWithoutTLSIsRefused(t *testing.T) {
	leak.Check(t)
	startup := append([]byte{0, 0, 0, 17, 0, 3, 0, 0}, "user\x00me\x00\x00"...)
	for name, row := range map[string]struct {
		before []byte
		says   []byte
		why    string
	}{
		"plain":         {nil, startup, "PostgreSQL without TLS is not carried: set sslmode=require"},
		"plain after N": {postgresMessage(postgresGSS), startup, "PostgreSQL without TLS is not carried: set sslmode=require"},
		"cancel":        {nil, append([]byte{0, 0, 0, 16, 0x04, 0xd2, 0x16, 0x2e}, make([]byte, 8)...), "a request to cancel without TLS is not carried"},
		"GSS twice":     {postgresMessage(postgresGSS), postgresMessage(postgresGSS), "the program asks for encryption twice"},
		"long request":  {nil, []byte{0, 0, 0, 9, 0x04, 0xd2, 0x16, 0x2f, 0}, "the program asks for encryption twice"},
		"http":          {nil, []byte("GET / HTTP/1.1\r\n\r\n"), notPostgres},
	} {
		r := start(t, t.Context(), "127.0.0.1:1", envelope.ProtocolPostgres, nil)
		if row.before != nil {
			step(t, r, row.before, "N")
		}
		got, err := r.wrote(t, row.says)
		if !bytes.HasPrefix(got, []byte("E")) || !bytes.Contains(got, []byte("Mcallcell: "+row.why+"\x00")) || !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s: %q %v", name, got, err)
		}
		want(t, r.end(t), envelope.VerdictDenied, row.why)
		if r.dialled != 0 {
			t.Errorf("%s: it was dialled", name)
		}
	}
}

func TestPostgresServerWithoutTLSIsCut(t *testing.T) {
	leak.Check(t)
	for _, answer := range []string{"N", "E"} {
		r := start(t, t.Context(), postgresServer(t, answer), envelope.ProtocolPostgres, nil)
		got, _ := r.wrote(t, postgresMessage(postgresSSL)) // it ends by a reset
		if string(got) != answer {
			t.Errorf("%q came", got)
		}
		want(t, r.end(t), envelope.VerdictCut, "the server does not speak TLS, and nothing else is carried")
	}
	r := start(t, t.Context(), postgresServer(t, ""), envelope.ProtocolPostgres, nil)
	_, _ = r.wrote(t, postgresMessage(postgresSSL)) // it ends by a reset
	want(t, r.end(t), envelope.VerdictAllowed, "the connection broke while waiting for the other side")
}
