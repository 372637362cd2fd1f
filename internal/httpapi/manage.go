package httpapi

import (
	"encoding"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/assembly"
	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/gateway"
)

// openapi is GET /openapi.json.
func openapi(a *API, req *request) (any, error) {
	req.w.Header().Set("Content-Type", "application/json")
	req.w.Header().Set("Content-Length", strconv.Itoa(len(a.doc)))
	a.writeBy(req.w)
	_, _ = req.w.Write(a.doc)
	return answered{}, nil
}

// LevelList is the answer to GET /v1/levels.
type LevelList struct {
	Levels []assembly.LevelReport `json:"levels" doc:"Weakest first"`
}

func listLevels(a *API, _ *request) (any, error) { return LevelList{a.Levels()}, nil }

// RowList is the answer to GET /v1/audit.
type RowList struct {
	Rows []audit.Row `json:"rows" doc:"Newest first"`
	Next string      `json:"next,omitempty" doc:"The parameter before of the next page; absent where there is none"`
}

// listRows is GET /v1/audit.
func listRows(a *API, req *request) (any, error) {
	f, err := filterOf(req, a.Clock.Now().UTC())
	if err != nil {
		return nil, err
	}
	if !req.narrow(&f) {
		return RowList{Rows: []audit.Row{}}, nil
	}
	rows, err := a.Rows.List(req.ctx(), f)
	if err != nil {
		return nil, err
	}
	list := RowList{}
	if len(rows) > 0 {
		list.Next = rows[len(rows)-1].ID
	}
	list.Rows = slices.DeleteFunc(rows, func(r audit.Row) bool { return !req.maySee(&r) })
	return list, nil
}

// maySee reports whether the key may have a row: a call's is of its own calls, a
// reader's of its team. An admin's key sees all.
func (req *request) maySee(r *audit.Row) bool {
	switch req.key.Role {
	case gateway.RoleAdmin:
		return true
	case gateway.RoleRead:
		return r.Team == req.key.Team
	}
	return r.Team == req.key.Team && r.Caller == req.caller().Name
}

// narrow holds a search to what the key may see, and reports whether anything is
// left of it. What is another's is not told from none.
func (req *request) narrow(f *audit.Filter) bool {
	own := req.caller()
	if req.key.Role == gateway.RoleAdmin {
		return true
	}
	if f.Team != "" && f.Team != own.Team {
		return false
	}
	f.Team = own.Team
	if req.key.Role == gateway.RoleRead {
		return true
	}
	if f.Caller != "" && f.Caller != own.Name {
		return false
	}
	f.Caller = own.Name
	return true
}

// moment is a time in an address: audit.ParseTime, of what now says.
type moment struct {
	now  time.Time
	into *time.Time
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (m moment) UnmarshalText(text []byte) (err error) {
	*m.into, err = audit.ParseTime(string(text), m.now)
	return err
}

// filterOf reads the parameters of a search. Times are read as of now; days are
// those of UTC.
func filterOf(req *request, now time.Time) (f audit.Filter, err error) {
	q := req.r.URL.Query()
	f = audit.Filter{Task: q.Get("task"), Tool: q.Get("tool"), Before: q.Get("before"), Host: strings.ToLower(q.Get("host")), Team: q.Get("team"),
		Caller: q.Get("caller")}
	if key := q.Get("key"); key != "" {
		if f.Caller != "" {
			return f, problem("request", "it is there beside key", "leave one of them out").at("?caller")
		}
		f.Caller = "key:" + strings.TrimPrefix(key, "key:")
	}
	if text := q.Get("open"); text != "" {
		if f.Open, err = strconv.ParseBool(text); err != nil {
			return f, problem("request", "not a yes or no: "+strconv.Quote(cut(text, 64)), "true, for calls that have not ended; or leave it out").at("?open")
		}
	}
	for _, p := range []struct {
		name string
		into encoding.TextUnmarshaler
	}{{"level", &f.Level}, {"outcome", &f.Outcome}, {"reason", &f.Reason}, {"since", moment{now, &f.Since}}, {"until", moment{now, &f.Until}}} {
		if text := q.Get(p.name); text != "" {
			if err := p.into.UnmarshalText([]byte(text)); err != nil {
				return f, parameterProblem(p.name, text, err)
			}
		}
	}
	if text := q.Get("limit"); text != "" {
		if f.Limit, err = strconv.Atoi(text); err != nil || f.Limit < 1 || f.Limit > audit.MaxLimit {
			return f, problem("request", "out of range", "1 to "+strconv.Itoa(audit.MaxLimit)).at("?limit")
		}
	}
	return f, nil
}

// parameterProblem says what a parameter should have been.
func parameterProblem(name, text string, err error) *Problem {
	var value *envelope.ValueError
	if errors.As(err, &value) && value.Kind == "time" {
		return problem("request", "not a time: "+strconv.Quote(cut(text, 64)), value.Hint+"; a plus sign is %2B in an address").at("?" + name)
	}
	p := problemOf(err)
	if p.Code == "internal" {
		p = problem("request", err.Error(), "")
	}
	return p.at("?" + name)
}

// readRow is GET /v1/audit/{id}. Another team's row is not told from none.
func readRow(a *API, req *request) (any, error) {
	id := req.r.PathValue("id")
	if len(id) != 36 {
		return nil, problem("request", "not the id of a call", "write all 36 characters").at("id")
	}
	row, err := a.Rows.Row(req.ctx(), id)
	if err != nil {
		return nil, err
	}
	if !req.maySee(&row) {
		return nil, audit.ErrNotFound
	}
	return row, nil
}

// KeyList is the answer to GET /v1/keys.
type KeyList struct {
	Keys []gateway.Key `json:"keys" doc:"Oldest first"`
}

func listKeys(a *API, req *request) (any, error) {
	keys, err := a.Gateway.Keys(req.ctx(), req.r.URL.Query().Get("team"))
	return KeyList{keys}, err
}

// NewKey is the body of POST /v1/keys.
type NewKey struct {
	Team     string       `json:"team" doc:"That pays"`
	Role     gateway.Role `json:"role,omitzero" doc:"What it is for; call where it is not said"`
	Profiles []string     `json:"profiles,omitempty" doc:"That its calls may name; * is every one; none: the default profile"`
	Label    string       `json:"label,omitempty" doc:"What people call it"`
}

// KeySecret is a key with its secret, which is shown once.
type KeySecret struct {
	Key    gateway.Key `json:"key" doc:"That was made, or has another secret"`
	Secret string      `json:"secret" doc:"To be sent as: Authorization: Bearer cck_...; it is in this answer and nowhere else"`
}

func createKey(a *API, req *request) (any, error) {
	in, err := decode[NewKey](req)
	if err != nil {
		return nil, err
	}
	if !in.Role.Valid() {
		in.Role = gateway.RoleCall
	}
	if len(in.Profiles) == 0 {
		in.Profiles = []string{a.DefaultProfile}
	}
	k, secret, err := a.Gateway.CreateKey(req.ctx(), gateway.Key{Team: in.Team, Role: in.Role, Profiles: in.Profiles, Label: in.Label})
	return KeySecret{k, secret}, err
}

// Rotation is the body of POST /v1/keys/{id}/rotate.
type Rotation struct {
	Overlap *envelope.Duration `json:"overlap,omitempty" doc:"How long the old secret is still good; 24h where it is not said"`
}

func rotateKey(a *API, req *request) (any, error) {
	in, err := decode[Rotation](req)
	if err != nil {
		return nil, err
	}
	overlap := gateway.DefaultOverlap
	if in.Overlap != nil {
		overlap = in.Overlap.Std()
	}
	k, secret, err := a.Gateway.RotateKey(req.ctx(), req.r.PathValue("id"), overlap)
	return KeySecret{k, secret}, err
}

func revokeKey(a *API, req *request) (any, error) {
	return a.Gateway.RevokeKey(req.ctx(), req.r.PathValue("id"))
}

// TeamList is the answer to GET /v1/teams.
type TeamList struct {
	Teams []gateway.Team `json:"teams" doc:"By name"`
}

func listTeams(a *API, req *request) (any, error) {
	teams, err := a.Gateway.Teams(req.ctx())
	return TeamList{teams}, err
}

// NewTeam is the body of POST /v1/teams.
type NewTeam struct {
	Name   string         `json:"name" doc:"a-z, 0-9, - and _"`
	Tier   string         `json:"tier,omitempty" doc:"A tier of the configuration; free where it is not said"`
	Tokens envelope.Count `json:"tokens,omitempty" doc:"A month, instead of the tier's"`
}

func createTeam(a *API, req *request) (any, error) {
	in, err := decode[NewTeam](req)
	if err != nil {
		return nil, err
	}
	return a.Gateway.CreateTeam(req.ctx(), gateway.Team{Name: in.Name, Tier: in.Tier, Tokens: int64(in.Tokens)})
}

// TeamSettings is the body of PATCH /v1/teams/{name}; what is absent stays.
type TeamSettings struct {
	Tier      *string         `json:"tier,omitempty" doc:"Another one of the configuration"`
	Tokens    *envelope.Count `json:"tokens,omitempty" doc:"A month; 0: the tier's"`
	Suspended *bool           `json:"suspended,omitempty" doc:"Whether its keys may call nothing"`
}

func setTeam(a *API, req *request) (any, error) {
	in, err := decode[TeamSettings](req)
	if err != nil {
		return nil, err
	}
	change := gateway.TeamChange{Tier: in.Tier, Suspended: in.Suspended}
	if in.Tokens != nil {
		n := int64(*in.Tokens)
		change.Tokens = &n
	}
	return a.Gateway.SetTeam(req.ctx(), req.r.PathValue("name"), change)
}

// UsageList is the answer to GET /v1/usage.
type UsageList struct {
	Usage []gateway.Usage `json:"usage" doc:"By month, team and key"`
}

// listUsage is GET /v1/usage: of one's own team, or, for an admin, of any.
func listUsage(a *API, req *request) (any, error) {
	params := req.r.URL.Query()
	q := gateway.UsageQuery{Team: params.Get("team")}
	if req.key.Role != gateway.RoleAdmin {
		q.Team = req.key.Team
	}
	for name, into := range map[string]*gateway.Month{"from": &q.From, "to": &q.To} {
		if text := params.Get(name); text != "" {
			if err := into.UnmarshalText([]byte(text)); err != nil {
				return nil, parameterProblem(name, text, err)
			}
		}
	}
	list, err := a.Gateway.Usage(req.ctx(), q)
	if list == nil {
		list = []gateway.Usage{}
	}
	return UsageList{list}, err
}
