package dial

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

// The bounds of an answer.
const (
	maxRecords = 256
	maxAliases = 16
)

var (
	errStray     = errors.New("what came answers another question")
	errMalformed = errors.New("a resolver's answer cannot be read")
)

// reply is what a server answered to our question.
type reply struct {
	rcode     dnsmessage.RCode
	truncated bool
	addrs     []netip.Addr
}

// read reads an answer to the question for the type t of name. Another
// number, another question or no answer at all is errStray.
func read(b []byte, id uint16, name dnsmessage.Name, t dnsmessage.Type) (reply, error) {
	var p dnsmessage.Parser
	h, err := p.Start(b)
	if err != nil || !h.Response || h.ID != id {
		return reply{}, errStray
	}
	q, err := p.Question()
	if err != nil || q.Type != t || q.Class != dnsmessage.ClassINET || !strings.EqualFold(q.Name.String(), name.String()) {
		return reply{}, errStray
	}
	if err := p.SkipAllQuestions(); err != nil {
		return reply{}, errStray
	}
	got := reply{rcode: h.RCode, truncated: h.Truncated}
	if h.Truncated || h.RCode != dnsmessage.RCodeSuccess {
		return got, nil
	}
	recs, err := readRecords(&p, t)
	if err != nil {
		return reply{}, fmt.Errorf("%w: %w", errMalformed, err)
	}
	got.addrs = recs.of(name.String())
	return got, nil
}

// records are the addresses and aliases in an answer, by their owner in lower
// case.
type records struct {
	addrs   map[string][]netip.Addr
	aliases map[string]string
}

func readRecords(p *dnsmessage.Parser, t dnsmessage.Type) (records, error) {
	recs := records{map[string][]netip.Addr{}, map[string]string{}}
	for range maxRecords {
		h, err := p.AnswerHeader()
		if errors.Is(err, dnsmessage.ErrSectionDone) {
			return recs, nil
		}
		if err != nil {
			return records{}, err
		}
		if err := recs.add(p, h, t); err != nil {
			return records{}, err
		}
	}
	return recs, nil // what comes after is not needed
}

func (r records) add(p *dnsmessage.Parser, h dnsmessage.ResourceHeader, t dnsmessage.Type) error {
	owner := strings.ToLower(h.Name.String())
	switch {
	case h.Class != dnsmessage.ClassINET:
		return p.SkipAnswer()
	case h.Type == dnsmessage.TypeCNAME:
		body, err := p.CNAMEResource()
		if _, twice := r.aliases[owner]; err == nil && !twice {
			r.aliases[owner] = strings.ToLower(body.CNAME.String())
		}
		return err
	case h.Type == t && t == dnsmessage.TypeA:
		body, err := p.AResource()
		r.addrs[owner] = append(r.addrs[owner], netip.AddrFrom4(body.A))
		return err
	case h.Type == t && t == dnsmessage.TypeAAAA:
		body, err := p.AAAAResource()
		r.addrs[owner] = append(r.addrs[owner], netip.AddrFrom16(body.AAAA))
		return err
	}
	return p.SkipAnswer()
}

// of returns the addresses of a name, by its aliases.
func (r records) of(name string) []netip.Addr {
	name = strings.ToLower(name)
	for range maxAliases {
		if addrs := r.addrs[name]; len(addrs) > 0 {
			return addrs
		}
		next, ok := r.aliases[name]
		if !ok {
			return nil
		}
		name = next
	}
	return nil
}
