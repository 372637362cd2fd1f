package carry

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

// alertDenied is the alert "access denied", fatal, as a record.
func alertDenied() []byte { return []byte{21, 3, 3, 0, 2, 2, 49} }

// tls looks at the ClientHello, dials, and carries.
func (c *carrier) tls() error {
	raw, err := c.hello(c.program)
	if err != nil {
		return err
	}
	if err := c.connect(); err != nil {
		return err
	}
	if err := c.send(raw); err != nil {
		return err
	}
	return c.pump()
}

// hello reads a ClientHello and refuses it where its name is not the host's.
// The program is sent an alert then.
func (c *carrier) hello(r io.Reader) (raw []byte, err error) {
	if err := c.program.SetReadDeadline(time.Now().Add(c.o.First)); err != nil {
		return nil, errGone
	}
	raw, h, err := readHello(r)
	if err == nil {
		err = c.judgeHello(h)
	}
	if err == nil {
		return raw, c.program.SetReadDeadline(time.Time{})
	}
	var refused *refusal
	if !errors.As(err, &refused) {
		err = firstWords(err)
	}
	if errors.As(err, &refused) && len(raw) > 0 && raw[0] == recordHandshake {
		_ = c.program.SetWriteDeadline(time.Now().Add(time.Second)) // it is a courtesy
		_, _ = c.program.Write(alertDenied())                       // the same
	}
	return nil, err
}

// firstWords says what an error while reading the program's first words means.
func firstWords(err error) error {
	switch {
	case errors.Is(err, errNotTLS), errors.Is(err, errHello):
		return refuse(err.Error())
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, errSilent):
		return errSilent
	}
	return errGone
}

// judgeHello holds a ClientHello to the host.
func (c *carrier) judgeHello(h hello) error {
	switch {
	case h.encrypted:
		return refuse("the ClientHello is encrypted (ECH): whom it is for cannot be seen")
	case c.t.Literal.IsValid() && h.name != "":
		return refuse("the ClientHello names " + quote(h.name) + ", and the host is an address")
	case c.t.Literal.IsValid():
		return nil
	case h.name == "":
		return refuse("the ClientHello names no host")
	case !sameName(h.name, c.t.Host):
		return refuse(fmt.Sprintf("the ClientHello names %s, not %q", quote(h.name), c.t.Host))
	}
	return nil
}

// sameName compares a name with a canonical one. Letters of other scripts have
// no case here.
func sameName(name, host string) bool {
	name = strings.TrimSuffix(name, ".")
	for _, b := range []byte(name) {
		if b >= 0x80 {
			return false
		}
	}
	return strings.ToLower(name) == host
}

// quote shows a text of the program's.
func quote(text string) string {
	if len(text) > 100 {
		text = text[:100]
	}
	return strconv.QuoteToASCII(text)
}
