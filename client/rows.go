package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/callcell/callcell/envelope"
)

// Row is what the log has of one call. What a program chose is in it: names of
// files and hosts are data.
type Row struct {
	ID      string            `json:"id"`      // UUIDv7 of the call
	Started time.Time         `json:"started"` // of the first event
	Ended   time.Time         `json:"ended"`   // zero: it is open
	Task    string            `json:"task"`
	Caller  string            `json:"caller"` // key:ID, or the local user
	Team    string            `json:"team"`
	Tool    string            `json:"tool"`
	Level   envelope.Level    `json:"level"`
	Outcome envelope.Outcome  `json:"outcome"`
	Reason  envelope.Reason   `json:"reason"`  // of a refusal
	Receipt *envelope.Receipt `json:"receipt"` // of the ending; nil: it is open
	Erased  int64             `json:"erased"`  // the event that says that the rest is gone; 0: it is there
	Damaged string            `json:"damaged"` // why it cannot be shown; then it has its id alone
	// Record is the row in full, as callcell audit show has it.
	Record json.RawMessage `json:"-"`
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *Row) UnmarshalJSON(text []byte) error {
	type fields Row
	var f fields
	if err := json.Unmarshal(text, &f); err != nil {
		return err
	}
	*r = Row(f)
	r.Record = append(json.RawMessage(nil), text...)
	return nil
}

// RowFilter selects rows. Each field that is set must match.
type RowFilter struct {
	Task    string
	Tool    string
	Key     string // id of the key that called; not beside Caller
	Caller  string // as a row has it
	Team    string // for a key of role admin; another sees its own alone
	Host    string // that it tried to reach
	Level   envelope.Level
	Outcome envelope.Outcome
	Reason  envelope.Reason // of a refusal
	Open    bool            // only those that have not ended
	Since   time.Time       // of the call's beginning
	Until   time.Time       // before which it began
	Before  string          // only those older than this id
	Limit   int             // at most 1000; 0: 100
}

// The bounds of what is read of rows.
const (
	maxRows = 64 << 20 // bytes of a page, or of one
	maxPage = 1000     // that are in one
)

// Rows lists rows, newest first: f.Limit of them, or fewer where they are large.
// next is the Before of the next page, "" at the end. A key of role call sees its
// own calls, one of role read its team's.
func (c *Client) Rows(ctx context.Context, f *RowFilter) (rows []Row, next string, err error) {
	path := "/v1/audit"
	if q := f.query().Encode(); q != "" {
		path += "?" + q
	}
	var page struct {
		Rows few[Row] `json:"rows"`
		Next string   `json:"next"`
	}
	page.Rows.most = maxPage
	if rows, err = page.Rows.read(c.get(ctx, path, maxRows, &page)); err != nil {
		return nil, "", err
	}
	return rows, page.Next, nil
}

// Row reads one row, by the whole id of its call.
func (c *Client) Row(ctx context.Context, id string) (*Row, error) {
	r := new(Row)
	return result(r, c.get(ctx, "/v1/audit/"+url.PathEscape(id), maxRows, r))
}

func (f *RowFilter) query() url.Values {
	q := url.Values{}
	set := func(name, value string) {
		if value != "" {
			q.Set(name, value)
		}
	}
	set("task", f.Task)
	set("tool", f.Tool)
	set("key", f.Key)
	set("caller", f.Caller)
	set("team", f.Team)
	set("host", f.Host)
	set("before", f.Before)
	if f.Level.Valid() {
		set("level", f.Level.String())
	}
	if f.Outcome.Valid() {
		set("outcome", f.Outcome.String())
	}
	if f.Reason.Valid() {
		set("reason", f.Reason.String())
	}
	if f.Open {
		set("open", "true")
	}
	if !f.Since.IsZero() {
		set("since", f.Since.UTC().Format(time.RFC3339Nano))
	}
	if !f.Until.IsZero() {
		set("until", f.Until.UTC().Format(time.RFC3339Nano))
	}
	if f.Limit != 0 {
		set("limit", strconv.Itoa(f.Limit))
	}
	return q
}

// get reads an answer of at most so many bytes.
func (c *Client) get(ctx context.Context, path string, most int64, out any) error {
	resp, err := c.send(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	return answerWithin(resp, most, out)
}
