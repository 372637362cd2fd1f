package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/callcell/callcell/internal/blob"
	"github.com/callcell/callcell/internal/gateway"
)

// An operation is one of the OpenAPI document, as far as the tests need it.
type operation struct {
	OperationID string                `json:"operationId"`
	Roles       []string              `json:"x-roles"`
	Security    []map[string][]string `json:"security"`
	Responses   map[string]any        `json:"responses"`
	RequestBody map[string]any        `json:"requestBody"`
}

// document reads the document that the daemon serves.
func document(t *testing.T, s *stand) map[string]map[string]operation {
	t.Helper()
	doc := read[struct {
		OpenAPI string                          `json:"openapi"`
		Paths   map[string]map[string]operation `json:"paths"`
	}](t, s.do("GET", "/openapi.json", "", ""), 200)
	if doc.OpenAPI != "3.1.0" || len(doc.Paths) < 10 {
		t.Fatalf("version %q, %d paths", doc.OpenAPI, len(doc.Paths))
	}
	return doc.Paths
}

// body is something that each operation with a body takes.
func body(op operation) string {
	switch op.OperationID {
	case "runCall", "explainCall":
		return `{"argv":["/bin/print","x"]}`
	case "runFetch":
		return `{"url":"https://example.com/"}`
	case "createKey":
		return `{"team":"blue","role":"read"}`
	case "createTeam":
		return `{"name":"green","tier":"free"}`
	}
	if op.OperationID == "pullImage" {
		return `{"ref":"registry.test/tools:1"}`
	}
	if op.RequestBody != nil {
		return `{}`
	}
	return ""
}

// headersOf are what such a body needs.
func headersOf(op operation) (list []string) {
	if content, ok := op.RequestBody["content"].(map[string]any); ok && content["application/octet-stream"] != nil {
		list = []string{"Content-Type", "application/octet-stream"}
	}
	return list
}

// verdict is the code of an answer. One to HEAD has no body: its status stands
// for it.
func verdict(a *answer) string {
	if a.Request.Method != http.MethodHead || a.StatusCode < 400 {
		return a.code()
	}
	return map[int]string{401: "key", 403: "role", 429: "tries", 404: "not_found", 400: "request"}[a.StatusCode]
}

// TestNoBodyWhereNoneIsTaken is over every operation that has none: one that comes
// all the same is refused, however it says how long it is. It may have been meant
// to make the request do less.
func TestNoBodyWhereNoneIsTaken(t *testing.T) {
	s := newStand(t, nil)
	_, admin := s.key("blue", gateway.RoleAdmin)
	n := 0
	for path, methods := range document(t, s) {
		for method, op := range methods {
			if op.RequestBody != nil {
				continue
			}
			n++
			concrete := strings.NewReplacer("{id}", "01990000-0000-7000-8000-000000000000", "{name}", "nobody", "{digest}", blob.Digest{}.Name()).Replace(path)
			head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n", strings.ToUpper(method), concrete, admin)
			for _, rest := range []string{"Content-Length: 10\r\n\r\n{\"upTo\":2}", "Transfer-Encoding: chunked\r\n\r\na\r\n{\"upTo\":2}\r\n0\r\n\r\n"} {
				text, err := s.raw(head + rest)
				if err != nil || !strings.HasPrefix(text, "HTTP/1.1 400 ") || method != "head" && !strings.Contains(text, "takes no body") {
					t.Errorf("%s %s: %.300q, %v", method, path, text, err)
				}
			}
		}
	}
	if n < 30 {
		t.Fatalf("%d operations", n)
	}
}

// TestEachKeyEachRoute is over every operation of the document: no key, a wrong
// one, a revoked one, and one of each role, each where it may and where it may
// not.
func TestEachKeyEachRoute(t *testing.T) {
	s := newStand(t, nil)
	secrets := map[string]string{"none": "", "wrong": "cck_" + strings.Repeat("A", 43), "malformed": "cck_x"}
	for role := gateway.RoleCall; role <= gateway.RoleAdmin; role++ {
		_, secrets[role.String()] = s.key("blue", role)
	}
	id, revoked := s.key("blue", gateway.RoleAdmin)
	if _, err := s.gateway.RevokeKey(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	secrets["revoked"] = revoked
	open := []string{"GET /healthz", "GET /readyz", "GET /openapi.json"}
	n := 0
	for path, methods := range document(t, s) {
		for method, op := range methods {
			where := strings.ToUpper(method) + " " + path
			if (len(op.Security) == 0) != slices.Contains(open, where) || (len(op.Roles) == 0) != slices.Contains(open, where) {
				t.Errorf("%s: security %v, roles %v", where, op.Security, op.Roles)
			}
			concrete := strings.NewReplacer("{id}", "01990000-0000-7000-8000-000000000000", "{name}", "nobody", "{digest}", blob.Digest{}.Name()).Replace(path)
			for who, secret := range secrets {
				n++
				got := s.do(strings.ToUpper(method), concrete, secret, body(op), headersOf(op)...)
				want := "may"
				switch {
				case slices.Contains(open, where):
				case who == "none" || who == "wrong" || who == "malformed" || who == "revoked":
					want = "key"
				case who != "admin" && !slices.Contains(op.Roles, who):
					want = "role"
				}
				code := verdict(got)
				ok := code == want || want == "key" && code == "tries"
				if want == "may" {
					ok = code != "key" && code != "role" && code != "tries" && code != "internal" && got.StatusCode < 500
				}
				if !ok || (got.StatusCode == http.StatusUnauthorized) != (code == "key") {
					t.Errorf("%s as %s: %d %s, want %s", where, who, got.StatusCode, got.body, want)
				}
			}
		}
	}
	if n < 100 {
		t.Errorf("%d requests", n)
	}
}

// TestForeignKey: what is another team's is not told from what is not there, on
// every operation that names something.
func TestForeignKey(t *testing.T) {
	s := newStand(t, nil)
	id, mine := s.key("blue", gateway.RoleCall)
	_, sibling := s.key("blue", gateway.RoleCall)
	_, myReader := s.key("blue", gateway.RoleRead)
	_, foreign := s.key("red", gateway.RoleCall)
	_, reader := s.key("red", gateway.RoleRead)
	_, admin := s.key("red", gateway.RoleAdmin)
	call := read[struct{ ID string }](t, s.do("POST", "/v1/calls", mine, `{"argv":["/bin/print","hello"]}`, "Prefer", "respond-async"), 202)
	s.do("GET", "/v1/calls/"+call.ID+"/events", mine, "") // until its end
	for _, c := range []struct {
		method, path, secret string
		want                 int
	}{
		{"GET", "/v1/calls/" + call.ID, mine, 200}, {"GET", "/v1/calls/" + call.ID, admin, 200},
		{"GET", "/v1/calls/" + call.ID, foreign, 404}, {"GET", "/v1/calls/" + call.ID, sibling, 404},
		{"GET", "/v1/calls/" + call.ID + "/events", foreign, 404}, {"DELETE", "/v1/calls/" + call.ID, foreign, 404},
		{"GET", "/v1/audit/" + call.ID, myReader, 200}, {"GET", "/v1/audit/" + call.ID, reader, 404}, {"GET", "/v1/audit/" + call.ID, admin, 200},
		{"GET", "/v1/audit/" + call.ID, mine, 200}, {"GET", "/v1/audit/" + call.ID, sibling, 404}, {"GET", "/v1/audit/" + call.ID, foreign, 404},
	} {
		if got := s.do(c.method, c.path, c.secret, ""); got.StatusCode != c.want || strings.Contains(string(got.body), "hello") && c.want != 200 {
			t.Errorf("%s %s: %d %s, want %d", c.method, c.path, got.StatusCode, got.body, c.want)
		}
	}
	none := call.ID[:len(call.ID)-8] + "00000000"
	for _, c := range [][2]string{{"/v1/audit/", reader}, {"/v1/audit/", sibling}, {"/v1/calls/", foreign}} {
		path, secret := c[0], c[1]
		theirs, nobodys := s.do("GET", path+call.ID, secret, ""), s.do("GET", path+none, secret, "")
		if string(theirs.body) != string(nobodys.body) || nobodys.StatusCode != 404 {
			t.Errorf("%s: another team's is told from none: %s, %s", path, theirs.body, nobodys.body)
		}
	}
	for _, c := range []struct {
		path, secret string
		want         int
	}{
		{"/v1/audit", myReader, 1}, {"/v1/audit", reader, 0}, {"/v1/audit", admin, 1},
		{"/v1/audit?since=2h", myReader, 1}, {"/v1/audit?until=2h", myReader, 0}, {"/v1/audit?since=2000-01-01", myReader, 1},
		{"/v1/audit?open=true", myReader, 0}, {"/v1/audit?caller=key:" + id, myReader, 1}, {"/v1/audit?key=key:" + id, myReader, 1}, {"/v1/audit?caller=key:" + id, reader, 0},
		{"/v1/audit", mine, 1}, {"/v1/audit", sibling, 0}, {"/v1/audit", foreign, 0}, {"/v1/audit?caller=key:" + id, mine, 1}, {"/v1/audit?caller=key:" + id, sibling, 0},
		{"/v1/audit?key=k_other", mine, 0}, {"/v1/audit?team=blue", mine, 1}, {"/v1/audit?team=red", mine, 0}, {"/v1/audit?team=blue", reader, 0}, {"/v1/audit?team=red", myReader, 0}, {"/v1/audit?team=blue", admin, 1},
		{"/v1/calls", mine, 1}, {"/v1/calls", foreign, 0}, {"/v1/calls", sibling, 0},
		{"/v1/usage", myReader, 1}, {"/v1/usage?team=blue", reader, 0}, {"/v1/usage", admin, 1},
	} {
		got := read[map[string]json.RawMessage](t, s.do("GET", c.path, c.secret, ""), 200)
		var list []any
		for _, name := range []string{"rows", "calls", "usage"} {
			if text, ok := got[name]; ok {
				if err := json.Unmarshal(text, &list); err != nil {
					t.Fatal(err)
				}
			}
		}
		if len(list) != c.want {
			t.Errorf("GET %s: %d, want %d: %s", c.path, len(list), c.want, fmt.Sprint(list))
		}
	}
}

// TestManage: an admin makes a team and a key, rotates and revokes it; secrets
// are in the answers that make them alone, and never in the log.
func TestManage(t *testing.T) {
	s := newStand(t, nil)
	_, admin := s.key("blue", gateway.RoleAdmin)
	read[gateway.Team](t, s.do("POST", "/v1/teams", admin, `{"name":"green","tier":"free","tokens":"5k"}`), 201)
	if plain := read[gateway.Team](t, s.do("POST", "/v1/teams", admin, `{"name":"plain"}`), 201); plain.Tier != gateway.DefaultTier {
		t.Errorf("a team without a tier: %+v", plain)
	}
	if got := s.do("POST", "/v1/teams", admin, `{"name":"green","tier":"free"}`); got.code() != "conflict" {
		t.Errorf("twice: %s", got.body)
	}
	type made struct {
		Key    gateway.Key
		Secret string
	}
	if plain := read[made](t, s.do("POST", "/v1/keys", admin, `{"team":"plain"}`), 201); plain.Key.Role != gateway.RoleCall {
		t.Errorf("a key without a role: %+v", plain.Key)
	}
	k := read[made](t, s.do("POST", "/v1/keys", admin, `{"team":"green","role":"call","label":"ci"}`), 201)
	fresh := read[made](t, s.do("POST", "/v1/keys/"+k.Key.ID+"/rotate", admin, `{"overlap":"0s"}`), 200)
	if got := s.do("GET", "/v1/levels", k.Secret, ""); got.code() != "key" {
		t.Errorf("the old secret: %s", got.body)
	}
	if got := s.do("GET", "/v1/levels", fresh.Secret, ""); got.StatusCode != 200 {
		t.Errorf("the new one: %s", got.body)
	}
	if got := s.do("PATCH", "/v1/teams/green", admin, `{"suspended":true}`); got.StatusCode != 200 {
		t.Errorf("%s", got.body)
	}
	if got := s.do("POST", "/v1/calls", fresh.Secret, `{"argv":["/bin/print"]}`); got.code() != "permission" {
		t.Errorf("a suspended team: %s", got.body)
	}
	if got := s.do("DELETE", "/v1/keys/"+k.Key.ID, admin, ""); got.StatusCode != 200 {
		t.Errorf("%s", got.body)
	}
	for _, list := range []string{"/v1/keys", "/v1/teams"} {
		if got := s.do("GET", list, admin, ""); strings.Contains(string(got.body), "cck_") || !strings.Contains(string(got.body), "green") {
			t.Errorf("%s: %s", list, got.body)
		}
	}
	for name, in := range map[string]string{"an empty role": `{"team":"green","role":""}`, "unknown field": `{"team":"green","role":"call","secret":"x"}`,
		"twice": `{"team":"green","team":"blue","role":"call"}`, "trailing": `{"team":"green","role":"call"} {}`, "null": `null`, "no such role": `{"team":"green","role":"root"}`} {
		if got := s.do("POST", "/v1/keys", admin, in); got.code() != "request" {
			t.Errorf("%s: %d %s", name, got.StatusCode, got.body)
		}
	}
	if strings.Contains(s.lines.String(), "cck_") {
		t.Error("a secret is in the log")
	}
}
