package httpapi_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/gateway"
	"github.com/callcell/callcell/internal/httpapi"
	"github.com/callcell/callcell/internal/testing/leak"
)

// TestReadersShareAnAnswer: whoever reads a large answer slowly holds no copy of
// it, and reads what others read.
func TestReadersShareAnAnswer(t *testing.T) {
	leak.Check(t)
	s := newStand(t, nil)
	_, key := s.key("blue", gateway.RoleCall)
	data := envelope.Data(strings.Repeat("x", 6<<20))
	body := fmt.Sprintf(`{"argv":["/bin/print","x"],"inputs":[{"name":"f","data":%s}],"outputs":["f"]}`, quoted(t, data))
	want := read[envelope.Result](t, s.do("POST", "/v1/calls", key, body, "Idempotency-Key", "large"), 200)
	state := read[httpapi.CallState](t, s.do("GET", "/v1/calls/"+want.ID, key, ""), 200)
	if state.State != "done" || state.Result == nil || !reflect.DeepEqual(*state.Result, want) || len(want.Outputs) != 1 {
		t.Fatalf("%+v", state)
	}
	before := live()
	const readers = 16
	for range readers {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
		head := make([]byte, 12)
		if _, err = fmt.Fprintf(conn, "GET /v1/calls/%s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", want.ID, key); err == nil {
			_, err = io.ReadFull(conn, head) // the rest is being written
		}
		if err != nil || string(head) != "HTTP/1.1 200" {
			t.Fatalf("%q %v", head, err)
		}
	}
	if more := live() - before; more > 16<<20 {
		t.Errorf("%d readers of %d bytes hold %d more", readers, len(data), more)
	}
}

// live is how many bytes there are that are needed.
func live() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func quoted(t *testing.T, d envelope.Data) string {
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
