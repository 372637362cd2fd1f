package carry

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// appendExtension adds an extension to a hello of one record.
func appendExtension(raw []byte, kind uint16, data []byte) []byte {
	body := append([]byte(nil), raw[9:]...)
	at := 2 + 32
	at += 1 + int(body[at])
	at += 2 + int(binary.BigEndian.Uint16(body[at:]))
	at += 1 + int(body[at])
	binary.BigEndian.PutUint16(body[at:], uint16(len(body)-at-2+4+len(data)))
	body = binary.BigEndian.AppendUint16(body, kind)
	body = binary.BigEndian.AppendUint16(body, uint16(len(data)))
	return record(append(body, data...))
}

// record makes a hello of a body.
func record(body []byte) []byte {
	msg := append([]byte{helloType, 0, byte(len(body) >> 8), byte(len(body))}, body...)
	return append(binary.BigEndian.AppendUint16([]byte{recordHandshake, 3, 1}, uint16(len(msg))), msg...)
}

// fragment puts a hello of one record into several of n bytes.
func fragment(raw []byte, n int) (out []byte) {
	for msg := raw[5:]; len(msg) > 0; msg = msg[min(n, len(msg)):] {
		part := msg[:min(n, len(msg))]
		out = append(binary.BigEndian.AppendUint16(append(out, recordHandshake, 3, 1), uint16(len(part))), part...)
	}
	return out
}

func TestHello(t *testing.T) {
	good := clientHello(t, "allowed.test")
	names := func(kind byte, texts ...string) []byte {
		var list []byte
		for _, text := range texts {
			list = append(binary.BigEndian.AppendUint16(append(list, kind), uint16(len(text))), text...)
		}
		return append(binary.BigEndian.AppendUint16(nil, uint16(len(list))), list...)
	}
	bare := clientHello(t, "")
	with := func(change func([]byte)) []byte {
		b := bytes.Clone(good)
		change(b)
		return b
	}
	for name, row := range map[string]struct {
		raw  []byte
		name string
		err  error
	}{
		"as it is":           {good, "allowed.test", nil},
		"in fragments":       {fragment(good, 40), "allowed.test", nil},
		"no name":            {bare, "", nil},
		"no extensions":      {record(append(append(make([]byte, 34), 0, 0, 2, 0, 1), 1, 0)), "", nil},
		"nothing":            {nil, "", errSilent},
		"too many fragments": {fragment(good, 1), "", errHello},
		"another record":     {with(func(b []byte) { b[0] = 21 }), "", errNotTLS},
		"another version":    {with(func(b []byte) { b[1] = 2 }), "", errHello},
		"another message":    {with(func(b []byte) { b[5] = 2 }), "", errHello},
		"an empty record":    {[]byte{22, 3, 1, 0, 0, 22, 3, 1, 0, 0}, "", errHello},
		"a long record":      {[]byte{22, 3, 1, 0x40, 1}, "", errHello},
		"a long message":     {append([]byte{22, 3, 1, 0, 4}, 1, 0, 0x80, 0), "", errHello},
		"cut short":          {good[:len(good)-1], "", errHello},
		"more in the record": {func() []byte {
			b := append(bytes.Clone(good), 0)
			binary.BigEndian.PutUint16(b[3:], uint16(len(b)-5))
			return b
		}(), "", errHello},
		"two names":          {appendExtension(bare, extServerName, names(0, "allowed.test", "other.test")), "", errHello},
		"another kind":       {appendExtension(bare, extServerName, names(1, "allowed.test")), "", errHello},
		"an empty name":      {appendExtension(bare, extServerName, names(0, "")), "", errHello},
		"no name in it":      {appendExtension(bare, extServerName, names(0)), "", errHello},
		"bytes after":        {appendExtension(bare, extServerName, append(names(0, "a.test"), 0)), "", errHello},
		"twice":              {appendExtension(good, extServerName, names(0, "other.test")), "", errHello},
		"an extension twice": {appendExtension(appendExtension(good, 0x1234, nil), 0x1234, nil), "", errHello},
		"half an extension":  {record(append(append(make([]byte, 34), 0, 0, 2, 0, 1, 1, 0), 0, 2, 0, 0)), "", errHello},
		"after extensions":   {record(append(append(make([]byte, 34), 0, 0, 2, 0, 1, 1, 0), 0, 0, 0)), "", errHello},
		"odd suites":         {record(append(append(make([]byte, 34), 0, 0, 3, 0, 1, 1), 1, 0)), "", errHello},
		"no suites":          {record(append(append(make([]byte, 34), 0, 0, 0), 1, 0)), "", errHello},
		"no methods":         {record(append(append(make([]byte, 34), 0, 0, 2, 0, 1), 0)), "", errHello},
		"a long session":     {record(append(append(make([]byte, 34), 33), make([]byte, 33+7)...)), "", errHello},
		"short":              {record(make([]byte, 33)), "", errHello},
	} {
		raw, h, err := readHello(bytes.NewReader(append(bytes.Clone(row.raw), "rest"...)[:len(row.raw)]))
		if !errors.Is(err, row.err) || h.name != row.name {
			t.Errorf("%s: %q %v", name, h.name, err)
		}
		if err == nil && !bytes.Equal(raw, row.raw) {
			t.Errorf("%s: what was read is not what came", name)
		}
	}
}

func TestAHelloIsReadAndNotAByteMore(t *testing.T) {
	r := bytes.NewReader(append(clientHello(t, "allowed.test"), "early data"...))
	if _, _, err := readHello(r); err != nil || r.Len() != len("early data") {
		t.Errorf("%d bytes are left: %v", r.Len(), err)
	}
}

func TestSameName(t *testing.T) {
	for name, same := range map[string]bool{
		"k.test": true, "K.TEST": true, "k.test.": true, "k.test..": false, "\u212a.test": false, "": false, "k.tes": false, "k.test\x00": false, " k.test": false,
	} {
		if sameName(name, "k.test") != same {
			t.Errorf("%q: %v", name, !same)
		}
	}
}

// bytesConn is a connection on which these bytes come and nothing more.
type bytesConn struct{ io.Reader }

func (bytesConn) Write(b []byte) (int, error)      { return len(b), nil }
func (bytesConn) Close() error                     { return nil }
func (bytesConn) LocalAddr() net.Addr              { return nil }
func (bytesConn) RemoteAddr() net.Addr             { return nil }
func (bytesConn) SetDeadline(time.Time) error      { return nil }
func (bytesConn) SetReadDeadline(time.Time) error  { return nil }
func (bytesConn) SetWriteDeadline(time.Time) error { return nil }

// libraryName returns the name that crypto/tls finds in a hello.
func libraryName(b []byte) (name string, ok bool) {
	stop := errors.New("enough")
	conf := &tls.Config{GetConfigForClient: func(info *tls.ClientHelloInfo) (*tls.Config, error) {
		name, ok = info.ServerName, true
		return nil, stop
	}}
	_ = tls.Server(bytesConn{bytes.NewReader(b)}, conf).Handshake() // it ends with an error, always
	return name, ok
}

// FuzzHello holds us to the library: what we take, it takes too or not at
// all, and never for another name.
func FuzzHello(f *testing.F) {
	for _, name := range []string{"allowed.test", "", strings.Repeat("a", 60) + ".test"} {
		raw := clientHello(f, name)
		f.Add(raw)
		f.Add(fragment(raw, 50))
		f.Add(appendExtension(raw, extECH, []byte{1}))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		raw, h, err := readHello(bytes.NewReader(b))
		if !bytes.HasPrefix(b, raw) {
			t.Fatal("what was read is not what came")
		}
		if err != nil {
			if h != (hello{}) {
				t.Fatal("an error and a name")
			}
			return
		}
		if name, ok := libraryName(b); ok && name != h.name {
			t.Fatalf("we read %q, the library %q", h.name, name)
		}
	})
}
