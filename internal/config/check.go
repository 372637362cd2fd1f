package config

import (
	"errors"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/placement"
)

// A check is one thing that must hold of a configuration.
type check struct {
	name string
	doc  string
	run  func(*Config) error // nil, or an error of package envelope with the field
}

// checks are the checks in the order in which they are made.
func checks() []check {
	return []check{
		{"state", "state is an absolute path", checkState},
		{"helpers", "helpers is an absolute path", checkHelpers},
		{"profile-names", "a profile's name is made of a-z, 0-9 and -", checkProfileNames},
		{"profiles", "every profile is a valid envelope", checkProfiles},
		{"default-profile", "defaultProfile names a profile", checkDefaultProfile},
		{"floors-levels", "a floor is a level at which code runs", checkFloorLevels},
		{"floors-order", "code that is trusted less has no lower floor", checkFloorOrder},
		{"audit-arguments", "audit.arguments is kept, digested or dropped", checkArguments},
		{"audit-key", "audit.key is an absolute path, or empty", checkKeyFile},
		{"audit-times", "every number of audit is within its range", checkAuditTimes},
		{"audit-anchors", "audit.anchors are at most 8 places, each a file outside of state, a syslog or an https address", checkAnchors},
		{"egress-resolvers", "egress.resolvers are at most 8 addresses, with a port or without", checkResolvers},
		{"egress-roots", "egress.roots is an absolute path, or empty", checkRoots},
		{"egress-deny", "egress.deny are at most 1024 address ranges in canonical form", checkDeny},
		{"egress-limits", "every number of egress.limits and egress.fetch is within its range", checkEgressLimits},
		{"images", "images.tree is 1Mi to 1Ti, images.bytes no less, images.entries 1 to 10 million", checkImages},
		{"workspaces", "workspaces.bytes is 1Mi to 64Ti, workspaces.blobs 1 to 100 million, workspaces.versions 1 to 100000", checkWorkspaces},
		{"gateway-tiers", "every number of a tier is within its range", checkTiers},
		{"gateway", "gateway.atOnce, wait and maxTokens are within their ranges", checkGateway},
		{"serve", "serve.listen is an address and a port, and its lists are names, origins and ranges", checkServe},
		{"serve-limits", "every number of serve is within its range", checkServeLimits},
		{"daemon", "daemon.address is the address of a daemon, https or of this host's own loopback, and daemon.key the source of a key; or both are empty", checkDaemon},
		{"telemetry", "telemetry.endpoint is an https address or empty, its headers come from sources, and its numbers are within their ranges", checkTelemetry},
		{"webhooks", "webhooks are at most 8 https addresses, each with a source of its secret and events that there are", checkWebhooks},
		{"health", "every number of health is within its range", checkHealth},
	}
}

// CheckDoc is the documentation of one check.
type CheckDoc struct {
	Name string
	Doc  string
}

// Checks returns the documentation of every check, in order.
func Checks() []CheckDoc {
	var docs []CheckDoc
	for _, c := range checks() {
		docs = append(docs, CheckDoc{c.name, c.doc})
	}
	return docs
}

// Validate holds the configuration against every check, in order, and returns
// the first fault as a *Error.
func (c *Config) Validate() error {
	for _, check := range checks() {
		if err := check.run(c); err != nil {
			return c.locate(err)
		}
	}
	return nil
}

func (c *Config) locate(err error) error {
	doc := c.doc
	if doc == nil {
		doc = &Document{file: "callcell", root: emptyNode()}
	}
	return doc.Locate(err, "")
}

func bad(field, msg, hint string) error {
	return &envelope.FieldError{Reason: envelope.ReasonRequest, Field: field, Msg: msg, Hint: hint}
}

func checkState(c *Config) error { return checkDir("state", c.State) }

func checkHelpers(c *Config) error { return checkDir("helpers", c.Helpers) }

func checkDir(field, path string) error {
	switch {
	case path == "":
		return bad(field, "no directory is known", "name one: "+field+": /path")
	case strings.ContainsRune(path, 0):
		return bad(field, "not a path", "leave the NUL out")
	case !filepath.IsAbs(path) || filepath.Clean(path) != path:
		return bad(field, "not an absolute path in its shortest form", "write it from / on, without . and ..")
	case path == "/":
		return bad(field, "the root of the file system", "name a directory of its own")
	}
	return nil
}

// profileName is a name that can stand in an address, a file name and a key.
// It is compiled when it is needed: most commands never are.
var profileName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}$`) })

func checkProfileNames(c *Config) error {
	for _, name := range sortedKeys(c.Profiles) {
		if !profileName().MatchString(name) {
			return bad("profiles"+segment(name, false), "not a name for a profile", "use a-z, 0-9 and -, at most 64 of them")
		}
	}
	return nil
}

func checkProfiles(c *Config) error {
	for _, name := range sortedKeys(c.Profiles) {
		e := c.Profiles[name]
		err := e.Validate()
		var fault *envelope.FieldError
		if errors.As(err, &fault) {
			within := *fault
			within.Field = join("profiles"+segment(name, false), fault.Field)
			return &within
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func checkDefaultProfile(c *Config) error {
	if _, ok := c.Profiles[c.DefaultProfile]; !ok {
		return bad("defaultProfile", "there is no such profile", "name one of: "+strings.Join(sortedKeys(c.Profiles), ", "))
	}
	return nil
}

// trusts are the members of Trust, most trusted first.
func trusts() []envelope.Trust {
	return []envelope.Trust{envelope.TrustReviewed, envelope.TrustModel, envelope.TrustThirdParty, envelope.TrustHostile}
}

func checkFloorLevels(c *Config) error {
	for _, trust := range trusts() {
		if level := c.Floors[trust]; level < envelope.LevelLanguage || !level.Valid() {
			return bad("floors."+trust.String(), level.String()+" is not a level at which code runs", "write language, container, userkernel or microvm")
		}
	}
	return nil
}

func checkFloorOrder(c *Config) error {
	order := trusts()
	for i, trust := range order[1:] {
		if more := order[i]; c.Floors[trust] < c.Floors[more] {
			return bad("floors."+trust.String(), "lower than floors."+more.String()+" ("+c.Floors[more].String()+"), whose code is trusted more",
				"raise it, or lower the other")
		}
	}
	return nil
}

// Warnings names every choice of the operator that widens the surface or
// thins the record, with its field and place.
func (c *Config) Warnings() []string {
	var out []string
	defaults := placement.DefaultFloors()
	for _, trust := range trusts() {
		if level, usual := c.Floors[trust], defaults[trust]; level < usual {
			out = append(out, c.warning("floors."+trust.String(), level.String()+" is weaker than the default, "+usual.String()))
		}
	}
	out = append(out, c.auditWarnings()...)
	for _, name := range sortedKeys(c.Profiles) {
		e := c.Profiles[name]
		for _, text := range e.Warnings() {
			out = append(out, c.warning("profiles."+name, text))
		}
	}
	return append(append(out, c.serveWarnings()...), c.observeWarnings()...)
}

func (c *Config) warning(field, text string) string {
	w := Error{File: c.File(), Field: field, Msg: text}
	if c.doc != nil {
		w.Pos, _ = c.doc.Position(field)
	}
	return w.Error()
}
