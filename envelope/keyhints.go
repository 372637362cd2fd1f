package envelope

import (
	"reflect"
	"strings"
)

// hint says what to write instead of an unknown key: what the type itself
// knows about it, else the key it is a slip of, else all there are.
func (s *structFields) hint(key string) string {
	if text := keyHint(s.t, key); text != "" {
		return text
	}
	if text := didYouMean(key, s.names); text != "" {
		return text
	}
	return "the keys are " + strings.Join(s.names, ", ")
}

// keyHint answers keys that people write because they stand elsewhere, or
// are called so by others.
func keyHint(t reflect.Type, key string) string {
	const profileOnly = "this is the profile's alone: a request cannot name it"
	switch t {
	case reflect.TypeFor[Request](), reflect.TypeFor[NetworkRequest]():
		switch key {
		case "version", "privilege", "task", "coResidency", "private", "fetch":
			return profileOnly
		}
	case reflect.TypeFor[Call]():
		switch key {
		case "command", "cmd", "args":
			return "write argv, a list of strings; for shell text, script with lang sh"
		case "code", "lang", "language":
			return "write script: {lang, code}"
		case "files":
			return "write inputs for files that go in, outputs for names that come out"
		case "timeout", "timeout_ms", "cwd", "level", "trust", "network", "resources":
			return "permission goes into request, and only where it narrows the profile"
		}
	case reflect.TypeFor[Resources](), reflect.TypeFor[ResourcesRequest]():
		if strings.HasPrefix(key, "time") {
			return "write wall for time on the clock, cpuTime for time on a CPU"
		}
	case reflect.TypeFor[Mount]():
		if key == "readOnly" || key == "readonly" || key == "mode" {
			return "every mount is read-only"
		}
	}
	return ""
}
