package httpapi

import (
	"strings"

	"github.com/callcell/callcell/internal/gateway"
	"github.com/callcell/callcell/internal/health"
)

// healthy is GET /healthz: the process answers.
func healthy(*API, *request) (any, error) { return Health{Status: "ok"}, nil }

// Health is the answer to /healthz and /readyz. A daemon that is not ready
// answers with a Problem, which has the checks too.
type Health struct {
	Status  string          `json:"status" enum:"ok,degraded" doc:"degraded: ready, and a check that it is ready without is not well"`
	Version string          `json:"version,omitempty" doc:"Of the daemon"`
	Load    *gateway.Load   `json:"load,omitempty" doc:"What runs and waits"`
	Checks  []health.Result `json:"checks,omitempty" doc:"Of /readyz"`
}

// ready is GET /readyz: a call would find a store that takes writes, a launcher
// that answers and a level that can build its cell.
func ready(a *API, _ *request) (any, error) {
	r := a.Health()
	a.sayHealth(&r)
	if !r.Ready {
		p := problem("unavailable", "a call would be refused now", "the checks say why, and the log of the daemon says more")
		p.Retry, p.Checks = true, r.Checks
		return nil, p
	}
	h := Health{Status: "ok", Checks: r.Checks}
	for _, c := range r.Checks {
		if !c.OK {
			h.Status = "degraded"
		}
	}
	return h, nil
}

// sayHealth tells the log what is not well, when that changes.
func (a *API) sayHealth(r *health.Report) {
	var words, faults []string
	for _, c := range r.Checks {
		if !c.OK {
			words, faults = append(words, c.Reason), append(faults, c.Err.Error())
		}
	}
	said := strings.Join(words, " ")
	a.unready.Lock()
	defer a.unready.Unlock()
	switch {
	case said == a.said:
		return
	case said == "":
		a.Log.Info("all is well again")
	default:
		a.Log.Error("not well", "ready", r.Ready, "reasons", said, "error", strings.Join(faults, "; "))
	}
	a.said = said
}
