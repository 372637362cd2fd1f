package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/callcell/callcell/internal/testing/leak"
)

const ping = `{"jsonrpc":"2.0","id":7,"method":"ping"}`

// readAllOf reads what a client sent to its end: the methods that came through,
// and what was answered to the rest.
func readAllOf(t testing.TB, input []byte, max int) (methods []string, answers []string) {
	t.Helper()
	var out bytes.Buffer
	conn, err := lines{in: io.NopCloser(bytes.NewReader(input)), out: &out, max: max}.Connect(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for {
		msg, err := conn.Read(context.Background())
		if err != nil {
			if !errors.Is(err, io.EOF) {
				t.Fatalf("the input ended with %v", err)
			}
			break
		}
		if req, ok := msg.(*jsonrpc.Request); ok {
			methods = append(methods, req.Method)
		}
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	if out.Len() > 0 {
		answers = strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	}
	return methods, answers
}

func TestWhatIsNoMessageIsAnsweredAndSkipped(t *testing.T) {
	leak.Check(t)
	for _, c := range []struct{ name, line, says string }{
		{"not JSON", `{bad`, "not JSON"},
		{"not a message", `{"a":1}`, "not a message"},
		{"a number", `1`, "not a message"},
		{"a batch", `[` + ping + `]`, "batches"},
		{"two messages on one line", ping + ping, "not JSON"},
		{"bytes that are no text", "\xff\xfe{", "not JSON"},
		{"too long", `{"a":"` + strings.Repeat("x", 2000) + `"}`, "more than 1000 bytes"},
		{"too deep", strings.Repeat("[", 70) + strings.Repeat("]", 70), "batches"},
		{"too deep within", `{"a":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + "}", "nested deeper"},
	} {
		methods, answers := readAllOf(t, []byte(ping+"\n"+c.line+"\n\n \r\n"+ping+"\r\n"), 1000)
		if len(methods) != 2 || len(answers) != 1 || !strings.Contains(answers[0], c.says) || !json.Valid([]byte(answers[0])) {
			t.Errorf("%s: %q, %q", c.name, methods, answers)
		}
	}
	if methods, _ := readAllOf(t, []byte(ping), 1000); len(methods) != 0 {
		t.Errorf("a line that may have been cut was taken: %q", methods)
	}
}

// TestReadLineIsBounded holds no more than it may, whatever comes.
func TestReadLineIsBounded(t *testing.T) {
	endless := io.LimitReader(zeros{}, 64<<20)
	r := bufio.NewReaderSize(io.MultiReader(endless, strings.NewReader("\n"+ping+"\n")), 64<<10)
	if _, err := readLine(r, 1000); err == nil {
		t.Fatal("a line of 64 MiB was taken")
	}
	if line, err := readLine(r, 1000); err != nil || string(line) != ping {
		t.Errorf("%q, %v", line, err)
	}
	for _, n := range []int{999, 1000, 1001} {
		line, err := readLine(bufio.NewReader(strings.NewReader(strings.Repeat("x", n)+"\n")), 1000)
		if ok := n <= 1000; ok != (err == nil) || ok && len(line) != n {
			t.Errorf("a line of %d bytes: %d, %v", n, len(line), err)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}

// FuzzLines: whatever a client sends, what comes after it is read, and every
// answer is one line of JSON.
func FuzzLines(f *testing.F) {
	f.Add([]byte(ping))
	f.Add([]byte("{bad\n[1]\n" + strings.Repeat("{", 100)))
	f.Add([]byte("\xff\x00\n\r\n\"\\"))
	f.Fuzz(func(t *testing.T, data []byte) {
		methods, answers := readAllOf(t, fmt.Appendf(nil, "%s\n%s\n", data, `{"jsonrpc":"2.0","id":1,"method":"last"}`), 500)
		if len(methods) == 0 || methods[len(methods)-1] != "last" {
			t.Fatalf("the next message was lost: %q", methods)
		}
		for _, a := range answers {
			if !json.Valid([]byte(a)) {
				t.Fatalf("answered %q", a)
			}
		}
	})
}
