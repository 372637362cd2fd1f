package launcher

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/callcell/callcell/internal/launcher/wire"
)

// TestKilledWhileStoring: the launcher is killed at any moment of making,
// keeping and removing trees. What is in the store is whole: every tree is a
// root in which programs run. The rest is swept by the next one.
func TestKilledWhileStoring(t *testing.T) {
	rounds := 12
	if testing.Short() {
		rounds = 3
	}
	p := newPlace(t)
	c := dial(t, p)
	base := c.shellTree(t, 1, map[string]string{"name": "base\n"})
	h := rand.New(rand.NewPCG(20, 1))
	kept := 0
	most := 250 * time.Millisecond // until a launcher is killed
	for round := 0; round < rounds || kept == 0 && round < 10*rounds; round++ {
		if round >= rounds {
			most = most * 3 / 2 // none has come to keep a tree, on a machine as busy as this
		}
		busy := dial(t, p)
		time.AfterFunc(20*time.Millisecond+time.Duration(h.Int64N(int64(most))), func() { kill(t, busy.pid) })
		for n := 0; busy.store(round*1000+n, fmt.Sprintf("%d", h.IntN(4))); n++ {
		}
		await(t, "the end of launcher and reaper", busy.over)
		next := dial(t, p)
		eventually(t, "what was left is swept", func() bool {
			entries, err := os.ReadDir(filepath.Join(p.images(), "staging"))
			return err == nil && len(entries) == 0
		})
		for line := range strings.Lines(next.found(t, &wire.Trees{})) {
			digest, _, _ := strings.Cut(line, " ")
			s := spec()
			s.Tree = digest
			if digest != base {
				s.Tree, s.Added = base, digest
				kept++
			}
			if got := next.runs(t, s, "cat /name /opt/callcell/more/x 2>&1"); got[0] != "base" || digest != base && got[1] != "added" {
				t.Errorf("tree %s: %q", digest, got)
			}
		}
		next.hangUp(t)
		if text := contents(t, filepath.Join(p.images(), "trees", base, "tree.json")); len(text) < 100 {
			t.Errorf("round %d: the listing has %d bytes", round, len(text))
		}
	}
	if kept == 0 {
		t.Error("no round kept a tree: the test tests little")
	}
	c.done(t, &wire.Remove{Digest: base, Owner: treeOwner})
	noGroups(t, c)
}

// store makes, keeps and sometimes removes a tree, and reports whether the
// launcher still answers.
func (c *client) store(n int, what string) bool {
	inR, inW, err := os.Pipe()
	if err != nil {
		return false
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		return false
	}
	defer outR.Close()
	ch := c.ask(request(n), int(inR.Fd()), int(outW.Fd()))
	inR.Close()
	outW.Close()
	go func() {
		defer inW.Close()
		_, _ = inW.Write(addedStream(what)) // the unpacker may be dead
	}()
	said := <-lines(outR)
	if a, ok := <-ch; !ok || a.body.Type() != wire.TypeUnpacked {
		return false
	}
	_, digest, _ := strings.Cut(said, "sha256:")
	digest, _, _ = strings.Cut(digest, `"`)
	if a, ok := <-c.ask(&wire.Keep{ID: treeID(n), Digest: digest, Owner: treeOwner}); !ok || !isDone(a.body) {
		return false
	}
	if what == "0" {
		_, ok := <-c.ask(&wire.Remove{Digest: digest, Owner: treeOwner})
		return ok
	}
	return true
}
