package page

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// render returns the text below a node, in lines as they would be seen, at
// most most bytes of it.
func render(n *html.Node, most int) (text string, cut bool) {
	w := &writer{most: most}
	w.node(n, false)
	return strings.TrimRight(string(w.out), "\n\t "), w.cut
}

// A writer writes words and the space between them.
type writer struct {
	out   []byte
	most  int
	cut   bool
	lines int  // line breaks that are due
	space rune // that is due, 0 for none
}

func (w *writer) node(n *html.Node, pre bool) {
	switch {
	case w.cut:
		return
	case n.Type == html.TextNode && pre:
		w.pre(n.Data)
		return
	case n.Type == html.TextNode:
		w.words(n.Data)
		return
	case n.Type == html.ElementNode && (hidden(n) || n.DataAtom == atom.Button || n.DataAtom == atom.Head):
		return
	}
	after := w.begin(n)
	for child := n.FirstChild; child != nil; child = child.NextSibling {
		w.node(child, pre || n.Data == "pre")
	}
	w.line(after)
}

// begin writes what comes before an element. It returns the line breaks that
// come after it at least.
func (w *writer) begin(n *html.Node) (after int) {
	if n.Type != html.ElementNode {
		return 0
	}
	// The article's search renames elements by Data alone.
	a := atom.Lookup([]byte(n.Data))
	switch {
	case a == atom.Br:
		w.lines = min(w.lines+1, 2)
		w.space = 0
	case a == atom.Td || a == atom.Th:
		w.space = '\t'
	case a == atom.Li:
		w.line(1)
		w.word("-")
		w.space = ' '
		return 1
	case a == atom.P, a == atom.Pre, a == atom.Blockquote, a == atom.Table, a == atom.Ul, a == atom.Ol, a == atom.Dl, a == atom.Hr, heading(a):
		w.line(2)
		return 2
	case roleOf(a).is(block):
		w.line(1)
		return 1
	}
	return 0
}

// line asks for n line breaks at least before what comes next.
func (w *writer) line(n int) {
	if n > 0 {
		w.lines, w.space = max(w.lines, n), 0
	}
}

func (w *writer) words(text string) {
	start := -1
	for i, r := range text {
		if !unicode.IsSpace(r) {
			if start < 0 {
				start = i
			}
			continue
		}
		if start >= 0 {
			w.word(text[start:i])
			start = -1
		}
		if r == lineBreak {
			w.line(1)
		} else if w.space == 0 {
			w.space = ' '
		}
	}
	if start >= 0 {
		w.word(text[start:])
	}
}

// pre writes a text with its spaces and line breaks.
func (w *writer) pre(text string) {
	if text != "" {
		w.word(strings.ReplaceAll(text, string(lineBreak), "\n"))
	}
}

// word writes what is due and then a word.
func (w *writer) word(word string) {
	switch {
	case len(w.out) == 0:
	case w.lines > 0:
		w.put("\n\n"[:min(w.lines, 2)])
	case w.space != 0:
		w.put(string(w.space))
	}
	w.lines, w.space = 0, 0
	w.put(word)
}

func (w *writer) put(text string) {
	if len(w.out)+len(text) > w.most {
		text, w.cut = cutText([]byte(text), w.most-len(w.out)), true
	}
	w.out = append(w.out, text...)
}

// hidden reports whether an element is not to be seen.
func hidden(n *html.Node) bool {
	for _, attr := range n.Attr {
		switch attr.Key {
		case "hidden":
			return true
		case "aria-hidden":
			return attr.Val == "true"
		case "style":
			style := strings.ToLower(strings.ReplaceAll(attr.Val, " ", ""))
			if strings.Contains(style, "display:none") || strings.Contains(style, "visibility:hidden") {
				return true
			}
		}
	}
	return false
}

// oneLine returns the words of a text on one line, without what is not
// printed, at most most bytes.
func oneLine(text []byte, most int) string {
	clean := strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, cutText(text, 8*most))
	return cutText([]byte(strings.Join(strings.Fields(clean), " ")), most)
}

// cutText returns at most most bytes of a text, valid UTF-8 and cut between
// characters.
func cutText(text []byte, most int) string {
	if len(text) > most {
		end := max(most, 0)
		for end > 0 && end > most-utf8.UTFMax && !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end]
	}
	return strings.ToValidUTF8(string(text), "")
}
