package gateway_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/callcell/callcell/internal/gateway"
)

// secret makes a key and returns its id and its secret.
func (s *stand) secret(team string) (id, secret string) {
	s.t.Helper()
	k, secret, err := s.CreateKey(s.t.Context(), gateway.Key{Team: team, Role: gateway.RoleCall, Profiles: []string{"*"}})
	if err != nil {
		s.t.Fatal(err)
	}
	return k.ID, secret
}

// over reports whether a context has ended, and not because its own end came.
func over(ctx context.Context) bool { return errors.Is(context.Cause(ctx), gateway.ErrRevoked) }

// TestWhile: a context ends with the key or the secret that it hangs on, at
// once, and with no other.
func TestWhile(t *testing.T) {
	clock := &byHand{now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}
	s := newStandAt(t, clock, nil)
	ctx := t.Context()
	id, old := s.secret("blue")
	other, _ := s.secret("blue")
	_, fresh, err := s.RotateKey(ctx, id, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	while := func(key, secret string) context.Context {
		ctx, stop := s.While(ctx, key, secret)
		t.Cleanup(stop)
		return ctx
	}
	ofKey, ofOld, ofFresh, ofOther := while(id, ""), while(id, old), while(id, fresh), while(other, "")
	for name, c := range map[string]context.Context{"a secret of another key": while(other, fresh), "no secret": while(id, "cck_x"), "no key": while("k_0", ""), "neither": while("", "x")} {
		if !over(c) {
			t.Errorf("%s: it goes on", name)
		}
	}
	if over(ofKey) || over(ofOld) || over(ofFresh) || over(ofOther) {
		t.Fatal("one has ended at the beginning")
	}
	clock.advance(time.Hour) // the old secret is over; any change makes it seen
	if err := s.Gateway.Poll(ctx); err != nil {
		t.Fatal(err)
	}
	if !over(ofOld) || over(ofFresh) || over(ofKey) {
		t.Errorf("after the overlap: old %v, fresh %v, key %v", over(ofOld), over(ofFresh), over(ofKey))
	}
	if _, _, err := s.RotateKey(ctx, id, 0); err != nil {
		t.Fatal(err)
	}
	if !over(ofFresh) || over(ofKey) {
		t.Errorf("after a rotation without overlap: fresh %v, key %v", over(ofFresh), over(ofKey))
	}
	if _, err := s.RevokeKey(ctx, id); err != nil {
		t.Fatal(err)
	}
	if !over(ofKey) || over(ofOther) || !over(while(id, "")) {
		t.Errorf("after its end: key %v, another %v", over(ofKey), over(ofOther))
	}
}

// TestWhileIsGivenBack: what is over is not watched any more.
func TestWhileIsGivenBack(t *testing.T) {
	s := newStand(t, nil)
	id, secret := s.secret("blue")
	ctx, stop := s.While(t.Context(), id, secret)
	stop()
	if !errors.Is(context.Cause(ctx), context.Canceled) || s.Watched() != 0 {
		t.Errorf("%v, %d are watched", context.Cause(ctx), s.Watched())
	}
	stop()
	_, again := s.While(t.Context(), id, secret)
	defer again()
	if s.Watched() != 1 {
		t.Errorf("%d are watched", s.Watched())
	}
	if _, err := s.RevokeKey(t.Context(), id); err != nil || s.Watched() != 0 {
		t.Errorf("%v, %d are watched", err, s.Watched())
	}
}

// TestWhileSeesOtherProcesses: a key that another process revokes is over within
// a poll.
func TestWhileSeesOtherProcesses(t *testing.T) {
	s := newStand(t, nil)
	id, secret := s.secret("blue")
	ctx, stop := s.While(t.Context(), id, secret)
	defer stop()
	if _, err := gateway.NewAdmin(s.db.Gateway(), s.o.Tiers, nil).RevokeKey(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ctx.Done():
	case <-time.After(30 * time.Second):
		t.Error("it goes on")
	}
}
