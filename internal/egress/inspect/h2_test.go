package inspect

import (
	"bytes"
	"crypto/tls"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/callcell/callcell/internal/testing/leak"
)

// frames is a program that writes frames of HTTP/2.
type frames struct {
	*http2.Framer
	conn *tls.Conn
}

// noSettings is the frame that follows the preface, with which it is written: net/http
// waits for it for no more than two seconds.
const noSettings = "\x00\x00\x00\x04\x00\x00\x00\x00\x00"

func (d *door) frames(t *testing.T) *frames {
	t.Helper()
	conn, err := tls.Dial("tcp", d.Addr().String(), &tls.Config{RootCAs: pool(t, d.o.CA.PEM()), ServerName: "ok.test", NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	f := &frames{http2.NewFramer(conn, conn), conn}
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if _, err := io.WriteString(conn, http2.ClientPreface+noSettings); err != nil {
		t.Fatal(err)
	}
	return f
}

// ask opens a stream with fields, written "name value", and returns its
// status, or 0 where the stream or the connection is reset; and its body.
func (f *frames) ask(t *testing.T, stream uint32, body string, fields ...string) (status int, answer string) {
	t.Helper()
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for _, field := range fields {
		name, value, _ := strings.Cut(field, " ")
		_ = enc.WriteField(hpack.HeaderField{Name: name, Value: value})
	}
	if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: body == ""}); err != nil {
		t.Fatal(err)
	}
	if body != "" {
		if err := f.WriteData(stream, true, []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return status, answer
		}
		if frame.Header().StreamID != stream {
			continue
		}
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			if s, err := strconv.Atoi(frame.PseudoValue("status")); err == nil {
				status = s
			}
		case *http2.DataFrame:
			answer += string(frame.Data())
		case *http2.RSTStreamFrame:
			return status, answer
		}
		if frame.Header().Flags.Has(http2.FlagDataEndStream) && frame.Header().Type != http2.FrameSettings {
			return status, answer
		}
	}
}

// What a well-behaved client of HTTP/2 cannot say.
func TestOddHTTP2RequestsDoNotReachTheOrigin(t *testing.T) {
	get := []string{":method GET", ":scheme https", ":path /"}
	for name, c := range map[string]struct {
		fields []string
		body   string
		status int // 0: the stream is reset
	}{
		"authority":               {append(get, ":authority evil.test"), "", 421},
		"host alone":              {append(get, "host evil.test"), "", 421},
		"host beside":             {append(get, ":authority ok.test", "host evil.test"), "", 421},
		"authority beside":        {append(get, ":authority evil.test", "host ok.test"), "", 421},
		"second host":             {append(get, ":authority ok.test", "host ok.test", "host evil.test"), "", 421},
		"no authority":            {get, "", 421},
		"user":                    {append(get, ":authority ok.test@evil.test"), "", 0},
		"absolute path":           {[]string{":method GET", ":scheme https", ":authority ok.test", ":path https://evil.test/"}, "", 421},
		"relative path":           {[]string{":method GET", ":scheme https", ":authority ok.test", ":path evil"}, "", 0},
		"line in path":            {[]string{":method GET", ":scheme https", ":authority ok.test", ":path /?a HTTP/1.1\r\nHost: evil.test"}, "", 0},
		"space in query":          {[]string{":method GET", ":scheme https", ":authority ok.test", ":path /?a HTTP/1.1"}, "", 403},
		"fragment":                {[]string{":method GET", ":scheme https", ":authority ok.test", ":path /#a"}, "", 403},
		"line in value":           {append(get, ":authority ok.test", "x a\r\nhost: evil.test"), "", 0},
		"NUL in value":            {append(get, ":authority ok.test", "x a\x00"), "", 0},
		"name with colon":         {append(get, ":authority ok.test", "x:y a"), "", 0},
		"connection":              {append(get, ":authority ok.test", "connection close"), "", 400},
		"transfer encoding":       {append(get, ":authority ok.test", "transfer-encoding chunked"), "abc", 400},
		"upgrade":                 {append(get, ":authority ok.test", "upgrade websocket"), "", 400},
		"lengths":                 {[]string{":method POST", ":scheme https", ":authority ok.test", ":path /", "content-length 3", "content-length 4"}, "abc", 400},
		"short length":            {[]string{":method POST", ":scheme https", ":authority ok.test", ":path /", "content-length 1"}, "abc", 0},
		"websocket over a stream": {[]string{":method CONNECT", ":protocol websocket", ":scheme https", ":authority ok.test", ":path /"}, "", 0},
		"connect":                 {[]string{":method CONNECT", ":authority ok.test:443"}, "", 403},
		"method with a space":     {[]string{":method GET /x", ":scheme https", ":authority ok.test", ":path /"}, "", 403},
	} {
		t.Run(name, func(t *testing.T) {
			leak.Check(t)
			to := newSite(t, "ok.test", true, nil)
			d := open(t, to, Options{TLS: true})
			f := d.frames(t)
			status, body := f.ask(t, 1, c.body, c.fields...)
			if status != c.status {
				t.Errorf("status %d %q, want %d", status, body, c.status)
			}
			f.conn.Close()
			out := d.outcome(t)
			if out.Cut != (status == 421 || status == 403) && status != 400 {
				t.Errorf("%+v", out)
			}
			for _, saw := range to.saw() {
				if name != "short length" {
					t.Errorf("the origin saw %q", saw)
				}
			}
		})
	}
}

func TestAPlainHTTP2RequestIsAnswered(t *testing.T) {
	leak.Check(t)
	to := newSite(t, "ok.test", true, nil)
	d := open(t, to, Options{TLS: true})
	f := d.frames(t)
	status, body := f.ask(t, 1, "abc", ":method POST", ":scheme https", ":authority ok.test", ":path /", "host ok.test")
	if status != 200 || body != "ok.test says abc" {
		t.Errorf("%d %q", status, body)
	}
	f.conn.Close()
	if out := d.outcome(t); out.Cut || out.Requests != 1 {
		t.Errorf("%+v", out)
	}
}
