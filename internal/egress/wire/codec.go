package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/callcell/callcell/envelope"
)

// ErrMalformed is the error of bytes that are no message.
var ErrMalformed = errors.New("egress/wire: not a message")

// Encode returns the bytes of a message. It refuses one that Decode would not
// take: none or several members set, or more than MaxMessage bytes.
func Encode(m Message) ([]byte, error) {
	if n := m.members(); n != 1 {
		return nil, fmt.Errorf("egress/wire: %d members of a message are set, not one", n)
	}
	b, err := json.Marshal(m.listed())
	if err != nil {
		return nil, fmt.Errorf("egress/wire: %w", err)
	}
	if len(b) > MaxMessage {
		return nil, fmt.Errorf("egress/wire: a message of %d bytes, at most %d", len(b), MaxMessage)
	}
	return b, nil
}

// Decode reads a message. It is as strict as envelope.Decode, and exactly one
// member is set. Its errors wrap ErrMalformed, and the message is then zero.
// It keeps nothing of b.
func Decode(b []byte) (Message, error) {
	var m Message
	if err := envelope.Decode(b, MaxMessage, &m); err != nil {
		return Message{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if n := m.members(); n != 1 {
		return Message{}, fmt.Errorf("%w: %d members are set, not one", ErrMalformed, n)
	}
	return m, nil
}

// members counts the members that are set.
func (m Message) members() (n int) {
	v := reflect.ValueOf(m)
	for i := range v.NumField() {
		if !v.Field(i).IsNil() {
			n++
		}
	}
	return n
}

// listed returns the message with empty lists for those that are nil and
// written nonetheless: null is no list.
func (m Message) listed() Message {
	if m.Setup != nil {
		s := *m.Setup
		s.Resolvers, s.Limits.FetchPorts = list(s.Resolvers), list(s.Limits.FetchPorts)
		s.Hosts = slices.Clone(s.Hosts)
		for i, h := range s.Hosts {
			s.Hosts[i].Addrs = list(h.Addrs)
		}
		m.Setup = &s
	}
	if m.Begin != nil {
		b := *m.Begin
		b.Sockets, b.Network.Allow, b.Network.Private = list(b.Sockets), list(b.Network.Allow), list(b.Network.Private)
		m.Begin = &b
	}
	if m.Grant != nil {
		g := Grant{Credentials: list(slices.Clone(m.Grant.Credentials))}
		for i, c := range g.Credentials {
			g.Credentials[i].Methods = list(c.Methods)
		}
		m.Grant = &g
	}
	if m.Body != nil {
		m.Body = &Body{Data: list(m.Body.Data)}
	}
	return m
}

func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
