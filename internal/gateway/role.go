package gateway

import (
	"fmt"
	"slices"

	"github.com/callcell/callcell/envelope"
)

// Role says what a key is for. The zero value is invalid.
type Role uint8

// The roles.
const (
	RoleCall  Role = iota + 1 // runs calls, and sees its own and their rows
	RoleRead                  // reads the rows and the usage of its team
	RoleAdmin                 // manages teams and keys, reads everything, and calls
)

// String returns the role's word.
func (r Role) String() string {
	if r.Valid() {
		return roleWords()[r-1]
	}
	return fmt.Sprintf("invalid role (%d)", uint8(r))
}

func roleWords() []string { return []string{"call", "read", "admin"} }

// Valid reports whether r is a role.
func (r Role) Valid() bool { return r >= RoleCall && r <= RoleAdmin }

// May reports whether a key of role r may do what is for role need.
func (r Role) May(need Role) bool { return r.Valid() && need.Valid() && (r == need || r == RoleAdmin) }

// MarshalText implements encoding.TextMarshaler.
func (r Role) MarshalText() ([]byte, error) {
	if !r.Valid() {
		return nil, &FieldError{ErrInvalid, "role", r.String(), ""}
	}
	return []byte(r.String()), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *Role) UnmarshalText(text []byte) error {
	i := slices.Index(roleWords(), string(text))
	if *r = Role(i + 1); i < 0 {
		return &envelope.ValueError{Kind: "role", Value: string(text[:min(len(text), 65)]), Want: roleWords(), Hint: "call runs, read reads, admin manages"}
	}
	return nil
}
