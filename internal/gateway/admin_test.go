package gateway_test

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/callcell/callcell/internal/gateway"
)

// TestSecretsAreRandom: 256 bits each, no two alike, and only the whole of one
// is taken.
func TestSecretsAreRandom(t *testing.T) {
	s := newStand(t, func(tier *gateway.Tier, _ *gateway.Limits) { tier.Keys = 100 })
	seen := map[string]bool{}
	for range 20 {
		k, secret, err := s.CreateKey(t.Context(), gateway.Key{Team: "blue", Role: gateway.RoleCall})
		if err != nil {
			t.Fatal(err)
		}
		raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(secret, "cck_"))
		if err != nil || len(raw) != 32 || seen[secret] || strings.Contains(secret, k.ID) {
			t.Errorf("%q: %d bytes, %v", secret, len(raw), err)
		}
		seen[secret] = true
		for _, wrong := range []string{"", "cck_", secret[:len(secret)-1], secret + "x", " " + secret, strings.ToUpper(secret), k.ID, "xxx_" + secret[4:]} {
			if _, ok := s.Identify(wrong); ok {
				t.Errorf("%q is taken", wrong)
			}
		}
	}
}

// TestRotationOverlaps: both secrets are the same key until the overlap is
// over; then the old one is nothing.
func TestRotationOverlaps(t *testing.T) {
	c := &byHand{now: time.Unix(1_800_000_000, 0)}
	s := newStandAt(t, c, nil)
	k, old, err := s.CreateKey(t.Context(), gateway.Key{Team: "blue", Role: gateway.RoleCall})
	if err != nil {
		t.Fatal(err)
	}
	rotated, fresh, err := s.RotateKey(t.Context(), k.ID, time.Hour)
	if err != nil || rotated.Secrets != 2 {
		t.Fatalf("%d secrets, %v", rotated.Secrets, err)
	}
	is := func(secret string, want bool) {
		t.Helper()
		if got, ok := s.Identify(secret); ok != want || ok && got.ID != k.ID {
			t.Errorf("%v %v, want %v", got.ID, ok, want)
		}
	}
	is(old, true)
	is(fresh, true)
	keys, err := s.Keys(t.Context(), "blue")
	if err != nil || len(keys) != 1 || keys[0].Secrets != 2 {
		t.Errorf("%+v, %v", keys, err)
	}
	c.advance(time.Hour)
	is(old, false)
	is(fresh, true)
	at, last, err := s.RotateKey(t.Context(), k.ID, 0)
	if err != nil || at.Secrets != 1 {
		t.Fatalf("%d secrets after a rotation at once, %v", at.Secrets, err)
	}
	is(fresh, false)
	is(last, true)
	if _, err := s.RevokeKey(t.Context(), k.ID); err != nil {
		t.Fatal(err)
	}
	is(last, false)
	if _, _, err := s.RotateKey(t.Context(), k.ID, time.Hour); !errors.Is(err, gateway.ErrRevoked) {
		t.Errorf("%v", err)
	}
}

// TestWhatIsRefused: names, tiers and numbers that are none, each with its
// field.
func TestWhatIsRefused(t *testing.T) {
	s := newStand(t, nil)
	key := func(k gateway.Key) func() error {
		return func() error { _, _, err := s.CreateKey(t.Context(), k); return err }
	}
	team := func(x gateway.Team) func() error {
		return func() error { _, err := s.CreateTeam(t.Context(), x); return err }
	}
	for name, c := range map[string]struct {
		do   func() error
		want error
	}{
		"no name":      {team(gateway.Team{Tier: "free"}), gateway.ErrInvalid},
		"a path":       {team(gateway.Team{Name: "../x", Tier: "free"}), gateway.ErrInvalid},
		"a line break": {team(gateway.Team{Name: "a\nb", Tier: "free"}), gateway.ErrInvalid},
		"no tier":      {team(gateway.Team{Name: "x", Tier: "gold"}), gateway.ErrInvalid},
		"twice":        {team(gateway.Team{Name: "blue", Tier: "free"}), gateway.ErrExists},
		"no role":      {key(gateway.Key{Team: "blue"}), gateway.ErrInvalid},
		"no team":      {key(gateway.Key{Team: "none", Role: gateway.RoleCall}), gateway.ErrUnknown},
		"bidi label":   {key(gateway.Key{Team: "blue", Role: gateway.RoleCall, Label: "a\u202eb"}), gateway.ErrInvalid},
		"broken label": {key(gateway.Key{Team: "blue", Role: gateway.RoleCall, Label: "\xff"}), gateway.ErrInvalid},
		"odd profile":  {key(gateway.Key{Team: "blue", Role: gateway.RoleCall, Profiles: []string{"a b"}}), gateway.ErrInvalid},
		"unknown key":  {func() error { _, err := s.RevokeKey(t.Context(), "k_x"); return err }, gateway.ErrUnknown},
		"long overlap": {func() error { _, _, err := s.RotateKey(t.Context(), "k_x", 1<<60); return err }, gateway.ErrInvalid},
		"unknown team": {func() error { _, err := s.SetTeam(t.Context(), "x", gateway.TeamChange{}); return err }, gateway.ErrUnknown},
		"unknown tier": {func() error {
			x := "x"
			_, err := s.SetTeam(t.Context(), "blue", gateway.TeamChange{Tier: &x})
			return err
		}, gateway.ErrInvalid},
	} {
		if err := c.do(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// TestKeysOfATier: a team has as many as its tier gives; revoking makes room.
func TestKeysOfATier(t *testing.T) {
	s := newStand(t, nil)
	first := s.key("blue")
	s.key("blue")
	_, _, err := s.CreateKey(t.Context(), gateway.Key{Team: "blue", Role: gateway.RoleCall})
	if !errors.Is(err, gateway.ErrFull) {
		t.Fatalf("a third key of free: %v", err)
	}
	if _, err := s.RevokeKey(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	s.key("blue")
}

// TestRoles: what each may, all pairs.
func TestRoles(t *testing.T) {
	may := map[gateway.Role][]gateway.Role{
		gateway.RoleCall: {gateway.RoleCall}, gateway.RoleRead: {gateway.RoleRead},
		gateway.RoleAdmin: {gateway.RoleCall, gateway.RoleRead, gateway.RoleAdmin}, 0: {}, 9: {},
	}
	for r, list := range may {
		for _, need := range []gateway.Role{0, gateway.RoleCall, gateway.RoleRead, gateway.RoleAdmin, 9} {
			want := false
			for _, x := range list {
				want = want || x == need
			}
			if r.May(need) != want {
				t.Errorf("%s may %s: %v", r, need, r.May(need))
			}
		}
	}
}
