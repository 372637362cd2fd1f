package envelope

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The limits of a file's name.
const (
	MaxName      = 4096 // bytes of the whole name
	MaxComponent = 255  // bytes between two slashes
	MaxNameDepth = 64   // components
)

// CheckName reports whether name may name a file of a call, as an input or as
// an output. It is relative and separated by slashes; no component is empty,
// "." or ".."; it is UTF-8 without control characters (NUL among them), line
// separators, characters that cannot be seen or that turn the direction of
// text, and without a backslash, which is a separator where a client may
// write the file. Within those bounds letters of every script, spaces and
// emoji of one character are names.
//
// A name that passes is its own path.Clean, and joined to a directory it
// stays below that directory. It says nothing about links: whoever opens it
// follows none. Two names that look the same may differ (there is no Unicode
// normalisation).
//
// The error is a *FieldError with the field "name".
func CheckName(name string) error { return asError(checkName("name", name)) }

func checkName(field, name string) *FieldError {
	switch {
	case name == "":
		return fault(field, "is empty", "name a file, relative to the working directory")
	case len(name) > MaxName:
		return fault(field, "has "+strconv.Itoa(len(name))+" bytes, at most "+strconv.Itoa(MaxName), "use a shorter name")
	case !utf8.ValidString(name):
		return fault(field, quote(name)+" is not UTF-8", "rename the file")
	case strings.HasPrefix(name, "/"):
		return fault(field, quote(name)+" is absolute", "write it relative to the working directory")
	case strings.Contains(name, "\\"):
		return fault(field, quote(name)+" has a backslash", "separate with /")
	}
	for _, r := range name {
		if what := unfit(r); what != "" {
			return fault(field, quote(name)+" has "+what, "rename the file")
		}
	}
	return checkComponents(field, name)
}

func checkComponents(field, name string) *FieldError {
	parts := strings.Split(name, "/")
	if len(parts) > MaxNameDepth {
		return fault(field, "is "+strconv.Itoa(len(parts))+" levels deep, at most "+strconv.Itoa(MaxNameDepth), "use fewer directories")
	}
	for i, part := range parts {
		switch {
		case part == "" && i == len(parts)-1:
			return fault(field, quote(name)+" ends with a slash", "name a file, not a directory")
		case part == "":
			return fault(field, quote(name)+" has an empty component", "write single slashes")
		case part == "." || part == "..":
			return fault(field, quote(name)+" has the component "+part, "write the name without . and ..: nothing outside the working directory can be named")
		case len(part) > MaxComponent:
			return fault(field, quote(part)+" has "+strconv.Itoa(len(part))+" bytes, at most "+strconv.Itoa(MaxComponent), "use a shorter name")
		}
	}
	return nil
}

// unfit says why r may not stand in a name, or "".
func unfit(r rune) string {
	switch {
	case r == 0:
		return "a NUL"
	case unicode.IsControl(r):
		return "a control character"
	case unicode.In(r, unicode.Zl, unicode.Zp):
		return "a line separator"
	case unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector):
		return "a character that cannot be seen or that turns text around"
	}
	return ""
}

// checkText reports whether text is one line that can be shown as it is, of
// at most most bytes.
func checkText(field, text string, most int) *FieldError {
	if len(text) > most {
		return fault(field, "has "+strconv.Itoa(len(text))+" bytes, at most "+strconv.Itoa(most), "write less")
	}
	if !utf8.ValidString(text) {
		return fault(field, quote(text)+" is not UTF-8", "write one line of printable text")
	}
	for _, r := range text {
		if what := unfit(r); what != "" {
			return fault(field, quote(text)+" has "+what, "write one line of printable text")
		}
		if !unicode.IsPrint(r) {
			return fault(field, quote(text)+" has a character that cannot be printed", "write one line of printable text")
		}
	}
	return nil
}

// nameText reports whether text is an ASCII letter or digit and after it
// letters, digits and characters of extra, at most most bytes in all.
func nameText(text string, most int, extra string) bool {
	if text == "" || len(text) > most {
		return false
	}
	for i := range len(text) {
		c := text[i]
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !alnum && (i == 0 || strings.IndexByte(extra, c) < 0) {
			return false
		}
	}
	return true
}

// checkEntry reports whether name may name an entry of mounts or credentials.
func checkEntry(field, name string) *FieldError {
	if nameText(name, 64, "_-") {
		return nil
	}
	return fault(field, "the entry name "+quote(name)+" is not a name", "use letters, digits, _ and -, at most 64 of them")
}
