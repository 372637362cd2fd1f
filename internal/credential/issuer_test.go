package credential

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/credential/redact"
	"github.com/callcell/callcell/internal/credential/source"
	"github.com/callcell/callcell/internal/testing/leak"
)

func TestIssue(t *testing.T) {
	leak.Check(t)
	f := fakes{"a": {value: "secret-a"}, "b": {value: "secret-b", kind: source.OAuth2, revoke: willing}}
	c := creds("one", "a", "two", "b")
	two := c["two"]
	two.Scopes = []string{"write", "read"}
	c["two"] = two
	lease, err := NewIssuer(f, Options{}).Issue(t.Context(), "call-1", c)
	if err != nil {
		t.Fatal(err)
	}
	if text(t, lease, "one") != "secret-a" || text(t, lease, "two") != "secret-b" || text(t, lease, "three") != ErrUnknown.Error() {
		t.Errorf("%s, %s, %s", text(t, lease, "one"), text(t, lease, "two"), text(t, lease, "three"))
	}
	if r := f["b"].requests[0]; r.Call != "call-1" || !slices.Equal(r.Scopes, []string{"read", "write"}) || !slices.Equal(r.Fields, []string{""}) {
		t.Errorf("asked for %+v", r)
	}
	if got, counts := lease.Redactor().String("a secret-a, a secret-b"); got != "a [redacted:one], a [redacted:two]" || counts.Total() != 2 {
		t.Errorf("%q, %v", got, counts)
	}
	if len(lease.Values()) != 2 || !slices.Equal(lease.Names(), []string{"one", "two"}) {
		t.Errorf("%v", lease)
	}
	report := lease.Revoke(t.Context())
	if got := report.Check(); !got.Gone || got.What != "credentials" || got.Note != "one kept, two revoked" {
		t.Errorf("%+v", got)
	}
	if f["a"].left()+f["b"].left() != 0 || f["b"].revoked != 1 || text(t, lease, "one") != ErrRevoked.Error() {
		t.Errorf("after Revoke: %d and %d left, %s", f["a"].left(), f["b"].left(), text(t, lease, "one"))
	}
	if got, _ := lease.Redactor().String("text"); got != "" {
		t.Errorf("the redactor still passes %q", got)
	}
}

func TestIssueOfNothing(t *testing.T) {
	lease, err := NewIssuer(fakes{}, Options{}).Issue(t.Context(), "call", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := lease.Redactor().String("text"); got != "text" {
		t.Errorf("%q", got)
	}
	if r := lease.Revoke(t.Context()); !r.Complete() || len(r.Ends) != 0 || lease.String() != "lease of call call: " {
		t.Errorf("%v, %v", r, lease)
	}
}

// TestSourcesAreAskedSideBySide: none of them answers before all are asked.
func TestSourcesAreAskedSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all sync.WaitGroup
		all.Add(5)
		f, words := fakes{}, []string{}
		for i := range 5 {
			name := fmt.Sprint("n", i)
			f[name] = &fake{value: "secret-" + name, fetch: func(context.Context, source.Request) error {
				all.Done()
				all.Wait()
				time.Sleep(time.Second)
				return nil
			}}
			words = append(words, name, name)
		}
		begin := time.Now()
		lease, err := NewIssuer(f, Options{}).Issue(t.Context(), "call", creds(words...))
		if err != nil || time.Since(begin) != time.Second {
			t.Errorf("%v after %s", err, time.Since(begin))
		}
		lease.Revoke(t.Context())
	})
}

// TestFieldsOfOneSecretAreAskedOnce, so that they are of one version.
func TestFieldsOfOneSecretAreAskedOnce(t *testing.T) {
	version := map[string]string{"username": "user-17", "password": "pass-17"}
	user := &fake{group: "vault:db", field: "username", values: version, revoke: willing}
	pass := &fake{group: "vault:db", field: "password", values: version, revoke: willing}
	f := fakes{"u": user, "p": pass}
	lease, err := NewIssuer(f, Options{}).Issue(t.Context(), "call", creds("user", "u", "password", "p", "twin", "p"))
	if err != nil {
		t.Fatal(err)
	}
	if text(t, lease, "user") != "user-17" || text(t, lease, "password") != "pass-17" || text(t, lease, "twin") != "pass-17" {
		t.Errorf("%s, %s", text(t, lease, "user"), text(t, lease, "password"))
	}
	asked := append(user.requests, pass.requests...)
	if len(asked) != 1 || !slices.Equal(asked[0].Fields, []string{"password", "username"}) {
		t.Errorf("asked %+v", asked)
	}
	if note := lease.Revoke(t.Context()).Check().Note; note != "password revoked, twin revoked, user revoked" || user.revoked+pass.revoked != 1 {
		t.Errorf("%s, %d times", note, user.revoked+pass.revoked)
	}
}

// TestOneFailureFailsAll: what the others handed out is taken back.
func TestOneFailureFailsAll(t *testing.T) {
	denied := func(context.Context, source.Request) error {
		return &source.Fault{Kind: source.Vault, Reason: source.Denied, Msg: "the server refuses (HTTP 403)", Hint: "check"}
	}
	for _, c := range []struct {
		name, text string
		f          fakes
		reason     source.Reason
		retry      bool
		unrevoked  string
	}{
		{"a refusal", "credential bad, from vault: the server refuses (HTTP 403)", fakes{"bad": {kind: source.Vault, fetch: denied}}, source.Denied, false, ""},
		{"no such source", "credential bad, from file: there is no such client", fakes{}, source.Unconfigured, false, ""},
		{"an error of another kind", "credential bad, from file: it failed", fakes{"bad": {fetch: func(context.Context, source.Request) error { return errors.New("with secret-x") }}}, source.Unavailable, true, ""},
		{"empty", "credential bad, from file: it is empty", fakes{"bad": {}}, source.Invalid, false, ""},
		{"too short", "credential bad, from file: it cannot be masked in what comes out of the call: too short: masking it would mask ordinary text", fakes{"bad": {value: "12345"}}, source.Invalid, false, ""},
		{"a refusal, and one that cannot be taken back", "credential bad, from vault: the server refuses (HTTP 403); issued and not taken back: good",
			fakes{"bad": {kind: source.Vault, fetch: denied}, "good": {value: "secret-good", revoke: func(context.Context) error { return errors.New("no") }}}, source.Denied, false, "good"},
	} {
		synctest.Test(t, func(t *testing.T) {
			good := c.f["good"]
			if good == nil {
				good = &fake{value: "secret-good", revoke: willing}
				c.f["good"] = good
			}
			if bad := c.f["bad"]; bad != nil && bad.fetch != nil {
				fetch := bad.fetch
				bad.fetch = func(ctx context.Context, r source.Request) error {
					synctest.Wait() // the good one has answered
					return fetch(ctx, r)
				}
			}
			words := creds("bad", "bad", "good", "good")
			one := words["bad"]
			if c.f["bad"] == nil {
				one.Source = "file:/nowhere"
			}
			words["bad"] = one
			lease, err := NewIssuer(c.f, Options{}).Issue(t.Context(), "call", words)
			var fault *Error
			if lease != nil || !errors.As(err, &fault) {
				t.Fatalf("%s: %v", c.name, err)
			}
			if fault.Error() != c.text || fault.Name != "bad" || fault.Reason != c.reason || strings.Join(fault.Unrevoked, " ") != c.unrevoked {
				t.Errorf("%s: %q, %+v", c.name, fault, fault)
			}
			refusal := fault.Refusal()
			if refusal.Reason != envelope.ReasonSetup || refusal.Field != "credentials.bad" || refusal.Retry != c.retry || refusal.Hint == "" {
				t.Errorf("%s: %+v", c.name, refusal)
			}
			if good.left() != 0 || len(good.requests) > 0 && good.revoked != 1 {
				t.Errorf("%s: the other one: %d left, revoked %d times", c.name, good.left(), good.revoked)
			}
		})
	}
}

// TestSlowSourceIsATimeout, and what it hands out afterwards is taken back.
func TestSlowSourceIsATimeout(t *testing.T) {
	for _, c := range []struct {
		name string
		late time.Duration // when it answers, whatever ctx says; 0: with ctx
		want time.Duration
	}{{"one that notices", 0, 10 * time.Second}, {"one that answers a little late", 10*time.Second + 500*time.Millisecond, 10*time.Second + 500*time.Millisecond}, {"one that hangs", time.Hour, 11 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			slow := &fake{value: "secret-slow", kind: source.Vault, revoke: willing, fetch: func(ctx context.Context, _ source.Request) error {
				if c.late == 0 {
					<-ctx.Done()
					return ctx.Err()
				}
				time.Sleep(c.late)
				return nil
			}}
			quick := &fake{value: "secret-quick", revoke: willing}
			issuer := NewIssuer(fakes{"slow": slow, "quick": quick}, Options{})
			begin := time.Now()
			lease, err := issuer.Issue(t.Context(), "call", creds("a", "quick", "b", "slow"))
			if since := time.Since(begin); since != c.want {
				t.Errorf("%s: after %s, want %s", c.name, since, c.want)
			}
			var fault *Error
			if c.late > 0 && c.late < time.Hour {
				if err != nil { // it came in the time of grace
					t.Errorf("%s: %v", c.name, err)
				} else {
					lease.Revoke(t.Context())
				}
			} else if !errors.As(err, &fault) || fault.Name != "b" || fault.Reason != source.Timeout || !errors.Is(err, context.DeadlineExceeded) || !fault.Refusal().Retry {
				t.Errorf("%s: %v", c.name, err)
			}
			if err := issuer.Close(t.Context()); err != nil {
				t.Error(err)
			}
			if slow.left()+quick.left() != 0 || quick.revoked != 1 || slow.revoked != len(slow.issued) {
				t.Errorf("%s: %d and %d left, revoked %d and %d", c.name, slow.left(), quick.left(), slow.revoked, quick.revoked)
			}
		})
	}
}

func TestCloseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hung := &fake{value: "secret-hung", fetch: func(context.Context, source.Request) error { time.Sleep(time.Hour); return nil }}
		issuer := NewIssuer(fakes{"hung": hung}, Options{})
		if _, err := issuer.Issue(t.Context(), "call", creds("a", "hung")); err == nil {
			t.Error("issued")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := issuer.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close: %v", err)
		}
		time.Sleep(time.Hour)
	})
}

func TestCancelledCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		f := fakes{"slow": {fetch: func(ctx context.Context, _ source.Request) error { <-ctx.Done(); return ctx.Err() }}, "quick": {value: "secret-quick", revoke: willing}}
		time.AfterFunc(time.Second, cancel)
		begin := time.Now()
		_, err := NewIssuer(f, Options{}).Issue(ctx, "call", creds("a", "slow", "b", "quick"))
		if !errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "cancelled") || time.Since(begin) > time.Second {
			t.Errorf("%v after %s", err, time.Since(begin))
		}
		if f["quick"].revoked != 1 {
			t.Error("what was issued is not taken back")
		}
	})
}

// TestManyCallsAtOnce: a source is asked by at most so many at once, and the
// others wait their turn.
func TestManyCallsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		now, most := 0, 0
		f := fakes{"a": {value: "secret-a", fetch: func(context.Context, source.Request) error {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			now--
			mu.Unlock()
			return nil
		}}}
		issuer := NewIssuer(f, Options{})
		var all sync.WaitGroup
		for range 3 * maxAsked {
			all.Go(func() {
				lease, err := issuer.Issue(t.Context(), "call", creds("a", "a"))
				if err != nil {
					t.Error(err)
					return
				}
				lease.Revoke(t.Context())
			})
		}
		all.Wait()
		if most != maxAsked {
			t.Errorf("%d at once, want %d", most, maxAsked)
		}
	})
}

func TestUsesThatASecretDoesNotFit(t *testing.T) {
	header := envelope.CredentialUse{Header: "Authorization", Host: "a.test", Methods: []string{"GET"}, Path: "/"}
	variable, file := envelope.CredentialUse{Env: "TOKEN"}, envelope.CredentialUse{File: true}
	for _, c := range []struct {
		name, value string
		use         envelope.CredentialUse
		ok          bool
	}{
		{"a token in a header", "ghp_0123456789", header, true},
		{"with a space inside", "user 0123456789", header, true},
		{"a second header", "token\r\nHost: evil.test", header, false},
		{"a line", "token-1234\n", header, false},
		{"a zero byte", "token\x001234", header, false},
		{"not ASCII", "tökén-1234", header, false},
		{"a space behind", "token-1234 ", header, false},
		{"lines in a variable", "line-1\nline-2", variable, true},
		{"a zero byte in a variable", "token\x001234", variable, false},
		{"anything in a file", "line\x00\n\xff\xfe-", file, true},
	} {
		cred := envelope.Credential{Source: "a", Use: c.use}
		lease, err := NewIssuer(fakes{"a": {value: c.value}}, Options{}).Issue(t.Context(), "call", map[string]envelope.Credential{"a": cred})
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
		if err != nil && strings.Contains(err.Error(), c.value) {
			t.Errorf("%s: the error has it: %v", c.name, err)
		}
		if lease != nil {
			lease.Revoke(t.Context())
		}
	}
}

func TestCheck(t *testing.T) {
	issuer := NewIssuer(fakes{"a": {fetch: func(context.Context, source.Request) error { panic("asked") }}}, Options{})
	if err := issuer.Check(creds("x", "a")); err != nil {
		t.Error(err)
	}
	var fault *Error
	if err := issuer.Check(creds("x", "a", "y", "oauth2:none")); !errors.As(err, &fault) || fault.Name != "y" || fault.Source != source.OAuth2 {
		t.Errorf("%v", err)
	}
	// A secret where its source belongs is not shown.
	if err := issuer.Check(creds("x", "ghp_0123456789")); err == nil || strings.Contains(fmt.Sprintf("%v %+v", err, err), "ghp_") {
		t.Errorf("%v", err)
	}
}

// TestCallsDoNotMix: many calls at once with another secret each, under one
// name.
func TestCallsDoNotMix(t *testing.T) {
	leak.Check(t)
	f := fakes{}
	for i := range 50 {
		f[fmt.Sprint(i)] = &fake{value: fmt.Sprintf("secret-%02d", i), revoke: willing}
	}
	issuer := NewIssuer(f, Options{})
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			lease, err := issuer.Issue(t.Context(), fmt.Sprint("call-", i), creds("token", fmt.Sprint(i)))
			if err != nil {
				t.Error(err)
				return
			}
			other := fmt.Sprintf("secret-%02d", (i+1)%50)
			if own := fmt.Sprintf("secret-%02d", i); text(t, lease, "token") != own {
				t.Errorf("call %d has %s", i, text(t, lease, "token"))
			}
			if got, _ := lease.Redactor().String(other); got != other {
				t.Errorf("call %d masks another call's secret: %s", i, got)
			}
			if !lease.Revoke(t.Context()).Complete() || f[fmt.Sprint(i)].left() != 0 {
				t.Errorf("call %d: left", i)
			}
		})
	}
	all.Wait()
	if err := issuer.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestNothingPrintsASecret prints everything that the package hands out.
func TestNothingPrintsASecret(t *testing.T) {
	const value = "c4nary-value"
	f := fakes{"a": {value: value, revoke: func(context.Context) error { return errors.New(value) }}, "b": {fetch: func(context.Context, source.Request) error { return errors.New(value) }}}
	issuer := NewIssuer(f, Options{})
	lease, err := issuer.Issue(t.Context(), "call", creds("a", "a"))
	if err != nil {
		t.Fatal(err)
	}
	_, fault := issuer.Issue(t.Context(), "call", creds("a", "a", "b", "b"))
	values := lease.Values()
	printed := []any{lease, *lease.items["a"], values, lease.redactor, fault, errors.Join(fault, ErrExpired)}
	report := lease.Revoke(t.Context())
	for i, one := range append(printed, report, report.Check(), redact.Counts{"a": 1}) {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			if out := fmt.Sprintf(verb, one); strings.Contains(out, value) || strings.Contains(out, fmt.Sprintf("%x", value)) {
				t.Errorf("%d with %s: %s", i, verb, out)
			}
		}
	}
	if report.Complete() || report.Ends[0].State != Failed || lease.String() != "lease of call call: a" || lease.LogValue().String() != lease.String() {
		t.Errorf("%+v, %s", report, lease)
	}
}
