package credential

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/callcell/callcell/internal/credential/memtest"
	"github.com/callcell/callcell/internal/credential/source"
	"github.com/callcell/callcell/internal/testing/leak"
)

// TestNothingIsLeftInMemory: a secret of a file, or of a command, is in this
// process's memory while the lease lasts, in places of its own, and nowhere
// after it.
func TestNothingIsLeftInMemory(t *testing.T) {
	leak.Check(t)
	set, err := source.NewSet(source.Settings{}, source.Host{})
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	issuer := NewIssuer(set, Options{})
	for i, c := range []struct{ words, seed string }{
		{"file:", "a file's secret is made of this text.."},
		{"command:/bin/cat ", "a command's secret is made of another"},
	} {
		canary := memtest.NewCanary(c.seed)
		path := filepath.Join(t.TempDir(), "secret")
		content := make([]byte, canary.Len(), canary.Len()+1)
		canary.Fill(content)
		if err := os.WriteFile(path, append(content, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
		clear(content[:cap(content)])
		lease, err := issuer.Issue(t.Context(), "call", creds("a", c.words+path))
		if err != nil {
			t.Fatal(err)
		}
		count := func() int {
			n, err := canary.Count()
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		if n := count(); n != 2 {
			t.Errorf("%d: %d times in memory, want 2: the secret, and the redactor's", i, n)
		}
		masked := mask(t, lease, canary)
		lease.Revoke(t.Context())
		if n := count(); n != 0 || !masked {
			t.Errorf("%d: %d times in memory after Revoke; masked: %v", i, n, masked)
		}
	}
}

// mask reports whether the lease masks the canary in a stream. It leaves no
// copy of it.
func mask(t *testing.T, l *Lease, canary memtest.Canary) bool {
	t.Helper()
	text := make([]byte, canary.Len())
	canary.Fill(text)
	defer clear(text)
	var out bytes.Buffer
	w := l.Redactor().Writer(&out)
	for i := range text {
		if _, err := w.Write(text[i : i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String() == "[redacted:a]"
}
