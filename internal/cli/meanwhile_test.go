package cli

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/callcell/callcell/internal/image"
)

// TestMeanwhile: what takes long is not silent where nobody has a terminal, and
// says little; for a machine it says nothing.
func TestMeanwhile(t *testing.T) {
	var events walked
	for _, c := range []struct {
		name        string
		tty, silent bool
		passed      time.Duration
		now         func() string
		want        string
	}{
		{"what is over soon", false, false, 14 * time.Second, nil, ""},
		{"a line each quarter of a minute", false, false, 40 * time.Second, nil, "callcell: image gc: 15s\ncallcell: image gc: 30s\n"},
		{"how far it is", false, false, 16 * time.Second, func() string { return "2.0 MiB" }, "callcell: image gc: 15s: 2.0 MiB\n"},
		{"neutralised", false, false, 16 * time.Second, func() string { return "\x1b[2J\n" }, "callcell: image gc: 15s: ␛[2J␊\n"},
		{"of what nobody knows how much it is", false, false, 16 * time.Second, events.now("events"), "callcell: image gc: 15s\n"},
		{"nothing beside JSON", false, true, time.Hour, nil, ""},
		{"a line that changes on a terminal", true, false, 300 * time.Millisecond, nil, "\r\x1b[K  image gc  0s  \r\x1b[K"},
		{"not of what is over at once there", true, false, 100 * time.Millisecond, nil, ""},
		{"there beside JSON too", true, true, 300 * time.Millisecond, nil, "\r\x1b[K  image gc  0s  \r\x1b[K"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			p := &printer{err: &out, errTTY: c.tty}
			done := p.meanwhile("image gc", c.silent, c.now)
			time.Sleep(c.passed) // of a clock that nobody waits for
			done()
			if got := out.String(); got != c.want {
				t.Errorf("%s: %q, want %q", c.name, got, c.want)
			}
			time.Sleep(time.Hour)
			if out.String() != c.want {
				t.Errorf("%s: it goes on: %q", c.name, out.String())
			}
		})
	}
	events.set(3, 10)
	if got := events.now("events")(); got != "3 of 10 events" {
		t.Errorf("%q", got)
	}
}

// TestFollowWithoutATerminal: how far an image is, without a word of a stranger,
// which would stay; his words are there with -v, and marked.
func TestFollowWithoutATerminal(t *testing.T) {
	for _, c := range []struct {
		name          string
		words, silent bool
		want          string
	}{
		{"by itself", false, false, "callcell: build:x: 15s: none of its files is here yet\n" +
			"callcell: build:x: 30s: it is being made; -v shows what is printed\n" +
			"callcell: build:x: 45s: 2.0 MiB of its files are here\n"},
		{"for a machine", false, true, ""},
		{"with -v", true, false, "  | obey\n"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			a := &app{printer: printer{err: &out}}
			m := &image.Maker{}
			done := a.follow(m, "build:x", c.words, c.silent)
			time.Sleep(20 * time.Second)
			if _, err := m.Words.Write([]byte("obey\n")); err != nil {
				t.Error(err)
			}
			time.Sleep(20 * time.Second)
			if m.Heard != nil {
				m.Heard(2 << 20)
			}
			time.Sleep(10 * time.Second)
			done()
			if got := out.String(); got != c.want {
				t.Errorf("%s: %q, want %q", c.name, got, c.want)
			}
			if !c.words && strings.Contains(out.String(), "obey") {
				t.Errorf("%s: a stranger's words are among ours", c.name)
			}
		})
	}
}
