package envelope

import (
	"slices"
	"strconv"
	"strings"
)

// PortOrDefault returns the port of a header use: 443 where none is given.
func (u CredentialUse) PortOrDefault() int {
	if u.Port == 0 {
		return 443
	}
	return u.Port
}

// FormatOrDefault returns the format of a header use: the value alone where
// none is given.
func (u CredentialUse) FormatOrDefault() string {
	if u.Format == "" {
		return "{}"
	}
	return u.Format
}

func checkHeaderUses(e *Envelope) *FieldError {
	return eachCredential(e, func(field string, c Credential) *FieldError {
		if c.Use.Header == "" {
			return nil
		}
		field += ".use"
		for _, run := range []func(string, CredentialUse) *FieldError{
			checkUseHeader, checkUseFormat, checkUseHost, checkUseMethods, checkUsePath,
		} {
			if err := run(field, c.Use); err != nil {
				return err
			}
		}
		return nil
	})
}

func checkUseHeader(field string, u CredentialUse) *FieldError {
	field += ".header"
	if !nameText(u.Header, 64, "-_") {
		return fault(field, quote(u.Header)+" is not a header's name", "write Authorization, X-Api-Key or the like")
	}
	for _, name := range framingHeaders() {
		if strings.EqualFold(name, u.Header) {
			return fault(field, u.Header+" frames or routes the request", "write a header that the host reads as a credential")
		}
	}
	return nil
}

// framingHeaders are those that say where a request goes, or where it ends.
func framingHeaders() []string {
	return []string{"Host", "Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive", "Proxy-Connection",
		"TE", "Trailer", "Upgrade", "Expect", "Content-Type", "Content-Encoding", "Accept-Encoding"}
}

func checkUseFormat(field string, u CredentialUse) *FieldError {
	field += ".format"
	format := u.FormatOrDefault()
	if strings.Count(format, "{}") != 1 {
		return fault(field, "does not have {} once", "write {} where the secret goes: Bearer {}")
	}
	if len(format) > 256 || strings.ContainsFunc(format, func(r rune) bool { return r < ' ' || r > '~' }) {
		return fault(field, "is not one line of ASCII", "write printable ASCII, at most 256 bytes")
	}
	return nil
}

func checkUseHost(field string, u CredentialUse) *FieldError {
	switch {
	case u.Host == "":
		return fault(field+".host", "is missing", "name the one host that gets the credential")
	case strings.HasPrefix(u.Host, "*."):
		return fault(field+".host", quote(u.Host)+" is a wildcard", "name one host exactly: any name below could be another's")
	case u.Port < 0 || u.Port > 65535:
		return fault(field+".port", strconv.Itoa(u.Port)+" is not a port", "leave it out for 443")
	case u.Port == 80:
		return fault(field+".port", "80 is plain http, over which no credential goes", "leave it out for 443")
	}
	return checkHost(field+".host", u.Host)
}

func checkUseMethods(field string, u CredentialUse) *FieldError {
	field += ".methods"
	known := []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
	if len(u.Methods) == 0 {
		return fault(field, "is empty: an empty list means nothing", "list the methods: [GET]")
	}
	for i, method := range u.Methods {
		if !slices.Contains(known, method) {
			return fault(at(field, i), quote(method)+" is not a method that carries a credential", "write some of: "+strings.Join(known, ", "))
		}
		if slices.Index(u.Methods, method) < i {
			return fault(at(field, i), method+" comes twice", "list it once")
		}
	}
	return nil
}

// checkUsePath reports whether the path is a prefix of request paths that can
// be compared byte by byte.
func checkUsePath(field string, u CredentialUse) *FieldError {
	field += ".path"
	switch {
	case u.Path == "":
		return fault(field, "is missing", "write the prefix of paths that get the credential, or / for all of them")
	case u.Path[0] != '/':
		return fault(field, quote(u.Path)+" does not begin with /", "write the path as the server sees it, from its first slash")
	case len(u.Path) > 1024 || strings.ContainsFunc(u.Path, func(r rune) bool { return r <= ' ' || r > '~' }) || strings.ContainsAny(u.Path, "%?#\\*"):
		return fault(field, quote(u.Path)+" is not a plain path", "write printable ASCII without %, ?, #, * and backslash, at most 1024 bytes")
	}
	for part := range strings.SplitSeq(strings.TrimSuffix(u.Path[1:], "/"), "/") {
		if part == "." || part == ".." || part == "" && u.Path != "/" {
			return fault(field, quote(u.Path)+" has a component that servers drop", "write it without //, . and ..")
		}
	}
	return nil
}

func checkHeaderConflicts(e *Envelope) *FieldError {
	names := sorted(e.Credentials)
	for i, name := range names {
		for _, other := range names[:i] {
			if a, b := e.Credentials[name].Use, e.Credentials[other].Use; a.Header != "" && useOverlaps(a, b) {
				return fault(entryField("credentials", name)+".use", "could go into the same header as "+other, "make their paths or methods differ")
			}
		}
	}
	return nil
}

// useOverlaps reports whether one request could carry both in one header.
func useOverlaps(a, b CredentialUse) bool {
	return strings.EqualFold(a.Header, b.Header) && a.Host == b.Host && a.PortOrDefault() == b.PortOrDefault() &&
		(strings.HasPrefix(a.Path, b.Path) || strings.HasPrefix(b.Path, a.Path)) &&
		slices.ContainsFunc(a.Methods, func(m string) bool { return slices.Contains(b.Methods, m) })
}
