package envelope

import (
	"slices"
	"strings"
)

// CheckDoc is the documentation of one named check or warning.
type CheckDoc struct {
	Of   string // "envelope" or "call"
	Name string // short, stable
	Says string // one sentence
}

// A check is one rule for values of type T. The first fault ends it.
type check[T any] struct {
	name string
	says string
	run  func(*T) *FieldError
}

// Validate holds the envelope against every check of Checks, in their order,
// and returns the first fault as a *FieldError. It says what is well-formed
// and within bounds; what a host or a level cannot give is refused by those
// who enforce it.
func (e *Envelope) Validate() error { return asError(runChecks(envelopeChecks(), e)) }

// Validate holds the call against every check of Checks, in their order, and
// returns the first fault as a *FieldError. It judges the call alone: what
// an envelope says about it is for Narrow and Admits.
func (c *Call) Validate() error { return asError(runChecks(callChecks(), c)) }

// Checks returns the documentation of every check, in the order in which they
// are made.
func Checks() []CheckDoc {
	return append(docsOf("envelope", envelopeChecks()), docsOf("call", callChecks())...)
}

func runChecks[T any](checks []check[T], value *T) *FieldError {
	for _, c := range checks {
		if err := c.run(value); err != nil {
			return err
		}
	}
	return nil
}

func docsOf[T any](of string, checks []check[T]) []CheckDoc {
	docs := make([]CheckDoc, 0, len(checks))
	for _, c := range checks {
		docs = append(docs, CheckDoc{Of: of, Name: c.name, Says: c.says})
	}
	return docs
}

func envelopeChecks() []check[Envelope] {
	return []check[Envelope]{
		{"version", "version is 1", checkVersion},
		{"level", "level is auto, language, container, userkernel or microvm", checkLevel},
		{"trust", "trust is reviewed, model, thirdparty or hostile", checkTrust},
		{"image", "image is host, oci:REF or build:NAME", checkImage},
		{"environment", "environment lists at most 64 different names that a call may set", checkEnvironment},
		{"bounds", "every ceiling is a number within its bounds; none is unlimited", checkBounds},
		{"output", "resources.output.keep is no more than resources.output.total", checkOutput},
		{"mount-names", "files.mounts has at most 64 entries, each with a plain name", checkMountNames},
		{"mount-source", "a mount's source is an absolute clean path, and neither / nor a place of devices, kernel files or sockets", checkMountSources},
		{"mount-target", "a mount's target is an absolute clean path that hides nothing the cell is made of", checkMountTargets},
		{"mount-why", "a mount says why, in one line", checkMountWhys},
		{"mount-nesting", "no mount's target lies in another's", checkMountNesting},
		{"allow-host", "network.allow names at most 128 hosts, each by its exact name, as *.NAME, or by its address in canonical form", checkAllowHosts},
		{"allow-metadata", "no entry is an address of a cloud's metadata service", checkAllowMetadata},
		{"allow-ports", "an entry of network.allow lists 1 to 32 different ports, from 1 to 65535", checkAllowPorts},
		{"allow-totals", "network.allow lists at most 32 different ports and 64 addresses", checkAllowTotals},
		{"allow-protocol", "an entry's protocol is tls, http, postgres or tcp, and may be left out on ports 80 and 443 alone", checkAllowProtocols},
		{"allow-inspect", "inspect stands only where an entry speaks tls", checkAllowInspect},
		{"allow-conflict", "no host and port comes twice, and entries that cover one host and port say the same about it", checkAllowConflicts},
		{"private-cidr", "network.private has at most 64 address ranges in canonical form, no wider than /8 (IPv6: /16), none overlapping another", checkPrivateRanges},
		{"private-why", "a private range says why, in one line", checkPrivateWhys},
		{"private-metadata", "no private range holds an address of a cloud's metadata service", checkPrivateMetadata},
		{"fetch", "network.fetch is empty or public", checkFetch},
		{"user", "privilege.user is nobody", checkUser},
		{"credential-names", "credentials has at most 32 entries, each with a plain name", checkCredentialNames},
		{"credential-source", "a credential's source is file:PATH, command:LINE, env:NAME, vault:PATH or oauth2:NAME", checkCredentialSources},
		{"credential-scopes", "a credential's scopes are different OAuth2 scope tokens, at most 64", checkCredentialScopes},
		{"credential-ttl", "a credential's ttl is left out or from 1s to 24h", checkCredentialTTLs},
		{"credential-use", "a credential is used in exactly one way: header, file or env", checkCredentialUses},
		{"credential-header", "use in a header names the header, one exact host, methods and a path, and never plain http", checkHeaderUses},
		{"credential-env", "use in a variable names one that no call may set and no other credential sets", checkEnvUses},
		{"credential-conflict", "no two credentials could go into one header of one request", checkHeaderConflicts},
		{"co-residency", "coResidency is shared, team or none", checkCoResidency},
	}
}

func checkVersion(e *Envelope) *FieldError {
	if e.Version == Version {
		return nil
	}
	return fault("version", "is not 1", "write version: 1, the only one there is")
}

func checkLevel(e *Envelope) *FieldError {
	switch {
	case !e.Level.Valid():
		return fault("level", "is missing", "write one of: auto, "+wordList(Levels()))
	case e.Level == LevelNone:
		return fault("level", "none runs nothing: it is what a fetch is recorded with", "write one of: auto, "+wordList(Levels()))
	}
	return nil
}

func checkTrust(e *Envelope) *FieldError {
	if e.Trust.Valid() {
		return nil
	}
	return fault("trust", "is missing", "write one of: "+strings.Join(trusts().list(), ", "))
}

func checkImage(e *Envelope) *FieldError {
	scheme, rest, _ := strings.Cut(e.Image, ":")
	good := false
	switch scheme {
	case "host":
		good = e.Image == ImageHost
	case "oci":
		good = nameText(rest, 255, "._-/:@") && !strings.Contains(rest, "..") && !strings.Contains(rest, "//")
	case "build":
		good = nameText(rest, 64, "._-")
	}
	if good {
		return nil
	}
	return fault("image", quote(e.Image)+" is not an image", "write host, oci:REF (oci:python:3.13-slim) or build:NAME")
}

func checkEnvironment(e *Envelope) *FieldError {
	if len(e.Environment) > 64 {
		return fault("environment", "lists more than 64 names", "list fewer")
	}
	for i, name := range e.Environment {
		field := at("environment", i)
		if err := checkVariable(field, name); err != nil {
			return err
		}
		if slices.Index(e.Environment, name) < i {
			return fault(field, name+" comes twice", "list it once")
		}
	}
	return nil
}

func checkUser(e *Envelope) *FieldError {
	if e.Privilege.User == UserNobody {
		return nil
	}
	return fault("privilege.user", quote(e.Privilege.User)+" is not to be had",
		"write nobody: a user of the call's own, without capabilities")
}

func checkCoResidency(e *Envelope) *FieldError {
	words := coResidencies()
	if slices.Contains(words, e.CoResidency) {
		return nil
	}
	return fault("coResidency", quote(e.CoResidency)+" is not one of its words", "write one of: "+strings.Join(words, ", "))
}

// coResidencies are the words of CoResidency, widest first.
func coResidencies() []string {
	return []string{CoResidencyShared, CoResidencyTeam, CoResidencyNone}
}

func wordList[T interface{ String() string }](values []T) string {
	words := make([]string, 0, len(values))
	for _, v := range values {
		words = append(words, v.String())
	}
	return strings.Join(words, ", ")
}
