package egress

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"syscall"

	"github.com/callcell/callcell/internal/egress/wire"
)

// revealed calls use with the bytes of every secret of a list, none of which
// can be overwritten meanwhile. It reports false, and does not call it, where
// one is gone.
func revealed(list []wire.Credential, use func(secrets [][]byte)) bool {
	return reveal(list, make([][]byte, 0, len(list)), use)
}

func reveal(list []wire.Credential, so [][]byte, use func(secrets [][]byte)) bool {
	if len(list) == 0 {
		use(so)
		return true
	}
	rest := false
	mine := list[0].Secret.Reveal(func(value []byte) { rest = reveal(list[1:], append(so, value), use) })
	return mine && rest
}

// grant is what a call's conversation begins with where it has credentials.
type grant struct {
	message []byte   // nil: it has none
	secrets [][]byte // valid while they are revealed
}

// newGrant returns the grant of a call, before anything is sent: what the
// process would not take is an error here.
func newGrant(list []wire.Credential, secrets [][]byte) (grant, error) {
	if len(list) == 0 {
		return grant{}, nil
	}
	if len(list) > wire.MaxCredentials {
		return grant{}, fmt.Errorf("egress: %d credentials, at most %d", len(list), wire.MaxCredentials)
	}
	for i, value := range secrets {
		if len(value) > wire.MaxSecret {
			return grant{}, fmt.Errorf("egress: the secret of credential %q has %d bytes, at most %d", list[i].Name, len(value), wire.MaxSecret)
		}
	}
	b, err := wire.Encode(wire.Message{Grant: &wire.Grant{Credentials: list}})
	if err != nil {
		return grant{}, fmt.Errorf("egress: the call's credentials: %w", err)
	}
	return grant{b, secrets}, nil
}

// give sends the grant. Where the process has hung up, its last word says why:
// it may have refused the call.
func (s *Session) give(g grant) error {
	if g.message == nil {
		return nil
	}
	defer s.p.bound(s.p.times.send)()
	err := s.conn.Send(g.message)
	for _, value := range g.secrets {
		if err == nil {
			err = s.conn.Send(value)
		}
	}
	if err == nil || errors.Is(err, syscall.EPIPE) || errors.Is(err, os.ErrClosed) {
		return nil
	}
	s.p.die(fmt.Errorf("the call's credentials could not be sent: %w", err)) // it waits for them
	return s.p.died()
}

// Masked returns how often values were masked in answers, by the name of their
// credential. It is complete after Close, and the process's word.
func (s *Session) Masked() map[string]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.masked)
}

// maxCount is more than a call can come to.
const maxCount = 1 << 50

// takeCounts takes what Done says of credentials: of none but the call's own.
func (s *said) takeCounts(d *wire.Done) error {
	for _, counts := range []map[string]int64{d.Credentials, d.MaskedBy} {
		for name, n := range counts {
			if !s.granted[name] || n < 0 || n > maxCount {
				return fmt.Errorf("%w: a count of a credential that cannot be", errBreach)
			}
		}
	}
	s.masked = d.MaskedBy
	return nil
}
