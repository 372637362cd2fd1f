package httpapi_test

import (
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/gateway"
	"github.com/callcell/callcell/internal/httpapi"
	"github.com/callcell/callcell/internal/testing/leak"
)

// TestRequestsOnlyNarrow plays boundary test 4: what a call over HTTP asks for
// beyond its profile, of this host or of others, is refused before anything runs,
// with the field and a hint.
func TestRequestsOnlyNarrow(t *testing.T) {
	leak.Check(t)
	s := newStand(t, nil)
	s.profile.Trust = envelope.TrustModel
	_, key := s.key("blue", gateway.RoleCall)
	for _, c := range []struct{ name, more, code, field string }{
		{"a file of this host", `"inputs":[{"name":"x","from":"/etc/shadow"}]`, "request", "inputs[0].from"},
		{"a file of this host in a tree", `"tree":{"files":[{"name":"x","source":"/etc/shadow"}]}`, "request", "tree.files[0].source"},
		{"a name that leads out", `"inputs":[{"name":"../x","data":""}]`, "request", "inputs[0].name"},
		{"an output that leads out", `"outputs":["/etc/shadow"]`, "request", "outputs[0]"},
		{"a blob of nobody's", `"inputs":[{"name":"x","data":"","blob":"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}]`, "request", "inputs[0].blob"},
		{"to be reviewed", `"request":{"trust":"reviewed"}`, "policy", "trust"},
		{"no isolation", `"request":{"level":"none"}`, "request", "level"},
		{"a mount of its own", `"request":{"files":{"mounts":{"etc":{"source":"/etc","target":"/etc","why":"x"}}}}`, "request", "request.files.mounts"},
		{"a mount that the profile has not", `"request":{"files":{"mounts":["etc"]}}`, "policy", "files.mounts[0]"},
		{"a source of its own", `"request":{"credentials":{"gh":{"source":"file:/etc/shadow"}}}`, "request", "request.credentials"},
		{"a credential that the profile has not", `"request":{"credentials":["gh"]}`, "policy", "credentials[0]"},
		{"a host", `"request":{"network":{"allow":[{"host":"evil.test","ports":[443]}]}}`, "policy", "network.allow[0]"},
		{"an address that is not public", `"request":{"network":{"private":[{"cidr":"10.0.0.0/8","why":"x"}]}}`, "request", "request.network.private"},
		{"every public document", `"request":{"network":{"fetch":"public"}}`, "request", "request.network.fetch"},
		{"another image", `"request":{"image":"oci:evil.test/x:1"}`, "policy", "image"},
		{"more of a ceiling", `"request":{"resources":{"pids":65}}`, "policy", "resources.pids"},
		{"more of a task", `"request":{"task":{"calls":201}}`, "request", "request.task"},
		{"fewer neighbours", `"request":{"coResidency":"none"}`, "request", "request.coResidency"},
		{"a variable of the host's linker", `"env":{"LD_PRELOAD":"x"}`, "request", "env.LD_PRELOAD"},
		{"a need that is the profile's to have", `"needs":["mounts"]`, "request", "needs[0]"},
	} {
		p := read[httpapi.Problem](t, s.do("POST", "/v1/calls", key, `{"argv":["/bin/print","ran"],`+c.more+`}`), map[string]int{"request": 400, "policy": 403}[c.code])
		if p.Code != c.code || p.Field != c.field || p.Hint == "" || p.Retry {
			t.Errorf("%s: %s of %s: %s; hint %q", c.name, p.Code, p.Field, p.Detail, p.Hint)
		}
	}
	rows, err := s.log.List(t.Context(), audit.Filter{Limit: audit.MaxLimit})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if r.Outcome.Valid() {
			t.Errorf("it ran: %+v", r)
		}
	}
}
