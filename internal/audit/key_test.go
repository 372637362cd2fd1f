package audit_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/store/storetest"
)

// testKey is a key of the tests.
func testKey(n byte) *audit.Key { return audit.NewKey([32]byte{n}) }

func TestKeysPrintTheirPublicHalf(t *testing.T) {
	k := testKey(7)
	pub := k.Public()
	for _, text := range []string{fmt.Sprint(k), fmt.Sprintf("%v %+v %#v", k, k, k), k.String()} {
		if !strings.Contains(text, pub.String()) || strings.Contains(text, "BwAAAAAAAAAA") || strings.Contains(text, "07000000") || strings.Contains(text, "7, 0, 0") {
			t.Errorf("prints %s", text)
		}
	}
	if back, err := audit.ParsePublicKey(pub.String()); err != nil || back != pub || len(pub.ID()) != 16 || pub.ID() == testKey(8).Public().ID() {
		t.Errorf("%s, %v", back, err)
	}
}

// FuzzParsePublicKey: what is taken prints as the same text.
func FuzzParsePublicKey(f *testing.F) {
	good := testKey(1).Public().String()
	for _, seed := range []string{good, "", "ed25519:", good[:len(good)-1], good + "=", good + "\n", "ED25519" + good[7:], strings.Replace(good, "=", "", 1)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		k, err := audit.ParsePublicKey(text)
		if err != nil && (!errors.Is(err, audit.ErrKey) || k != audit.PublicKey{}) || err == nil && k.String() != text {
			t.Fatalf("%q: %s, %v", text, k, err)
		}
	})
}

// TestReceipts: each is signed, by the log's key, over every field.
func TestReceipts(t *testing.T) {
	k := testKey(1)
	l := newLog(t, new(storetest.Memory), audit.Options{Clock: newClock(), Signer: k})
	id := l.NewID()
	intend(t, l, id)
	good := complete(t, l, id)
	if err := audit.CheckReceipt(good, k.Public()); err != nil || good.Key != k.Public().ID() {
		t.Fatalf("%+v: %v", good, err)
	}
	r, err := l.Refuse(t.Context(), refused(l.NewID(), envelope.ReasonRate))
	if err = errors.Join(err, audit.CheckReceipt(r, k.Public())); err != nil {
		t.Error(err)
	}
	if err := audit.CheckReceipt(good, testKey(2).Public()); !errors.Is(err, audit.ErrSignature) {
		t.Errorf("another key: %v", err)
	}
	for name, change := range map[string]func(*envelope.Receipt){
		"chain":        func(r *envelope.Receipt) { r.Chain = "other" },
		"instance":     func(r *envelope.Receipt) { r.Instance = instanceA },
		"seq":          func(r *envelope.Receipt) { r.Seq++ },
		"head":         func(r *envelope.Receipt) { r.Head = strings.Repeat("00", 32) },
		"border":       func(r *envelope.Receipt) { r.Chain, r.Instance = r.Chain+r.Instance[:1], r.Instance[1:] },
		"no signature": func(r *envelope.Receipt) { r.Signature = "" },
		"cut":          func(r *envelope.Receipt) { r.Signature = r.Signature[:40] },
	} {
		r := good
		change(&r)
		if err := audit.CheckReceipt(r, k.Public()); !errors.Is(err, audit.ErrSignature) {
			t.Errorf("%s: %v", name, err)
		}
	}
	key := k.Public()
	if rep := must(l.Verify(t.Context(), audit.VerifyOptions{Against: []envelope.Receipt{good, r}, Key: &key}))(t); !rep.Intact() || rep.ProvenTo != r.Seq {
		t.Errorf("%+v", rep)
	}
	forged := good
	forged.Instance = instanceA
	if _, err := l.Verify(t.Context(), audit.VerifyOptions{Against: []envelope.Receipt{forged}, Key: &key}); !errors.Is(err, audit.ErrSignature) {
		t.Errorf("a forged receipt: %v", err)
	}
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
