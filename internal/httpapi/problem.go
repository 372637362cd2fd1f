package httpapi

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/gateway"
	"github.com/callcell/callcell/internal/health"
	"github.com/callcell/callcell/internal/workspace"
)

// Problem is an error, as RFC 9457 has it.
type Problem struct {
	Type   string `json:"type" doc:"urn:callcell: and the code"`
	Title  string `json:"title" doc:"The code in words"`
	Status int    `json:"status" doc:"Of the answer"`
	Code   string `json:"code" doc:"One of a closed table; it never changes its meaning"`
	Detail string `json:"detail,omitempty" doc:"What is wrong"`
	Field  string `json:"field,omitempty" doc:"The field to mend, dotted"`
	Hint   string `json:"hint,omitempty" doc:"How to mend it"`
	Retry  bool   `json:"retry" doc:"Whether trying again can help"`
	// Reason is of a call that was refused.
	Reason envelope.Reason `json:"reason,omitzero" doc:"Of the refusal; where the code is not conflict, it is the code"`
	// Call and Receipt are of a call that was refused and has its row.
	Call    string            `json:"call,omitempty" doc:"Id of the call that was refused"`
	Receipt *envelope.Receipt `json:"receipt,omitempty" doc:"Of the row of a call that was refused"`
	Checks  []health.Result   `json:"checks,omitempty" doc:"Of /readyz: what is well and what is not"`

	after envelope.Duration // Retry-After, where it is known
}

// Error names the code and what is wrong.
func (p *Problem) Error() string { return p.Code + ": " + p.Detail }

// Code is one word of Problem.Code.
type Code struct {
	Word   string
	Status int
	Title  string
}

// Codes returns the table of codes. Those of a refusal are its reasons.
func Codes() []Code {
	return []Code{
		{"request", http.StatusBadRequest, "The request is malformed"},
		{"permission", http.StatusForbidden, "The caller may not do this"},
		{"policy", http.StatusForbidden, "The request is wider than the profile"},
		{"isolation", http.StatusUnprocessableEntity, "No level of this host satisfies what is asked"},
		{"unsupported", http.StatusUnprocessableEntity, "Not to be had at that level, or not built"},
		{"rate", http.StatusTooManyRequests, "Too many calls a minute"},
		{"budget", http.StatusPaymentRequired, "A budget is used up"},
		{"capacity", http.StatusServiceUnavailable, "There is no room now"},
		{"setup", http.StatusInternalServerError, "The cell could not be built"},

		{"key", http.StatusUnauthorized, "There is no key, or it is not a good one"},
		{"tries", http.StatusTooManyRequests, "Too many tries without a good key"},
		{"role", http.StatusForbidden, "The key's role may not do this"},
		{"host", http.StatusMisdirectedRequest, "The request is for another host"},
		{"origin", http.StatusForbidden, "Pages of that origin may not call"},
		{"not_found", http.StatusNotFound, "There is nothing there"},
		{"method", http.StatusMethodNotAllowed, "The method is not one of this address"},
		{"too_large", http.StatusRequestEntityTooLarge, "The body is too large"},
		{"slow", http.StatusRequestTimeout, "The body did not come in time"},
		{"content_type", http.StatusUnsupportedMediaType, "The body is of another type"},
		{"conflict", http.StatusConflict, "That is there already, has ended, or is in another's hands"},
		{"quota", http.StatusForbidden, "The room there is for it is used up"},
		{"image", http.StatusUnprocessableEntity, "The image cannot be made of what is there"},
		{"idempotency", http.StatusUnprocessableEntity, "The idempotency key was used for another request"},
		{"gone", http.StatusGone, "It was erased"},
		{"unavailable", http.StatusServiceUnavailable, "The store does not answer"},
		{"internal", http.StatusInternalServerError, "A failure of our own"},
	}
}

// problem makes a problem of a code.
func problem(code, detail, hint string) *Problem {
	for _, c := range Codes() {
		if c.Word == code {
			return &Problem{Type: "urn:callcell:" + code, Title: c.Title, Status: c.Status, Code: code, Detail: detail, Hint: hint}
		}
	}
	return problem("internal", "", "")
}

func (p *Problem) at(field string) *Problem {
	p.Field = field
	return p
}

// refused makes a problem of a refusal.
func refused(r *envelope.Refusal) *Problem {
	code := r.Reason.String()
	if workspace.Conflict(r) {
		code = "conflict"
	}
	p := problem(code, r.Message, r.Hint).at(r.Field)
	p.Reason, p.Retry, p.after = r.Reason, r.Retry, r.RetryAfter
	if p.Code == "setup" && r.Retry {
		p.Status = http.StatusServiceUnavailable
	}
	return p
}

// problemOf makes a problem of any error. What is not known is a failure of our
// own, whose text is for the log.
func problemOf(err error) *Problem {
	var p *Problem
	var field *gateway.FieldError
	switch r := envelope.RefusalOf(err); {
	case errors.As(err, &p):
		return p
	case blobProblem(err) != nil:
		return blobProblem(err)
	case workspaceProblem(err) != nil:
		return workspaceProblem(err)
	case imageProblem(err) != nil:
		return imageProblem(err)
	case r != nil:
		return refused(r)
	case errors.As(err, &field):
		return problem("request", field.Msg, field.Hint).at(field.Field)
	case errors.Is(err, gateway.ErrUnknown):
		_, what, _ := strings.Cut(err.Error(), gateway.ErrUnknown.Error()+": ") // it was named by who asks, and is an admin's
		return problem("not_found", "there is no "+cut(what, 128), "GET /v1/teams and GET /v1/keys say what there is")
	case errors.Is(err, audit.ErrNotFound):
		return problem("not_found", "there is no row of such a call", "GET /v1/audit has those that the key may see")
	case errors.Is(err, audit.ErrAmbiguous):
		return problem("request", "more than one call begins like that", "write more of the id")
	case errors.Is(err, gateway.ErrRevoked):
		return problem("conflict", err.Error(), "a key that was revoked stays so: make another with POST /v1/keys")
	case errors.Is(err, gateway.ErrExists):
		return problem("conflict", err.Error(), "")
	case errors.Is(err, audit.ErrInvalid):
		return problem("request", err.Error(), "")
	case errors.Is(err, audit.ErrUnwritable), errors.Is(err, audit.ErrBusy), errors.Is(err, audit.ErrClosed):
		p := problem("unavailable", "the store does not answer", "see that the state directory can be written and has room")
		p.Retry = true
		if errors.Is(err, audit.ErrFull) {
			p.Detail, p.Hint = "the disk of the store is full", "make room on the disk that has the state directory; nothing else is to be done"
		}
		return p
	}
	return problem("internal", "a failure of our own", "the log of the daemon says more")
}

// write answers with the problem.
func (p *Problem) write(w http.ResponseWriter) {
	if p.after > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(int64(math.Ceil(p.after.Std().Seconds())), 10))
	}
	if p.Code == "key" {
		w.Header().Set("WWW-Authenticate", `Bearer realm="callcell"`)
	}
	writeAs(w, p.Status, "application/problem+json", p)
}

// writeAs answers with a value as JSON.
func writeAs(w http.ResponseWriter, status int, contentType string, v any) {
	body, err := json.Marshal(v)
	if err != nil { // our own types: cannot be
		status, body = http.StatusInternalServerError, []byte(`{"code":"internal","status":500}`)
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // who does not read is gone
}
