package names

import (
	"errors"

	"golang.org/x/net/dns/dnsmessage"
)

// maxRecords is how many records of a question's message are looked at.
const maxRecords = 8

// edns is what is said in an OPT record.
type edns struct {
	there   bool
	version uint8
	high    dnsmessage.RCode // the upper bits of the answer's code
}

// read reads what comes after the header. A message with an answer or an
// authority in it is no question.
func read(p *dnsmessage.Parser) (qs []dnsmessage.Question, opt edns, ok bool) {
	for len(qs) < 2 {
		q, err := p.Question()
		if errors.Is(err, dnsmessage.ErrSectionDone) {
			break
		}
		if err != nil {
			return nil, edns{}, false
		}
		qs = append(qs, q)
	}
	if len(qs) != 1 {
		return qs, edns{}, true
	}
	if _, err := p.AnswerHeader(); !errors.Is(err, dnsmessage.ErrSectionDone) {
		return nil, edns{}, false
	}
	if _, err := p.AuthorityHeader(); !errors.Is(err, dnsmessage.ErrSectionDone) {
		return nil, edns{}, false
	}
	opt, ok = readOPT(p)
	return qs, opt, ok
}

func readOPT(p *dnsmessage.Parser) (opt edns, ok bool) {
	for range maxRecords {
		h, err := p.AdditionalHeader()
		if errors.Is(err, dnsmessage.ErrSectionDone) {
			return opt, true
		}
		if err != nil {
			return edns{}, false
		}
		if h.Type == dnsmessage.TypeOPT {
			if opt.there {
				return edns{}, false // one at most
			}
			opt = edns{there: true, version: uint8(h.TTL >> 16)}
		}
		if err := p.SkipAdditional(); err != nil {
			return edns{}, false
		}
	}
	return edns{}, false
}

// write writes an answer. What cannot be written is not answered.
func write(h dnsmessage.Header, q *dnsmessage.Question, f finding, opt edns) []byte {
	b := dnsmessage.NewBuilder(make([]byte, 0, maxAnswer), dnsmessage.Header{
		ID: h.ID, Response: true, OpCode: h.OpCode, RecursionDesired: h.RecursionDesired, RecursionAvailable: true,
		CheckingDisabled: h.CheckingDisabled, RCode: f.rcode,
	})
	b.EnableCompression()
	errs := []error{b.StartQuestions()}
	if q != nil {
		errs = append(errs, b.Question(*q), writeData(&b, q, f))
	}
	if opt.there {
		var oh dnsmessage.ResourceHeader
		errs = append(errs, oh.SetEDNS0(payload, opt.high<<4, false), b.StartAdditionals(), b.OPTResource(oh, dnsmessage.OPTResource{}))
	}
	msg, err := b.Finish()
	if errors.Join(append(errs, err)...) != nil || len(msg) > maxAnswer {
		return nil
	}
	return msg
}

// writeData writes what was found, or that there is nothing.
func writeData(b *dnsmessage.Builder, q *dnsmessage.Question, f finding) error {
	rh := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: ttl}
	switch {
	case f.addr.IsValid():
		return errors.Join(b.StartAnswers(), b.AResource(rh, dnsmessage.AResource{A: f.addr.As4()}))
	case f.name != "":
		name, err := dnsmessage.NewName(f.name + ".")
		return errors.Join(err, b.StartAnswers(), b.PTRResource(rh, dnsmessage.PTRResource{PTR: name}))
	case f.rcode == dnsmessage.RCodeSuccess || f.rcode == dnsmessage.RCodeNameError:
		rh.Name = dnsmessage.MustNewName(".")
		return errors.Join(b.StartAuthorities(), b.SOAResource(rh, dnsmessage.SOAResource{
			NS: dnsmessage.MustNewName("callcell.invalid."), MBox: dnsmessage.MustNewName("nobody.invalid."),
			Serial: 1, Refresh: ttl, Retry: ttl, Expire: ttl, MinTTL: ttl,
		}))
	}
	return nil
}
