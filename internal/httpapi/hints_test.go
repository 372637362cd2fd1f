package httpapi_test

import (
	"strings"
	"testing"

	"github.com/callcell/callcell/internal/gateway"
	"github.com/callcell/callcell/internal/httpapi"
)

// TestWhatIsWrongIsNamed is over requests of an operator with a slip in them:
// the problem says which word it is, and what may stand there.
func TestWhatIsWrongIsNamed(t *testing.T) {
	s := newStand(t, nil)
	_, admin := s.key("blue", gateway.RoleAdmin)
	gone, _ := s.key("blue", gateway.RoleCall)
	read[gateway.Key](t, s.do("DELETE", "/v1/keys/"+gone, admin, ""), 200)
	for _, c := range []struct {
		name, method, path, body string
		status                   int
		field, detail, hint      string
	}{
		{"a parameter that there is not", "GET", "/v1/audit?limitt=3", "", 400, "?limitt", "unknown parameter", "limit"},
		{"a parameter where there is none", "GET", "/v1/teams?a=1", "", 400, "?a", "unknown parameter", "takes none"},
		{"a time in words", "GET", "/v1/audit?since=yesterday", "", 400, "?since", `"yesterday"`, "2026-11-30T14:00:00Z"},
		{"a plus sign that became a space", "GET", "/v1/audit?since=2026-11-30T14:00:00+01:00", "", 400, "?since", "not a time", "%2B"},
		{"a yes or no that is neither", "GET", "/v1/audit?open=maybe", "", 400, "?open", `"maybe"`, "true"},
		{"a key and a caller", "GET", "/v1/audit?key=k_a&caller=key:k_a", "", 400, "?caller", "beside key", "leave one"},
		{"a level that there is not", "GET", "/v1/audit?level=vm", "", 400, "?level", "vm", ""},
		{"a month that is none", "GET", "/v1/usage?from=2026", "", 400, "?from", "month", "2026-11"},
		{"a key for a team that there is not", "POST", "/v1/keys", `{"team":"bleu","role":"call"}`, 404, "", `team "bleu"`, "/v1/teams"},
		{"a change of a team that there is not", "PATCH", "/v1/teams/bleu", `{"suspended":true}`, 404, "", `team "bleu"`, "/v1/teams"},
		{"a rotation of a key that there is not", "POST", "/v1/keys/k_none/rotate", `{}`, 404, "", `key "k_none"`, "/v1/keys"},
		{"a rotation of a key that is revoked", "POST", "/v1/keys/" + gone + "/rotate", `{}`, 409, "", gone, "make another"},
		{"a row that there is not", "GET", "/v1/audit/01a22b22-155f-77ec-a41f-ee8a265882ab", "", 404, "", "row", "/v1/audit"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := read[httpapi.Problem](t, s.do(c.method, c.path, admin, c.body), c.status)
			if p.Field != c.field || !strings.Contains(p.Detail, c.detail) || !strings.Contains(p.Hint, c.hint) {
				t.Errorf("field %q, %q, hint %q", p.Field, p.Detail, p.Hint)
			}
		})
	}
}
