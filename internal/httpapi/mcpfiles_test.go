package httpapi_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/callcell/callcell/internal/gateway"
	"github.com/callcell/callcell/internal/testing/leak"
)

const (
	listFiles = `{"jsonrpc":"2.0","id":4,"method":"resources/list"}`
	readFile  = `{"jsonrpc":"2.0","id":5,"method":"resources/read","params":{"uri":"%s"}}`
)

// fileOf makes a call in a session that leaves a file of so many zeros, and
// returns where it can be read.
func (s *stand) fileOf(key, session string, size int) (uri string) {
	s.t.Helper()
	a := s.mcp("POST", key, session, fmt.Sprintf(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"run_command","arguments":{"argv":["/bin/sparse","%d"],"outputs":["sparse"]}}}`, size))
	_, text, ok := strings.Cut(string(a.body), `"uri":"`)
	uri, _, end := strings.Cut(text, `"`)
	if a.StatusCode != 200 || !ok || !end {
		s.t.Fatalf("%d %.1000s", a.StatusCode, a.body)
	}
	return uri
}

// result is what an answer over MCP has in it.
func result(a *answer) []byte {
	_, text, _ := strings.Cut(string(a.body), "data: ")
	text, _, _ = strings.Cut(text, "\n")
	return []byte(text)
}

// TestFilesOfSessionsAreMadeIntoAnswersInTurn: the SDK has an answer several times
// while it makes it. So a key makes one out of files at a time, and waits; whoever
// goes away meanwhile leaves nothing, and nobody else waits for it.
func TestFilesOfSessionsAreMadeIntoAnswersInTurn(t *testing.T) {
	leak.Check(t)
	s := newStand(t, nil)
	id, key := s.key("blue", gateway.RoleCall)
	_, other := s.key("red", gateway.RoleCall)
	session, others := s.session(key), s.session(other)
	uri := s.fileOf(key, session, 3<<20)
	theirs := s.fileOf(other, others, 1<<20)
	leave, err := s.api.MakesAnswer(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	answers := make(chan *answer)
	for _, body := range []string{listFiles, fmt.Sprintf(readFile, uri)} {
		go func() { answers <- s.mcp("POST", key, session, body) }()
	}
	waits := func(want int) {
		t.Helper()
		waitFor(t, func() bool { n, _ := s.api.InLine(); return n == want })
	}
	waits(2)
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nMcp-Session-Id: %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: %d\r\n\r\n%s",
		key, session, len(listFiles), strings.Replace(listFiles, "4", "9", 1))
	if err != nil {
		t.Fatal(err)
	}
	waits(3)
	_ = conn.Close()
	waits(2)
	for _, c := range [][3]string{{key, session, ping}, {other, others, listFiles}, {other, others, fmt.Sprintf(readFile, theirs)}} {
		if a := s.mcp("POST", c[0], c[1], c[2]); a.StatusCode != 200 {
			t.Errorf("%s: %d %s", c[2], a.StatusCode, a.body)
		}
	}
	s.fileOf(key, session, 1) // a call has its turn, and stands in no line
	leave()
	for range 2 {
		if a := <-answers; a.StatusCode != 200 {
			t.Errorf("%d %s", a.StatusCode, a.body)
		}
	}
	waitFor(t, func() bool { n, used := s.api.InLine(); return n == 0 && used == 0 })
}

// TestFilesOfSessionsAtOnce: many that are asked for at once are all answered, in
// sessions and without.
func TestFilesOfSessionsAtOnce(t *testing.T) {
	leak.Check(t)
	s := newStand(t, nil)
	_, key := s.key("blue", gateway.RoleCall)
	session := s.session(key)
	const size = 256 << 10
	uri := s.fileOf(key, session, size)
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			a := s.mcp("POST", key, session, strings.Replace(fmt.Sprintf(readFile, strings.Replace(uri, "file", "raw", 1)), `"id":5`, fmt.Sprintf(`"id":%d`, 100+i), 1))
			var got struct {
				Result struct {
					Contents []struct {
						Blob string `json:"blob"`
					} `json:"contents"`
				} `json:"result"`
			}
			if err := json.Unmarshal(result(a), &got); err != nil || len(got.Result.Contents) != 1 {
				t.Errorf("%d %.300s: %v", a.StatusCode, a.body, err)
				return
			}
			if blob, err := base64.StdEncoding.DecodeString(got.Result.Contents[0].Blob); err != nil || len(blob) != size {
				t.Errorf("%d bytes, %v", len(blob), err)
			}
		})
	}
	all.Wait()
	waitFor(t, func() bool { n, used := s.api.InLine(); return n == 0 && used == 0 })
}
