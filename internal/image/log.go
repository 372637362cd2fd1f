package image

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// mostLog is what is kept of what a build prints: its head and its tail.
const mostLog = 1 << 20

// kept keeps the head and the tail of what is written, and hands it on.
type kept struct {
	on   io.Writer
	head []byte
	tail []byte
	cut  bool
}

func newKept(on io.Writer) *kept { return &kept{on: on} }

func (k *kept) Write(p []byte) (int, error) {
	if k.on != nil {
		_, _ = k.on.Write(p) // for show
	}
	rest := p
	if n := min(len(rest), mostLog/2-len(k.head)); n > 0 {
		k.head, rest = append(k.head, rest[:n]...), rest[n:]
	}
	k.tail = append(k.tail, rest...)
	if over := len(k.tail) - mostLog/2; over > mostLog/2 {
		k.tail, k.cut = append([]byte(nil), k.tail[over:]...), true
	}
	return len(p), nil
}

func (k *kept) text() []byte {
	text := append([]byte(nil), k.head...)
	if k.cut {
		text = append(text, "\n... some of it is not kept ...\n"...)
	}
	return append(text, k.tail...)
}

// complaint is the first two lines that speak of an error, or else the last one
// with something on it.
func (k *kept) complaint() string {
	lines := strings.Split(strings.TrimSpace(string(k.text())), "\n")
	var errs []string
	for _, line := range lines {
		if strings.Contains(strings.ToLower(line), "error") && len(errs) < 2 {
			errs = append(errs, strings.TrimSpace(line))
		}
	}
	if len(errs) > 0 {
		return strings.Join(errs, "; ")
	}
	return strings.TrimSpace(lines[len(lines)-1])
}

func (m *Maker) keepLog(r *Record, log *kept) error {
	if err := replace(m.Index.logFile(r.Call), log.text()); err != nil {
		return &Error{Kind: KindStore, Name: r.Name, Msg: "its log cannot be kept", Err: err}
	}
	return nil
}

func (x *Index) logFile(call string) string { return filepath.Join(x.dir, "logs", call+".log") }

// Log returns what the making of an image printed: data of a stranger.
func (x *Index) Log(r *Record) ([]byte, error) {
	if r.Call == "" || strings.ContainsAny(r.Call, "/.") {
		return nil, nil
	}
	text, err := os.ReadFile(x.logFile(r.Call))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return text, err
}
