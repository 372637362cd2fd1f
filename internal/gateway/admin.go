package gateway

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/callcell/callcell/internal/systime"
)

// Admin changes and lists teams and keys. It needs no Gateway: a process that
// meters sees what another has changed. It is safe for concurrent use.
type Admin struct {
	store Store
	tiers map[string]Tier
	clock Clock
}

// NewAdmin returns an Admin over a store, with the tiers of this host.
func NewAdmin(store Store, tiers map[string]Tier, clock Clock) *Admin {
	if clock == nil {
		clock = systime.Clock{}
	}
	return &Admin{store: store, tiers: maps.Clone(tiers), clock: clock}
}

// now is the time as it is stored.
func (a *Admin) now() time.Time { return a.clock.Now().UTC().Round(0) }

// change runs fn on the directory, in a transaction that excludes other
// changes.
func (a *Admin) change(ctx context.Context, fn func(Tx, *Directory) error) error {
	return a.store.Update(ctx, func(tx Tx) error {
		dir, err := tx.Directory()
		if err != nil {
			return err
		}
		return fn(tx, dir)
	})
}

// Teams lists the teams by name.
func (a *Admin) Teams(ctx context.Context) ([]Team, error) {
	dir, err := a.store.Directory(ctx)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(dir.Teams, func(x, y Team) int { return strings.Compare(x.Name, y.Name) })
	return dir.Teams, nil
}

// CreateTeam adds a team, of DefaultTier where it names none. An error wraps
// ErrInvalid, ErrExists, ErrFull or is the store's.
func (a *Admin) CreateTeam(ctx context.Context, t Team) (Team, error) {
	if err := checkTeamName(t.Name); err != nil {
		return Team{}, err
	}
	t.Created, t.Tier = a.now(), cmp.Or(t.Tier, DefaultTier)
	if err := a.checkTeam(&t); err != nil {
		return Team{}, err
	}
	return t, a.change(ctx, func(tx Tx, dir *Directory) error {
		if dir.team(t.Name) != nil {
			return fmt.Errorf("%w: team %s", ErrExists, t.Name)
		}
		if len(dir.Teams) >= MaxTeams {
			return &FieldError{ErrFull, "team", fmt.Sprintf("there are %d teams", MaxTeams), "this host holds no more"}
		}
		return tx.PutTeam(t)
	})
}

func (a *Admin) checkTeam(t *Team) error {
	if _, ok := a.tiers[t.Tier]; !ok {
		return &FieldError{ErrInvalid, "tier", "there is no such tier", "there are: " + strings.Join(slices.Sorted(maps.Keys(a.tiers)), ", ")}
	}
	if t.Tokens < 0 {
		return &FieldError{ErrInvalid, "tokens", "less than nothing", "leave it out for the tier's"}
	}
	return nil
}

// TeamChange is what SetTeam changes; nil fields stay.
type TeamChange struct {
	Tier      *string
	Tokens    *int64 // 0: the tier's
	Suspended *bool
}

// SetTeam changes a team. An error wraps ErrInvalid, ErrUnknown or is the
// store's.
func (a *Admin) SetTeam(ctx context.Context, name string, c TeamChange) (team Team, err error) {
	err = a.change(ctx, func(tx Tx, dir *Directory) error {
		t := dir.team(name)
		if t == nil {
			return fmt.Errorf("%w: team %.80q", ErrUnknown, name)
		}
		if c.Tier != nil {
			t.Tier = *c.Tier
		}
		if c.Tokens != nil {
			t.Tokens = *c.Tokens
		}
		if c.Suspended != nil {
			t.Suspended = *c.Suspended
		}
		if err := a.checkTeam(t); err != nil {
			return err
		}
		team = *t
		return tx.PutTeam(team)
	})
	return team, err
}

// Keys lists the keys of a team, or all keys for "", oldest first.
func (a *Admin) Keys(ctx context.Context, team string) ([]Key, error) {
	dir, err := a.store.Directory(ctx)
	if err != nil {
		return nil, err
	}
	dir.count(a.now())
	keys := slices.DeleteFunc(dir.Keys, func(k Key) bool { return team != "" && k.Team != team })
	slices.SortFunc(keys, func(x, y Key) int {
		if c := x.Created.Compare(y.Created); c != 0 {
			return c
		}
		return strings.Compare(x.ID, y.ID)
	})
	return keys, nil
}

// CreateKey adds a key to a team and returns its secret, which is not kept.
// Of k the team, the label, the role and the profiles are taken. An error wraps
// ErrInvalid, ErrUnknown, ErrFull or is the store's.
func (a *Admin) CreateKey(ctx context.Context, k Key) (Key, string, error) {
	if !k.Role.Valid() {
		return Key{}, "", &FieldError{ErrInvalid, "role", "no role", "call runs, read reads, admin manages"}
	}
	for _, err := range []error{checkLabel(k.Label), checkProfiles(k.Profiles)} {
		if err != nil {
			return Key{}, "", err
		}
	}
	k.ID, k.Created, k.Revoked, k.Secrets = newKeyID(), a.now(), time.Time{}, 1
	text, hash := newSecret()
	err := a.change(ctx, func(tx Tx, dir *Directory) error {
		if err := a.room(dir, k.Team); err != nil {
			return err
		}
		if err := tx.PutKey(k); err != nil {
			return err
		}
		return tx.PutSecret(Secret{Hash: hash, Key: k.ID, Created: k.Created})
	})
	if err != nil {
		return Key{}, "", err
	}
	return k, text, nil
}

// room says whether a team may have another key.
func (a *Admin) room(dir *Directory, team string) error {
	t := dir.team(team)
	if t == nil {
		return fmt.Errorf("%w: team %.80q", ErrUnknown, team)
	}
	n := 0
	for i := range dir.Keys {
		if dir.Keys[i].Team == team && dir.Keys[i].Revoked.IsZero() {
			n++
		}
	}
	if most := int(a.tiers[t.Tier].Keys); n >= most || len(dir.Keys) >= MaxKeys {
		return &FieldError{ErrFull, "keys", fmt.Sprintf("team %s has %d keys, and its tier %s gives it %d", team, n, t.Tier, most), "revoke one, or give the team another tier"}
	}
	return nil
}

// DefaultOverlap is how long a key's secret is valid after a rotation.
const DefaultOverlap = 24 * time.Hour

// MaxOverlap bounds it.
const MaxOverlap = 90 * 24 * time.Hour

// RotateKey gives a key a new secret, which it returns, and ends the others
// after an overlap. An error wraps ErrInvalid, ErrUnknown, ErrRevoked or is the
// store's.
func (a *Admin) RotateKey(ctx context.Context, id string, overlap time.Duration) (key Key, text string, err error) {
	if overlap < 0 || overlap > MaxOverlap {
		return Key{}, "", &FieldError{ErrInvalid, "overlap", "out of range", "0s to 2160h"}
	}
	text, hash := newSecret()
	now := a.now()
	err = a.change(ctx, func(tx Tx, dir *Directory) error {
		k := dir.key(id)
		switch {
		case k == nil:
			return fmt.Errorf("%w: key %.80q", ErrUnknown, id)
		case !k.Revoked.IsZero():
			return fmt.Errorf("%w: key %s", ErrRevoked, id)
		}
		key = *k
		key.Secrets = 1
		ends := now.Add(overlap)
		for _, s := range dir.Secrets {
			if s.Key != id {
				continue
			}
			if s.Expires.IsZero() || s.Expires.After(ends) {
				s.Expires = ends
				if err := tx.PutSecret(s); err != nil {
					return err
				}
			}
			if s.valid(now) {
				key.Secrets++
			}
		}
		return tx.PutSecret(Secret{Hash: hash, Key: id, Created: now})
	})
	if err != nil {
		return Key{}, "", err
	}
	return key, text, nil
}

// RevokeKey ends a key for good. That of a revoked key is nothing. An error
// wraps ErrUnknown or is the store's.
func (a *Admin) RevokeKey(ctx context.Context, id string) (key Key, err error) {
	err = a.change(ctx, func(tx Tx, dir *Directory) error {
		k := dir.key(id)
		if k == nil {
			return fmt.Errorf("%w: key %.80q", ErrUnknown, id)
		}
		key = *k
		if !k.Revoked.IsZero() {
			return nil
		}
		key.Revoked = a.now()
		return tx.PutKey(key)
	})
	return key, err
}

// Usage lists what was used, by month, team and key.
func (a *Admin) Usage(ctx context.Context, q UsageQuery) ([]Usage, error) {
	return a.store.Usage(ctx, q)
}

// Tier returns the tier of a team.
func (a *Admin) Tier(name string) (Tier, bool) {
	t, ok := a.tiers[name]
	return t, ok
}

func (d *Directory) team(name string) *Team {
	i := slices.IndexFunc(d.Teams, func(t Team) bool { return t.Name == name })
	if i < 0 {
		return nil
	}
	return &d.Teams[i]
}

func (d *Directory) key(id string) *Key {
	i := slices.IndexFunc(d.Keys, func(k Key) bool { return k.ID == id })
	if i < 0 {
		return nil
	}
	return &d.Keys[i]
}

// count fills in how many secrets each key has.
func (d *Directory) count(now time.Time) {
	n := map[string]int{}
	for i := range d.Secrets {
		if d.Secrets[i].valid(now) {
			n[d.Secrets[i].Key]++
		}
	}
	for i := range d.Keys {
		d.Keys[i].Secrets = n[d.Keys[i].ID]
		if !d.Keys[i].Revoked.IsZero() {
			d.Keys[i].Secrets = 0
		}
	}
}
