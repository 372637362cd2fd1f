package broker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/broker"
	"github.com/callcell/callcell/internal/cell/celltest/fake"
)

// larder keeps blobs of teams in memory.
type larder struct {
	mu   sync.Mutex // guards what follows
	have map[string][]byte
	read int   // bytes
	fail error // of Keep
}

func (l *larder) find(team, digest string) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	data, ok := l.have[team+" "+digest]
	if !ok {
		return nil, broker.ErrNoBlob
	}
	return data, nil
}

func (l *larder) Size(_ context.Context, team, digest string) (int64, error) {
	data, err := l.find(team, digest)
	return int64(len(data)), err
}

func (l *larder) Get(_ context.Context, team, digest string, max int64) ([]byte, error) {
	data, err := l.find(team, digest)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.read += len(data); int64(len(data)) > max {
		return nil, errors.New("larger than was said")
	}
	return data, err
}

func (l *larder) Keep(_ context.Context, team string, data [][]byte) (digests []string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range data {
		digests = append(digests, envelope.Digest(d))
		if l.fail == nil {
			l.have[team+" "+envelope.Digest(d)] = d
		}
	}
	return digests, l.fail
}

func newLarder(team string, texts ...string) *larder {
	l := &larder{have: map[string][]byte{}}
	for _, text := range texts {
		l.have[team+" "+envelope.Digest([]byte(text))] = []byte(text)
	}
	return l
}

func blobFile(name, text string) envelope.File {
	return envelope.File{Name: name, Blob: envelope.Digest([]byte(text))}
}

// TestBlobsGoIn: an input and a file of a tree by their digests are as if their
// bytes were in the call, in the cell and in the row; the caller's call stays.
func TestBlobsGoIn(t *testing.T) {
	blobs := newLarder("blue", "from a blob", "of the tree")
	var seen []string
	s := newTreeStand(t, func(f *fake.Files) error {
		for _, name := range []string{"in", "plain", "t"} {
			data, _ := f.Read(name)
			seen = append(seen, string(data))
		}
		return f.Write("t", []byte("changed"), false)
	}, func(c *broker.Config) { c.Blobs = blobs })
	call := argv("/bin/work")
	call.Inputs = []envelope.File{blobFile("in", "from a blob"), {Name: "plain", Data: []byte("plain")}}
	call.Inputs[0].Size = 11
	call.Tree = &envelope.Tree{Files: []envelope.File{blobFile("t", "of the tree")}}
	r := s.run(t.Context(), call)
	if r.Outcome != envelope.OutcomeCompleted || strings.Join(seen, ",") != "from a blob,plain,of the tree" {
		t.Fatalf("%v %q", r.Refusal, seen)
	}
	if r.Changes == nil || len(r.Changes.Files) != 1 || r.Changes.Files[0].Before != envelope.Digest([]byte("of the tree")) {
		t.Errorf("%+v", r.Changes)
	}
	in := s.intents[r.ID].Call
	if in.NamesBlobs() || string(in.Inputs[0].Data) != "from a blob" {
		t.Errorf("the row's call: %+v", in.Inputs)
	}
	if call.Inputs[0].Data != nil || call.Tree.Files[0].Data != nil || call.Inputs[0].Blob == "" {
		t.Error("the caller's call was changed")
	}
}

// TestBlobsThatDoNotGoIn: nothing runs, no cell is built, and what is too large
// is not even read.
func TestBlobsThatDoNotGoIn(t *testing.T) {
	big := strings.Repeat("x", 2<<20)
	for name, c := range map[string]struct {
		inputs []envelope.File
		reason envelope.Reason
		field  string
	}{
		"nobody's":             {[]envelope.File{blobFile("a", "nobody's")}, envelope.ReasonRequest, "inputs[0].blob"},
		"another team's":       {[]envelope.File{{Name: "x"}, blobFile("a", "red's")}, envelope.ReasonRequest, "inputs[1].blob"},
		"of another size":      {[]envelope.File{{Name: "a", Blob: envelope.Digest([]byte("mine")), Size: 5}}, envelope.ReasonRequest, "inputs[0].size"},
		"too large together":   {[]envelope.File{blobFile("a", big), blobFile("b", big), blobFile("c", big)}, envelope.ReasonPolicy, "inputs"},
		"more than the memory": {[]envelope.File{blobFile("a", big)}, envelope.ReasonPolicy, "inputs"},
	} {
		t.Run(name, func(t *testing.T) {
			blobs := newLarder("blue", "mine", big)
			blobs.have["red "+envelope.Digest([]byte("red's"))] = []byte("red's")
			s := newStand(t, func(c *broker.Config) { c.Blobs = blobs })
			s.profile.Files.Scratch = 5 * envelope.MiB
			if name == "more than the memory" {
				s.profile.Resources.Memory = envelope.MiB
			}
			call := argv("/bin/print")
			call.Inputs = c.inputs
			r := s.run(t.Context(), call)
			if r.Refusal == nil || r.Refusal.Reason != c.reason || r.Refusal.Field != c.field || s.count("open") != 0 {
				t.Errorf("%+v", r.Refusal)
			}
			if name == "too large together" && blobs.read > 0 {
				t.Errorf("%d bytes were read", blobs.read)
			}
		})
	}
	s := newStand(t)
	call := argv("/bin/print")
	call.Inputs = []envelope.File{blobFile("a", "x")}
	if r := s.run(t.Context(), call); r.Refusal == nil || r.Refusal.Reason != envelope.ReasonUnsupported {
		t.Errorf("where there are none: %+v", r.Refusal)
	}
	s = newStand(t, func(c *broker.Config) { c.Blobs = newLarder("", "x") })
	most := envelope.Size(0)
	for _, call := range []*envelope.Call{call, {Argv: []string{"/bin/print"}, Outputs: []string{"a"}, InlineOutputs: &most}} {
		if r := s.broker.Run(t.Context(), broker.Caller{Name: "local:uid 1"}, call); r.Refusal == nil || r.Refusal.Reason != envelope.ReasonUnsupported {
			t.Errorf("who could not have it again: %+v", r.Refusal)
		}
	}
}

// TestOutputsBecomeBlobs: those that are larger than the caller asks for, of his
// own team; the row has their digests as ever; and where they cannot be kept
// the result says so and has the others.
func TestOutputsBecomeBlobs(t *testing.T) {
	run := func(most *envelope.Size, fail error) (*stand, *larder, *envelope.Result) {
		blobs := newLarder("blue")
		blobs.fail = fail
		s := newTreeStand(t, func(f *fake.Files) error {
			return errors.Join(f.Write("small", []byte("1234"), true), f.Write("large", []byte("12345"), true))
		}, func(c *broker.Config) { c.Blobs = blobs })
		call := argv("/bin/work")
		call.Outputs, call.InlineOutputs = []string{"small", "large"}, most
		return s, blobs, s.run(t.Context(), call)
	}
	text := func(r *envelope.Result) (out string) {
		for _, f := range r.Outputs {
			out += fmt.Sprintf("%s=%s %d %t %t;", f.Name, f.Data, f.Size, f.Blob != "", f.Executable)
		}
		for _, m := range r.Missing {
			out += m.Name + ": " + m.Why + ";"
		}
		return out
	}
	zero, four := envelope.Size(0), 4*envelope.Byte
	for _, c := range []struct {
		most *envelope.Size
		fail error
		want string
	}{
		{nil, nil, "small=1234 0 false true;large=12345 0 false true;"},
		{&four, nil, "small=1234 0 false true;large= 5 true true;"},
		{&zero, nil, "small= 4 true true;large= 5 true true;"},
		{&four, errors.New("no room"), "small=1234 0 false true;large: it could not be kept as a blob: no room;"},
	} {
		s, blobs, r := run(c.most, c.fail)
		if text(r) != c.want || r.Outcome != envelope.OutcomeCompleted {
			t.Errorf("%v: %s, want %s", c.most, text(r), c.want)
		}
		for _, f := range r.Outputs {
			if data, err := blobs.find("blue", f.Blob); f.Blob != "" && (err != nil || int64(len(data)) != f.Size) {
				t.Errorf("%s: %q %v", f.Name, data, err)
			}
		}
		for _, b := range s.endings[r.ID].Outputs {
			if want := map[string]string{"small": "1234", "large": "12345"}[b.Name]; b.SHA256 != envelope.Digest([]byte(want)) || b.Bytes != int64(len(want)) {
				t.Errorf("the row: %+v", b)
			}
		}
	}
}
