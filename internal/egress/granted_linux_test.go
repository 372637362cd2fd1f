package egress

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/credential/secret"
	"github.com/callcell/callcell/internal/egress/wire"
)

func credentials(t *testing.T, texts ...string) (list []wire.Credential) {
	t.Helper()
	for i, text := range texts {
		one, err := secret.New([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(one.Destroy)
		list = append(list, wire.Credential{Name: fmt.Sprint("c", i), Header: "Authorization", Format: "Bearer {}", Host: "a.test", Port: 443, Methods: []string{"GET"}, Path: "/repos/", Secret: one})
	}
	return list
}

// bare is a list without its secrets, which cannot be compared.
func bare(list []wire.Credential) []wire.Credential {
	list = append([]wire.Credential(nil), list...)
	for i := range list {
		list[i].Secret = secret.Secret{}
	}
	return list
}

// TestCredentialsComeBeforeAllElse, and stay the caller's.
func TestCredentialsComeBeforeAllElse(t *testing.T) {
	texts := []string{"s3cr3t-one", "s3cr3t-two\x00\xff", strings.Repeat("s3", wire.MaxSecret/2)}
	begins, grants, given := make(chan []byte, 1), make(chan *wire.Grant, 1), make(chan []string, 1)
	c, _ := client(t, part{
		begun: func(b *wire.Begin, _ []int) {
			text, _ := json.Marshal(b)
			begins <- text
		},
		given: func(g *wire.Grant, secrets []string) {
			grants <- g
			given <- secrets
		},
	})
	list := credentials(t, texts...)
	s, err := c.Open(t.Context(), Call{ID: "c1", Credentials: list})
	if err != nil {
		t.Fatal(err)
	}
	begun := <-begins
	if got, secrets := <-grants, <-given; !reflect.DeepEqual(got.Credentials, bare(list)) || !reflect.DeepEqual(secrets, texts) {
		t.Errorf("%+v %.100q", got, secrets)
	}
	if !bytes.Contains(begun, []byte(`"granted":true`)) || bytes.Contains(begun, []byte("s3cr3t")) {
		t.Errorf("%s", begun)
	}
	shut(t, s)
	for i := range list {
		if list[i].Secret.Len() != len(texts[i]) {
			t.Errorf("secret %d has %d bytes", i, list[i].Secret.Len())
		}
	}
	works(t, c)
	if begun := <-begins; bytes.Contains(begun, []byte("granted")) {
		t.Errorf("without credentials: %s", begun)
	}
}

func TestCredentialsThatCannotBeSent(t *testing.T) {
	gone := credentials(t, "s3cr3t-one", "s3cr3t-two")
	gone[1].Secret.Destroy()
	for name, row := range map[string]struct {
		list []wire.Credential
		why  string
	}{
		"gone":     {gone, "was destroyed"},
		"none":     {[]wire.Credential{{Name: "x"}}, "was destroyed"},
		"too long": {credentials(t, strings.Repeat("s3", wire.MaxSecret/2)+"x"), `the secret of credential "c0" has 8193 bytes`},
		"too many": {credentials(t, strings.Split(strings.Repeat("s3cr3t ", wire.MaxCredentials)+"s3cr3t", " ")...), "33 credentials"},
		"too large": {func() []wire.Credential {
			list := credentials(t, "s3cr3t-one")
			list[0].Path = strings.Repeat("/x", wire.MaxMessage)
			return list
		}(), "at most"},
	} {
		var begun atomic.Int64
		c, s := client(t, part{begun: func(*wire.Begin, []int) { begun.Add(1) }})
		_, err := c.Open(t.Context(), Call{Credentials: row.list})
		if err == nil || !strings.Contains(err.Error(), row.why) || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%s: %v", name, err)
		}
		works(t, c) // and nobody died of it
		if begun.Load() != 1 || s.started() != 1 {
			t.Errorf("%s: %d calls began, %d processes", name, begun.Load(), s.started())
		}
	}
}

// TestARefusalThatDoesNotWaitForCredentials is one like any other, whenever it
// comes.
func TestARefusalThatDoesNotWaitForCredentials(t *testing.T) {
	c, s := client(t, part{grant: func(_ *fake, call *peer) {
		call.say(wire.Message{Refused: &wire.Refused{Why: "too many calls"}})
		call.conn.Close()
	}})
	list := credentials(t, strings.Split(strings.Repeat(strings.Repeat("s3", 4000)+" ", 31)+"s3cr3t-one", " ")...)
	for range 50 {
		if _, err := c.Open(t.Context(), Call{Credentials: list}); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "too many calls") {
			t.Fatalf("%v", err)
		}
	}
	if s.started() != 1 {
		t.Errorf("%d processes", s.started())
	}
}

// TestANewProcessGetsTheCredentialsToo: the one before dies while it is given
// them.
func TestANewProcessGetsTheCredentialsToo(t *testing.T) {
	given := make(chan []string, 1)
	dead := part{grant: func(f *fake, call *peer) {
		call.next()
		f.die()
	}}
	c, s := client(t, dead, part{given: func(_ *wire.Grant, secrets []string) { given <- secrets }})
	works(t, c) // it runs before: then Open tries another
	session, err := c.Open(t.Context(), Call{Credentials: credentials(t, "s3cr3t-one", "s3cr3t-two")})
	if err != nil {
		t.Fatal(err)
	}
	if got := <-given; !reflect.DeepEqual(got, []string{"s3cr3t-one", "s3cr3t-two"}) || s.started() != 2 {
		t.Errorf("%q, %d processes", got, s.started())
	}
	shut(t, session)
}

// TestAProcessThatTakesNoCredentialsIsEnded: it does not answer.
func TestAProcessThatTakesNoCredentialsIsEnded(t *testing.T) {
	c, _ := client(t, part{grant: func(_ *fake, call *peer) {
		for { // it only reads, until it is hung up on
			if _, _, err := call.conn.Receive(); err != nil {
				return
			}
		}
	}})
	c.times.begin = soon
	if _, err := c.Open(t.Context(), Call{Credentials: credentials(t, "s3cr3t-one")}); !errors.Is(err, ErrDied) || !errors.Is(err, errSilent) {
		t.Errorf("%v", err)
	}
}

func TestCountsOfCredentials(t *testing.T) {
	ends := func(d wire.Done) part {
		return part{end: func(_ *fake, call *peer) { call.say(wire.Message{Done: &d}) }}
	}
	good := wire.Done{Egress: envelope.Egress{Credentials: map[string]int64{"c0": 3}, Masked: 99}, MaskedBy: map[string]int64{"c0": 2, "c1": 5}}
	c, _ := client(t, ends(good))
	s, err := c.Open(t.Context(), Call{Credentials: credentials(t, "s3cr3t-one", "s3cr3t-two")})
	if err != nil {
		t.Fatal(err)
	}
	if got := shut(t, s); got.Masked != 7 || !reflect.DeepEqual(got.Credentials, map[string]int64{"c0": 3}) || !reflect.DeepEqual(s.Masked(), good.MaskedBy) {
		t.Errorf("%+v %v", got, s.Masked())
	}
	for name, bad := range map[string]wire.Done{
		"used by another":   {Egress: envelope.Egress{Credentials: map[string]int64{"x": 1}}},
		"masked of another": {MaskedBy: map[string]int64{"c2": 1}},
		"negative":          {MaskedBy: map[string]int64{"c0": -1}},
		"too many":          {MaskedBy: map[string]int64{"c0": maxCount + 1}},
		"less than nothing": {Egress: envelope.Egress{Masked: -1}},
	} {
		c, _ := client(t, ends(bad))
		s, err := c.Open(t.Context(), Call{Credentials: credentials(t, "s3cr3t-one", "s3cr3t-two")})
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Close(t.Context())
		if !errors.Is(err, ErrDied) || !errors.Is(err, errBreach) || got.Masked != 0 || len(got.Credentials)+len(s.Masked()) > 0 {
			t.Errorf("%s: %v %+v", name, err, got)
		}
	}
}

// TestManyCallsAtOnceHaveTheirOwn: no secret gets into another conversation.
func TestManyCallsAtOnceHaveTheirOwn(t *testing.T) {
	c, _ := client(t, part{given: func(g *wire.Grant, secrets []string) {
		if secrets[0] != "s3cr3t of "+g.Credentials[0].Path {
			t.Errorf("%s has %q", g.Credentials[0].Path, secrets)
		}
	}})
	var all sync.WaitGroup
	for i := range 16 {
		path := fmt.Sprint("/", i)
		list := credentials(t, "s3cr3t of "+path)
		list[0].Path = path
		all.Go(func() {
			for range 10 {
				s, err := c.Open(t.Context(), Call{Credentials: list})
				if err == nil {
					_, err = s.Close(t.Context())
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// TestTheProcessItselfTakesCredentials: what it says of them comes back.
func TestTheProcessItselfTakesCredentials(t *testing.T) {
	c, _, n := world(t)
	port := n.Allow[0].Ports[0]
	n.Allow = append(n.Allow, envelope.Allow{Host: "secured.test", Ports: []int{443}})
	list := credentials(t, "s3cr3t-one")
	list[0].Host, list[0].Port = "allowed.test", port
	if _, err := c.Open(t.Context(), Call{Network: n, Credentials: list}); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "speaks http") {
		t.Errorf("%v", err)
	}
	list[0].Host, list[0].Port = "secured.test", 443
	n.Allow = n.Allow[2:]
	s, err := c.Open(t.Context(), Call{Network: n, Credentials: list})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(s.CA(), "BEGIN CERTIFICATE") {
		t.Errorf("%q", s.CA())
	}
	if got := shut(t, s); len(got.Credentials) > 0 || got.Masked != 0 {
		t.Errorf("%+v", got)
	}
}
