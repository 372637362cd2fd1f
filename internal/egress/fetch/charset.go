package fetch

import (
	"bytes"
	"fmt"
	"mime"
	"regexp"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/runes"
	"golang.org/x/text/transform"
)

// headLen is how many bytes of a body are looked at for its type and charset.
const headLen = 1020

// A decoding makes UTF-8 of a text.
type decoding struct {
	name    string // of the charset
	decoder transform.Transformer
	mark    int // bytes of the byte order mark, which is left out
}

// charsetOf tells the charset of a text as browsers do: by the byte order
// mark, by what the server declares, by what the text declares, and else it is
// UTF-8 if its head can be, and windows-1252 if it cannot.
func charsetOf(kind, declared string, head []byte) (decoding, error) {
	e, name, certain := charset.DetermineEncoding(probe(head), declared)
	if !certain {
		switch {
		case strings.HasSuffix(kind, "json"):
			name = "utf-8"
		case kind != "text/html":
			e, name = charset.Lookup(declaredInText(kind, head))
		}
	}
	if name == "replacement" {
		_, params, _ := mime.ParseMediaType(declared)
		return decoding{}, fmt.Errorf("its charset is not decoded: %s", quoted(params["charset"]))
	}
	d := decoding{name: name}
	if name == "utf-8" {
		d.decoder = runes.ReplaceIllFormed()
	} else {
		d.decoder = e.NewDecoder()
	}
	switch {
	case name == "utf-8" && bytes.HasPrefix(head, []byte("\xEF\xBB\xBF")):
		d.mark = 3
	case name == "utf-16be" && bytes.HasPrefix(head, []byte("\xFE\xFF")), name == "utf-16le" && bytes.HasPrefix(head, []byte("\xFF\xFE")):
		d.mark = 2
	}
	return d, nil
}

// probe returns a head with one more character in UTF-8, so that a head in
// ASCII, which says nothing, is taken for UTF-8.
func probe(head []byte) []byte {
	head = whole(head[:min(len(head), headLen)])
	return append(head[:len(head):len(head)], "é "...)
}

// whole leaves out a character of UTF-8 that is cut through at the end.
func whole(head []byte) []byte {
	for i := len(head) - 1; i >= 0 && i >= len(head)-utf8.UTFMax; i-- {
		if utf8.RuneStart(head[i]) {
			if !utf8.FullRune(head[i:]) {
				return head[:i]
			}
			break
		}
	}
	return head
}

var xmlEncoding = regexp.MustCompile(`^<\?xml[^>]*\sencoding\s*=\s*["']([A-Za-z0-9._:-]{1,40})["']`)

// declaredInText returns the charset of a text that is no page.
func declaredInText(kind string, head []byte) string {
	if strings.HasSuffix(kind, "xml") {
		if m := xmlEncoding.FindSubmatch(head); m != nil {
			// What is read here is no UTF-16, whatever it says.
			if e, name := charset.Lookup(string(m[1])); e != nil && !strings.HasPrefix(name, "utf-16") {
				return name
			}
		}
	}
	if utf8.Valid(whole(head)) {
		return "utf-8"
	}
	return "windows-1252"
}
