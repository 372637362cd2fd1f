package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/callcell/callcell/envelope"
)

// maxLine bounds one event, in bytes: the last has the whole result.
const maxLine = 256 << 20

// Event is what is told of a call while it runs.
type Event struct {
	ID   int    // to go on from
	Kind string // begun, running, stdout, stderr, cut or result; new ones may come
	// Data is what the program wrote, of stdout and stderr.
	Data   envelope.Data
	Call   string           // of begun: the call's id
	Level  envelope.Level   // of running
	Result *envelope.Result // of result, which is the last
}

// Stream runs one call and hands each of its events to hear, until the last,
// whose result it returns. It goes on when the connection is lost: Resume hears
// the rest. An error of hear ends the hearing, not the call.
func (c *Client) Stream(ctx context.Context, call *envelope.Call, hear func(Event) error, options ...Option) (*envelope.Result, error) {
	events := func(h http.Header) { h.Set("Accept", "text/event-stream") }
	resp, err := c.send(ctx, http.MethodPost, "/v1/calls", call, append(options, events)...)
	if err != nil {
		return nil, err
	}
	return listen(resp, hear)
}

// Resume is Stream for a call that was started, with the events after one.
func (c *Client) Resume(ctx context.Context, id string, after int, hear func(Event) error) (*envelope.Result, error) {
	resp, err := c.send(ctx, http.MethodGet, "/v1/calls/"+url.PathEscape(id)+"/events", nil,
		func(h http.Header) { h.Set("Last-Event-ID", strconv.Itoa(after)) })
	if err != nil {
		return nil, err
	}
	return listen(resp, hear)
}

// ErrCut means that the events ended before the result.
var ErrCut = errors.New("client: the connection was lost before the result")

func listen(resp *http.Response, hear func(Event) error) (*envelope.Result, error) {
	var result *envelope.Result
	err := events(resp, func(id int, kind string, data []byte) (bool, error) {
		e := Event{ID: id, Kind: kind}
		if err := e.read(data); err != nil {
			return false, err
		}
		result = e.Result
		return result != nil, hear(e)
	})
	if err != nil {
		return nil, err
	}
	return result, nil
}

// events hands each event of an answer to do, until it says that this was the
// last, or has an error.
func events(resp *http.Response, do func(id int, kind string, data []byte) (last bool, err error)) error {
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxLine)
	id, kind := 0, ""
	var data []byte
	for lines.Scan() {
		name, value, _ := bytes.Cut(lines.Bytes(), []byte(": "))
		switch string(name) {
		case "id":
			id, _ = strconv.Atoi(string(value)) // 0 where it is none: from the beginning
		case "event":
			kind = string(value)
		case "data":
			data = append(data[:0], value...)
		case "":
			if kind == "" {
				continue
			}
			if last, err := do(id, kind, data); err != nil || last {
				return err
			}
			id, kind = 0, ""
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrCut, err)
	}
	return ErrCut
}

// read reads the data of an event of a kind that is known.
func (e *Event) read(data []byte) error {
	var v struct {
		ID    string         `json:"id"`
		Level envelope.Level `json:"level"`
		Data  envelope.Data  `json:"data"`
	}
	var err error
	switch e.Kind {
	case "result":
		e.Result = new(envelope.Result)
		err = json.Unmarshal(data, e.Result)
	case "begun", "running", "stdout", "stderr":
		err = json.Unmarshal(data, &v)
		e.Call, e.Level, e.Data = v.ID, v.Level, v.Data
	}
	if err != nil {
		return fmt.Errorf("%w: event %s: %w", ErrAnswer, e.Kind, err)
	}
	return nil
}
