package envelope

import (
	"slices"
	"strings"
	"time"
)

// eachCredential calls run for each credential in the order of their names.
func eachCredential(e *Envelope, run func(field string, c Credential) *FieldError) *FieldError {
	for _, name := range sorted(e.Credentials) {
		if err := run(entryField("credentials", name), e.Credentials[name]); err != nil {
			return err
		}
	}
	return nil
}

func checkCredentialNames(e *Envelope) *FieldError {
	if len(e.Credentials) > 32 {
		return fault("credentials", "has more than 32 entries", "split the profile")
	}
	for _, name := range sorted(e.Credentials) {
		if err := checkEntry("credentials", name); err != nil {
			return err
		}
	}
	return nil
}

func checkCredentialSources(e *Envelope) *FieldError {
	const hint = "write file:PATH, command:LINE, env:NAME, vault:PATH or oauth2:NAME"
	return eachCredential(e, func(field string, c Credential) *FieldError {
		field += ".source"
		scheme, rest, found := strings.Cut(c.Source, ":")
		if !found || !slices.Contains([]string{"file", "command", "env", "vault", "oauth2"}, scheme) {
			// The text is not shown: a secret may stand where its source belongs.
			return fault(field, "is not a source", hint)
		}
		switch {
		case strings.TrimSpace(rest) == "":
			return fault(field, "names nothing after "+scheme+":", hint)
		case len(rest) > 4096 || strings.ContainsFunc(rest, func(r rune) bool { return unfit(r) != "" }):
			return fault(field, "is too long or not one line of printable text", hint)
		case scheme == "file":
			return checkAbsolute(field, rest)
		case scheme == "env" && !variableName(rest):
			return fault(field, "does not name a variable", hint)
		}
		return nil
	})
}

func checkCredentialScopes(e *Envelope) *FieldError {
	return eachCredential(e, func(field string, c Credential) *FieldError {
		field += ".scopes"
		if len(c.Scopes) > 64 {
			return fault(field, "lists more than 64 scopes", "list fewer")
		}
		for i, scope := range c.Scopes {
			if !scopeToken(scope) {
				return fault(at(field, i), quote(scope)+" is not a scope", "write printable ASCII without spaces, quotes and backslashes, at most 256 bytes")
			}
			if slices.Index(c.Scopes, scope) < i {
				return fault(at(field, i), quote(scope)+" comes twice", "list it once")
			}
		}
		return nil
	})
}

// scopeToken reports whether text is a scope-token of RFC 6749.
func scopeToken(text string) bool {
	return text != "" && len(text) <= 256 && !strings.ContainsFunc(text, func(r rune) bool {
		return r <= ' ' || r > '~' || r == '"' || r == '\\'
	})
}

func checkCredentialTTLs(e *Envelope) *FieldError {
	return eachCredential(e, func(field string, c Credential) *FieldError {
		if c.TTL == 0 || c.TTL >= Duration(time.Second) && c.TTL <= Duration(24*time.Hour) {
			return nil
		}
		return fault(field+".ttl", c.TTL.String()+" is not within 1s to 24h", "leave it out for as long as the call")
	})
}

func checkCredentialUses(e *Envelope) *FieldError {
	return eachCredential(e, func(field string, c Credential) *FieldError {
		field += ".use"
		u, ways := c.Use, 0
		for _, way := range []bool{u.Header != "", u.File, u.Env != ""} {
			if way {
				ways++
			}
		}
		if ways != 1 {
			return fault(field, "is not exactly one way", "write one of header, file: true and env")
		}
		if u.Header == "" && (u.Format != "" || u.Host != "" || u.Port != 0 || len(u.Methods) > 0 || u.Path != "") {
			return fault(field, "says where a header goes, and uses none", "leave format, host, port, methods and path out, or write header")
		}
		return nil
	})
}

func checkEnvUses(e *Envelope) *FieldError {
	users := map[string]string{}
	return eachCredential(e, func(field string, c Credential) *FieldError {
		field += ".use.env"
		name := c.Use.Env
		if name == "" {
			return nil
		}
		if err := checkVariable(field, name); err != nil {
			return err
		}
		if slices.Contains(e.Environment, name) {
			return fault(field, name+" is in environment, where a call could set it", "take it out of environment")
		}
		if other, taken := users[name]; taken {
			return fault(field, name+" is set by "+other+" too", "give each credential a variable of its own")
		}
		users[name] = field
		return nil
	})
}
