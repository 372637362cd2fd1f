package inject

import (
	"errors"
	"net/http"
	"slices"
	"strings"
)

// onHost ends the reasons of refusals.
const onHost = ", which is refused on a host with a credential"

// errGone is the error of a request for which the credential is gone.
var errGone = errors.New("the credential is not available")

// Request makes a request ready that is to be sent, and returns how many
// headers were added; 0 is a request that no credential is for. r has the
// method, the target and the headers as they will be sent, and goes to the
// Edge's host and port over verified TLS: that is the caller's to see to. An
// error says, in one line without a word of the request, why it must not be
// sent.
func (e *Edge) Request(r *http.Request) (added int, err error) {
	path, _, _ := strings.Cut(r.URL.RequestURI(), "?")
	if why := Path(path); why != "" {
		return 0, errors.New(why + onHost)
	}
	switch {
	case r.URL.Opaque != "":
		return 0, errors.New("the target is not a path" + onHost)
	case strings.EqualFold(r.Method, http.MethodConnect), strings.EqualFold(r.Method, http.MethodTrace):
		return 0, errors.New("the method is CONNECT or TRACE" + onHost)
	case r.Header["Upgrade"] != nil:
		return 0, errors.New("another protocol is asked for" + onHost)
	}
	e.scrub(r)
	return e.give(r, path)
}

// scrub takes out what the program must not say here.
func (e *Edge) scrub(r *http.Request) {
	for name := range r.Header {
		if folded := fold(name); e.own[folded] || overrides(folded) || partial(folded) || folded == "accept-encoding" {
			delete(r.Header, name)
		}
	}
	r.Header["Accept-Encoding"] = []string{"identity"}
	r.Trailer = nil
}

// overrides reports whether some servers take a header's word for what the
// request line says.
func overrides(folded string) bool {
	switch folded {
	case "x-http-method", "x-http-method-override", "x-method-override", "x-host", "forwarded":
		return true
	}
	return slices.ContainsFunc([]string{"x-forwarded", "x-original-", "x-rewrite-"}, func(prefix string) bool { return strings.HasPrefix(folded, prefix) })
}

// partial reports whether a header asks for a part of a document.
func partial(folded string) bool {
	return slices.Contains([]string{"range", "if-range", "request-range", "x-ms-range", "a-im"}, folded)
}

// give adds what is for a method and a path: of each header the one with the
// longest path.
func (e *Edge) give(r *http.Request, path string) (added int, err error) {
	done := map[string]bool{}
	for i := range e.uses {
		u := &e.uses[i]
		if done[fold(u.header)] || !strings.HasPrefix(path, u.path) || !slices.Contains(u.methods, r.Method) {
			continue
		}
		done[fold(u.header)] = true
		if !u.secret.Reveal(func(value []byte) { r.Header[u.header] = []string{u.before + string(value) + u.after} }) {
			return 0, errGone
		}
		u.tally.used.Add(1)
		added++
	}
	return added, nil
}
