package httpapi_test

import (
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/callcell/callcell/internal/gateway"
)

// TestMetrics: what ran and what was refused is counted, and no word of a
// caller's is a label.
func TestMetrics(t *testing.T) {
	s := newStand(t, nil)
	id, key := s.key("blue", gateway.RoleCall)
	s.do("POST", "/v1/calls", key, `{"argv":["/bin/print","sesame"],"task":"sesame","tool":"sesame"}`)
	s.do("POST", "/v1/calls", key, `{}`)
	s.do("GET", "/v1/sesame", key, "")
	rec := httptest.NewRecorder()
	s.metrics.ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	text := rec.Body.String()
	for _, want := range []string{
		`callcell_calls_total{level="container",outcome="completed"} 1`, `callcell_refusals_total{reason="request"} 1`,
		`callcell_http_requests_total{operation="runCall",status="200"} 1`, `callcell_http_requests_total{operation="runCall",status="400"} 1`,
		`callcell_http_requests_total{operation="",status="404"} 1`, `callcell_tokens_total{of="results"} 7`, "callcell_running 0", "callcell_waiting 0",
		`callcell_call_seconds_count{step="all"} 1`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %q", want)
		}
	}
	for line := range strings.Lines(text) {
		if !regexp.MustCompile(`^(# (HELP|TYPE) [a-z_]+ .+|[a-z_]+({[a-z]+="[^"]*"(,[a-z]+="[^"]*")*})? [0-9.e+-]+)\n$`).MatchString(line) {
			t.Errorf("no line of that form: %q", line)
		}
	}
	if strings.Contains(text, "sesame") || strings.Contains(text, "blue") || strings.Contains(text, id) {
		t.Error("a word of a caller's is in it")
	}
}
