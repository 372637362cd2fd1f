package link

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"syscall"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/launcher/wire"
)

// Unpacked is what there is to say of a tree that was made.
type Unpacked struct {
	Digest  string           // sha256:HEX, of the tree
	Bytes   int64            // of its files
	Entries int64            // files, directories and links
	Dropped map[string]int64 // members that a tree does not have, by reason
	Disk    int64            // bytes on disk, in every form
}

// UnpackError is a stream of which no tree could be made. Its texts are partly
// the stream's own, cut and in printable characters.
type UnpackError struct {
	Kind  string // the unpacker's word
	Entry string // the member at fault; "" where none is
	Msg   string
}

// Error names the member and the fault.
func (e *UnpackError) Error() string {
	text := "the stream"
	if e.Entry != "" {
		text += ": " + e.Entry
	}
	return text + ": " + e.Msg
}

// mostSaid bounds what an unpacker may say, in bytes.
const mostSaid = 64 << 10

// said is the one line of JSON that an unpacker writes.
type said struct {
	Digest  string           `json:"digest"`
	Bytes   int64            `json:"bytes"`
	Entries int64            `json:"entries"`
	Dropped map[string]int64 `json:"dropped"`
	Error   *struct {
		Kind  string `json:"kind"`
		Entry string `json:"entry"`
		Msg   string `json:"msg"`
	} `json:"error"`
}

// outcome puts together how an unpacker ended and what it said. Both are of a
// process that read a stranger's bytes.
func outcome(b *wire.Unpacked, text []byte) (*Unpacked, error) {
	s, err := parseSaid(text)
	switch status := syscall.WaitStatus(b.Status); {
	case b.Cause == wire.CauseWall:
		return nil, &UnpackError{Kind: "wall", Msg: "it took longer than image.wall in launcher.conf"}
	case b.Cause == wire.CauseMemory:
		return nil, &UnpackError{Kind: "memory", Msg: "the unpacker ran out of memory: image.memory in launcher.conf"}
	case b.Cause == wire.CauseOutput:
		return nil, &UnpackError{Kind: "broken", Msg: "the unpacker wrote more than it may"}
	case err == nil && s.Error != nil && status.Exited() && b.Status != 0: // by itself, whoever gave it up meanwhile
		return nil, &UnpackError{Kind: printable(s.Error.Kind, 64), Entry: printable(s.Error.Entry, 300), Msg: printable(s.Error.Msg, 1000)}
	case b.Cause != wire.CauseNone:
		return nil, &cell.Error{Reason: envelope.ReasonSetup, Step: "unpack a tree", Err: fmt.Errorf("the unpacker was ended: %w", cell.ErrClosed)}
	case b.Status != 0 && status.Signaled():
		return nil, &UnpackError{Kind: "broken", Msg: fmt.Sprintf("the unpacker died of signal %d: %s", status.Signal(), b.Words)}
	case b.Status != 0:
		return nil, &UnpackError{Kind: "broken", Msg: fmt.Sprintf("the unpacker ended with status %d: %s", status.ExitStatus(), b.Words)}
	case err != nil:
		return nil, &UnpackError{Kind: "broken", Msg: "what the unpacker says is malformed: " + printable(err.Error(), 200)}
	case s.Error != nil:
		return nil, &UnpackError{Kind: "broken", Msg: "the unpacker says that it failed, and ended well"}
	}
	return &Unpacked{Digest: s.Digest, Bytes: s.Bytes, Entries: s.Entries, Dropped: s.Dropped, Disk: b.Bytes}, nil
}

// parseSaid decodes what an unpacker wrote, strictly: one line, one object, of
// known fields, with a digest or an error.
func parseSaid(text []byte) (*said, error) {
	if len(text) > mostSaid {
		return nil, fmt.Errorf("more than %d bytes", mostSaid)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	s := &said{}
	if err := d.Decode(s); err != nil {
		return nil, err
	}
	if rest := bytes.TrimSpace(text[d.InputOffset():]); len(rest) > 0 {
		return nil, fmt.Errorf("%d bytes follow", len(rest))
	}
	hex, ok := strings.CutPrefix(s.Digest, "sha256:")
	if s.Error == nil && (!ok || !wire.IsDigest(hex) || s.Bytes < 0 || s.Entries < 0) {
		return nil, fmt.Errorf("digest %.80q, %d bytes, %d entries", s.Digest, s.Bytes, s.Entries)
	}
	return s, nil
}

// printable cuts a text and replaces what is no printable ASCII.
func printable(text string, most int) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text[:min(len(text), most)])
}
