package credential

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/credential/source"
)

// TestSecretsExpire by the shorter of the envelope's time and the source's,
// counted from before the source was asked.
func TestSecretsExpire(t *testing.T) {
	for _, c := range []struct {
		name        string
		own, theirs time.Duration
		want        time.Duration // 0: never
		state       State         // at the end of the call, an hour later
	}{
		{"neither says", 0, 0, 0, Revoked},
		{"the envelope", time.Minute, 0, time.Minute, Revoked},
		{"the source", 0, time.Minute, time.Minute, Expired},
		{"both, the envelope's is shorter", time.Minute, 2 * time.Minute, time.Minute, Expired},
		{"both, the source's is shorter", 2 * time.Minute, time.Minute, time.Minute, Expired},
		{"the source's is longer than the call", time.Minute, 2 * time.Hour, time.Minute, Revoked},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := fakes{"a": {value: "secret-a", ttl: c.theirs, revoke: willing, fetch: func(context.Context, source.Request) error {
				time.Sleep(5 * time.Second) // which is a part of its time
				return nil
			}}}
			cred := envelope.Credential{Source: "a", TTL: envelope.Duration(c.own), Use: envelope.CredentialUse{File: true}}
			begin := time.Now()
			lease, err := NewIssuer(f, Options{}).Issue(t.Context(), "call", map[string]envelope.Credential{"a": cred})
			if err != nil {
				t.Fatal(err)
			}
			at, ends := lease.Expires("a")
			if ends != (c.want > 0) || ends && at.Sub(begin) != c.want {
				t.Errorf("%s: expires after %s, %v", c.name, at.Sub(begin), ends)
			}
			if ends {
				time.Sleep(time.Until(at) - time.Nanosecond)
				if text(t, lease, "a") != "secret-a" {
					t.Errorf("%s: gone too early", c.name)
				}
				time.Sleep(time.Nanosecond)
				if text(t, lease, "a") != ErrExpired.Error() {
					t.Errorf("%s: %s", c.name, text(t, lease, "a"))
				}
			}
			time.Sleep(time.Hour - time.Since(begin))
			if got, _ := lease.Redactor().String("secret-a"); got != "[redacted:a]" {
				t.Errorf("%s: not masked any more: %s", c.name, got)
			}
			report := lease.Revoke(t.Context())
			if report.Ends[0].State != c.state || !report.Complete() || f["a"].left() != 0 || f["a"].revoked > 0 != (c.state == Revoked) {
				t.Errorf("%s: %+v, revoked %d times", c.name, report, f["a"].revoked)
			}
		})
	}
	lease, err := NewIssuer(fakes{}, Options{}).Issue(t.Context(), "call", nil)
	if _, ends := lease.Expires("x"); ends || err != nil {
		t.Errorf("%v, %v", ends, err)
	}
}

// TestTheClockIsTheIssuers: expiry goes by Options.Now.
func TestTheClockIsTheIssuers(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	issuer := NewIssuer(fakes{"a": {value: "secret-a", ttl: time.Minute}}, Options{Now: func() time.Time { return now }})
	lease, err := issuer.Issue(t.Context(), "call", creds("a", "a"))
	if err != nil {
		t.Fatal(err)
	}
	if text(t, lease, "a") != "secret-a" {
		t.Error("not handed out")
	}
	now = now.Add(time.Minute)
	if text(t, lease, "a") != ErrExpired.Error() {
		t.Error("handed out after its time")
	}
	if note := lease.Revoke(t.Context()).Check().Note; note != "a expired" {
		t.Error(note)
	}
}

// TestRevokeIsBounded: a source that hangs keeps nobody from the end, nor
// another source from being told; every secret is overwritten.
func TestRevokeIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := func(context.Context) error { time.Sleep(time.Minute); return nil }
		f := fakes{
			"hung": {value: "secret-hung", revoke: hang}, "stuck": {value: "secret-stuck", revoke: stuck}, "good": {value: "secret-good", revoke: willing},
			"kept": {value: "secret-kept"}, "timed": {value: "secret-timed", ttl: time.Hour},
			"no": {value: "secret-no", revoke: func(context.Context) error {
				return &source.Fault{Kind: source.Vault, Reason: source.Denied, Msg: "the server refuses (HTTP 403)"}
			}},
		}
		lease, err := NewIssuer(f, Options{}).Issue(t.Context(), "call", creds("hung", "hung", "stuck", "stuck", "good", "good", "kept", "kept", "no", "no", "timed", "timed"))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // the caller is gone; that is no reason
		begin := time.Now()
		report := lease.Revoke(ctx)
		if since := time.Since(begin); since != DefaultRevokeTime {
			t.Errorf("after %s", since)
		}
		const want = "good revoked, hung failed (it took too long), kept kept, no failed (the server refuses (HTTP 403)), stuck failed (it took too long), timed kept (until its time is over)"
		if check := report.Check(); check.Gone || check.Note != want {
			t.Errorf("%+v", check)
		}
		for name, one := range f {
			if one.left() != 0 {
				t.Errorf("%s is still in memory", name)
			}
		}
		time.Sleep(time.Minute) // for the one that hangs to end within the test
	})
}

// TestRevokeIsIdempotent, at once and one after the other.
func TestRevokeIsIdempotent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fakes{"a": {value: "secret-a", revoke: func(context.Context) error { time.Sleep(time.Second); return nil }}}
		lease, err := NewIssuer(f, Options{}).Issue(t.Context(), "call", creds("a", "a"))
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				if r := lease.Revoke(t.Context()); fmt.Sprint(r) != "{[{a file revoked }]}" {
					t.Errorf("%v", r)
				}
				if text(t, lease, "a") != ErrRevoked.Error() {
					t.Error("handed out after Revoke")
				}
			})
		}
		all.Wait()
		if r := lease.Revoke(t.Context()); len(r.Ends) != 1 || f["a"].revoked != 1 || time.Since(begin) != time.Second {
			t.Errorf("%v, revoked %d times, in %s", r, f["a"].revoked, time.Since(begin))
		}
	})
}

func TestWarnings(t *testing.T) {
	lease, err := NewIssuer(fakes{"a": {value: "password"}, "b": {value: "ghp_0123456789"}}, Options{}).Issue(t.Context(), "call", creds("word", "a", "token", "b"))
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Revoke(t.Context())
	if got := lease.Warnings(); len(got) != 1 || got[0] != "credentials.word: it is a word or a number, which is masked wherever it stands" {
		t.Errorf("%q", got)
	}
}
