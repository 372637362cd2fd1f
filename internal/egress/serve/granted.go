package serve

import (
	"errors"
	"fmt"
	"slices"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/credential/secret"
	"github.com/callcell/callcell/internal/egress/inject"
	"github.com/callcell/callcell/internal/egress/policy"
	"github.com/callcell/callcell/internal/egress/wire"
	"github.com/callcell/callcell/internal/packet"
)

// errGrant hides what came instead: it may be a secret.
var errGrant = errors.New("the credentials that were announced did not come")

// granted takes the credentials that Begin has announced; nil where it has
// not.
func granted(conn *packet.Conn, b *wire.Begin) (*inject.Set, error) {
	if !b.Granted {
		return nil, nil
	}
	m, fds, err := receive(conn)
	packet.CloseAll(fds)
	if err != nil || m.Grant == nil || len(fds) > 0 || len(m.Grant.Credentials) == 0 || len(m.Grant.Credentials) > wire.MaxCredentials {
		return nil, errGrant
	}
	list := m.Grant.Credentials
	for i := range list {
		if list[i].Secret, err = receiveSecret(conn); err != nil {
			for _, c := range list {
				c.Secret.Destroy()
			}
			return nil, err
		}
	}
	return inject.New(list)
}

// receiveSecret takes one secret out of the conversation's buffer, of which
// nothing is left there.
func receiveSecret(conn *packet.Conn) (secret.Secret, error) {
	b, fds, err := conn.Receive()
	packet.CloseAll(fds)
	if err != nil || len(fds) > 0 || len(b) > wire.MaxSecret {
		clear(b)
		return secret.Secret{}, errGrant
	}
	return secret.New(b)
}

// inspected returns the hosts that the call's authority vouches for: those of
// entries that inspect, and those that a credential is for and the policy
// allows. A credential for another host is never used, but by a fetch of what
// is public.
func (c *call) inspected(n envelope.Network) ([]string, error) {
	var hosts []string
	for _, a := range n.Allow {
		if slices.ContainsFunc(a.Ports, a.InspectsOn) {
			hosts = append(hosts, a.Host)
		}
	}
	for _, at := range c.grant.Places() {
		switch v := c.pol.Judge(at.Host, at.Port); {
		case !v.OK:
		case v.Protocol != envelope.ProtocolTLS:
			return nil, fmt.Errorf("a credential is for %s on port %d, where %s speaks %s: no credential goes over anything but tls", at.Host, at.Port, v.Why, v.Protocol)
		case !slices.Contains(hosts, at.Host):
			hosts = append(hosts, at.Host)
		}
	}
	return hosts, nil
}

// judge is policy.Policy.Judge. Where a credential is for host and port, every
// request is looked into, whatever the entry says.
func (c *call) judge(host string, port int) policy.Verdict {
	v := c.pol.Judge(host, port)
	if v.OK && v.Protocol == envelope.ProtocolTLS && c.grant.At(v.Host, v.Port) != nil {
		v.Inspect = true
	}
	return v
}

// done is the call's last word.
func (c *call) done() wire.Message {
	d := &wire.Done{Egress: c.lines.total()}
	d.Credentials, d.MaskedBy = c.grant.Counts()
	return wire.Message{Done: d}
}
