package carry

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"time"
)

// What a PostgreSQL client says first: a length of 8, and one of these.
const (
	postgresSSL    = 80877103 // may we speak TLS?
	postgresGSS    = 80877104 // may we speak GSSAPI?
	postgresCancel = 80877102 // cancel a query; it is longer
)

const notPostgres = "what the program says is not PostgreSQL"

// postgres answers no to GSSAPI, passes the request for TLS on, and is tls
// when the server says yes. A client may also speak TLS at once.
func (c *carrier) postgres() error {
	first, err := c.postgresRequest()
	if err == nil && bytes.Equal(first, postgresMessage(postgresGSS)) {
		if _, err = c.program.Write([]byte{'N'}); err == nil {
			first, err = c.postgresRequest()
		}
	}
	switch {
	case err != nil:
		return err
	case first[0] == recordHandshake:
		raw, err := c.hello(io.MultiReader(bytes.NewReader(first), c.program))
		return c.postgresCarry(raw, err)
	case bytes.Equal(first, postgresMessage(postgresSSL)):
		if err := c.postgresTLS(first); err != nil {
			return err
		}
		raw, err := c.hello(c.program)
		return c.postgresCarry(raw, err)
	}
	return c.postgresRefuse(binary.BigEndian.Uint32(first[4:]))
}

func postgresMessage(code uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{0, 0, 0, 8}, code)
}

// postgresRequest reads the first eight bytes.
func (c *carrier) postgresRequest() ([]byte, error) {
	if err := c.program.SetReadDeadline(time.Now().Add(c.o.First)); err != nil {
		return nil, errGone
	}
	first := make([]byte, 8)
	_, err := io.ReadFull(c.program, first)
	switch {
	case errors.Is(err, io.EOF):
		return nil, errSilent
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, refuse(notPostgres)
	}
	if err != nil {
		return nil, firstWords(err)
	}
	return first, nil
}

// postgresTLS dials and asks the server for TLS. What it answers is passed on;
// only a yes goes on.
func (c *carrier) postgresTLS(request []byte) error {
	if err := c.connect(); err != nil {
		return err
	}
	if err := c.send(request); err != nil {
		return err
	}
	if err := c.up.SetReadDeadline(time.Now().Add(c.o.Idle)); err != nil {
		return broken("waiting for the other side")
	}
	var answer [1]byte
	if _, err := io.ReadFull(c.up, answer[:]); err != nil {
		return broken("waiting for the other side")
	}
	if err := c.o.Count(0, 1); err != nil {
		return refuse(err.Error())
	}
	c.out.Received++
	if _, err := c.program.Write(answer[:]); err != nil {
		return errGone
	}
	if answer[0] != 'S' {
		return refuse("the server does not speak TLS, and nothing else is carried")
	}
	return c.up.SetReadDeadline(time.Time{})
}

// postgresCarry goes on after the ClientHello.
func (c *carrier) postgresCarry(raw []byte, err error) error {
	if err != nil {
		return err
	}
	if c.up == nil {
		if err := c.connect(); err != nil {
			return err
		}
	}
	if err := c.send(raw); err != nil {
		return err
	}
	return c.pump()
}

// postgresRefuse says to the client why, in its own protocol.
func (c *carrier) postgresRefuse(code uint32) error {
	why := notPostgres
	switch {
	case code == postgresCancel:
		why = "a request to cancel without TLS is not carried"
	case code == postgresGSS, code == postgresSSL:
		why = "the program asks for encryption twice"
	case code>>16 == 3:
		why = "PostgreSQL without TLS is not carried: set sslmode=require"
	}
	body := "SFATAL\x00VFATAL\x00C28000\x00Mcallcell: " + why + "\x00\x00"
	msg := binary.BigEndian.AppendUint32([]byte{'E'}, uint32(4+len(body)))
	_ = c.program.SetWriteDeadline(time.Now().Add(time.Second)) // it is a courtesy
	_, _ = c.program.Write(append(msg, body...))                // the same
	return refuse(why)
}
