package link

import (
	"errors"
	"strings"
	"testing"

	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/launcher/wire"
)

var saidWell = `{"digest":"sha256:` + strings.Repeat("0123456789abcdef", 4) + `","bytes":5,"entries":2,"dropped":{"device":1}}` + "\n"

func TestOutcome(t *testing.T) {
	const fault = `{"error":{"kind":"name","entry":"a\u001b[31m\u202eb","msg":"is\nabove"}}`
	for name, tt := range map[string]struct {
		body wire.Unpacked
		said string
		kind string // of the error; "": none
	}{
		"a tree":                     {wire.Unpacked{Bytes: 4096}, saidWell, ""},
		"a fault of the stream":      {wire.Unpacked{Status: 1 << 8}, fault, "name"},
		"a fault, and a good end":    {wire.Unpacked{}, fault, "broken"},
		"a digest, and a bad end":    {wire.Unpacked{Status: 1 << 8}, saidWell, "broken"},
		"nothing":                    {wire.Unpacked{}, "", "broken"},
		"a signal":                   {wire.Unpacked{Status: 31, Words: "it had ended"}, saidWell, "broken"},
		"its time was up":            {wire.Unpacked{Status: 9, Cause: wire.CauseWall}, saidWell, "wall"},
		"its memory was":             {wire.Unpacked{Status: 9, Cause: wire.CauseMemory}, saidWell, "memory"},
		"it wrote too much":          {wire.Unpacked{Status: 9, Cause: wire.CauseOutput}, saidWell, "broken"},
		"two lines":                  {wire.Unpacked{}, saidWell + saidWell, "broken"},
		"a brace more":               {wire.Unpacked{}, strings.TrimSpace(saidWell) + "}", "broken"},
		"a field that nobody knows":  {wire.Unpacked{}, `{"digest":"x","more":1}`, "broken"},
		"no digest":                  {wire.Unpacked{}, `{"bytes":1}`, "broken"},
		"a digest that is a path":    {wire.Unpacked{}, `{"digest":"sha256:` + strings.Repeat("../", 21) + `x"}`, "broken"},
		"a number below what can be": {wire.Unpacked{}, strings.Replace(saidWell, ":5,", ":-5,", 1), "broken"},
		"more than it may say":       {wire.Unpacked{}, saidWell + strings.Repeat(" ", mostSaid), "broken"},
	} {
		u, err := outcome(&tt.body, []byte(tt.said))
		var bad *UnpackError
		if tt.kind == "" {
			if err != nil || u.Bytes != 5 || u.Entries != 2 || u.Dropped["device"] != 1 || u.Disk != 4096 || !strings.HasPrefix(u.Digest, "sha256:") {
				t.Errorf("%s: %+v, %v", name, u, err)
			}
			continue
		}
		if u != nil || !errors.As(err, &bad) || bad.Kind != tt.kind || strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("%s: %+v, %v", name, u, err)
		}
	}
	if u, err := outcome(&wire.Unpacked{Status: 9, Cause: wire.CauseCancel}, nil); u != nil || !errors.Is(err, cell.ErrClosed) {
		t.Errorf("cancelled: %+v, %v", u, err)
	}
}

// FuzzParseSaid: what is accepted has a digest or a fault, and an error gives
// nothing.
func FuzzParseSaid(f *testing.F) {
	for _, seed := range []string{saidWell, `{"error":{"kind":"name","entry":"x","msg":"y"}}`, `{}`, `null`, `[]`, saidWell + "x", `{"digest":1}`, `{"dropped":{"a":-1}}`, "\x00"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := parseSaid(text)
		if (err == nil) == (s == nil) {
			t.Fatalf("%+v, %v", s, err)
		}
		if err != nil || s.Error != nil {
			return
		}
		hex, ok := strings.CutPrefix(s.Digest, "sha256:")
		if !ok || !wire.IsDigest(hex) || s.Bytes < 0 || s.Entries < 0 || len(text) > mostSaid {
			t.Fatalf("%+v", s)
		}
	})
}
