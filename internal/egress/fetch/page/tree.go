package page

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// lineBreak stands in the tree for the line of an element that is left out.
const lineBreak = '\u2028'

// A tree is what was kept of a document.
type tree struct {
	doc   *html.Node
	body  *html.Node
	title string
	cut   bool // there was more than was looked at
}

// A builder makes a tree out of tokens. What it does for a token takes time in
// proportion to the token, and to maxDepth.
type builder struct {
	head, body *html.Node
	open       []*html.Node      // body first
	opened     map[atom.Atom]int // how many of each name are in open
	text       []byte            // that is not a node yet
	beyond     map[atom.Atom]int
	elements   int
	headings   int
	title      string

	skip   atom.Atom // the element whose content is left out, 0 for none
	nested int       // elements of that name within it
}

// build reads a document.
func build(doc []byte) tree {
	root := &html.Node{Type: html.DocumentNode}
	top := element(atom.Html)
	b := &builder{head: element(atom.Head), body: element(atom.Body), opened: map[atom.Atom]int{}, beyond: map[atom.Atom]int{}}
	root.AppendChild(top)
	top.AppendChild(b.head)
	top.AppendChild(b.body)
	b.open = []*html.Node{b.body}
	cut := b.read(doc)
	b.flush()
	if b.title != "" {
		t := element(atom.Title)
		t.AppendChild(&html.Node{Type: html.TextNode, Data: b.title})
		b.head.AppendChild(t)
	}
	return tree{doc: root, body: b.body, title: b.title, cut: cut}
}

func element(a atom.Atom) *html.Node {
	return &html.Node{Type: html.ElementNode, DataAtom: a, Data: a.String()}
}

// read takes every token. It reports whether it ended before the document did.
func (b *builder) read(doc []byte) (cut bool) {
	z := html.NewTokenizer(bytes.NewReader(doc))
	at, inRaw := 0, atom.Atom(0)
	for {
		// The attributes of a tag are kept all at once, so its length is
		// bounded. The length of a text is not.
		z.SetMaxBuf(0)
		if inRaw == 0 && tagAt(doc[at:]) {
			z.SetMaxBuf(maxTag)
		}
		kind := z.Next()
		if kind == html.ErrorToken {
			return at < len(doc)
		}
		at += len(z.Raw())
		before := inRaw
		inRaw = 0
		switch kind {
		case html.TextToken:
			b.takeText(z.Text(), before)
		case html.StartTagToken, html.SelfClosingTagToken:
			inRaw = b.start(z, kind == html.SelfClosingTagToken)
		case html.EndTagToken:
			name, _ := z.TagName()
			b.end(atom.Lookup(name))
		}
	}
}

// tagAt reports whether a tag may begin here.
func tagAt(doc []byte) bool {
	if len(doc) < 2 || doc[0] != '<' {
		return false
	}
	c := doc[1] | 0x20
	return c >= 'a' && c <= 'z' || doc[1] == '/'
}

// takeText takes a text, which is the content of an element within which
// there are no tags where in is not 0.
func (b *builder) takeText(text []byte, in atom.Atom) {
	switch {
	case b.skip != 0 || roleOf(in).is(raw):
	case in == atom.Title:
		if b.title == "" {
			b.title = oneLine(text, maxTitle)
		}
	default:
		b.text = append(b.text, text...)
	}
}

// start takes a start tag. It returns the name of an element within which
// there are no tags, 0 for others.
func (b *builder) start(z *html.Tokenizer, closed bool) (inRaw atom.Atom) {
	name, more := z.TagName()
	a := atom.Lookup(name)
	r := roleOf(a)
	switch {
	case r.is(raw), a == atom.Title, a == atom.Xmp, a == atom.Plaintext:
		return a
	case b.skip != 0:
		if a == b.skip && !closed {
			b.nested++
		}
	case r.is(skipped):
		if !closed {
			b.skip, b.nested = a, 0
		}
	default:
		b.imply(a, r)
		b.insert(a, r, z, more)
	}
	return 0
}

// insert puts an element at the end of the one that is open.
func (b *builder) insert(a atom.Atom, r role, z *html.Tokenizer, more bool) {
	if r.is(rowish) && b.opened[atom.Table] == 0 {
		r &^= kept
	}
	full := b.elements >= maxElements || len(b.open) >= maxDepth
	if !r.is(kept) || full {
		if r.is(block) || a == atom.Br {
			b.text = utf8.AppendRune(b.text, lineBreak)
		}
		if r.is(kept) && !r.is(void) {
			b.beyond[a]++
		}
		return
	}
	if a == atom.H1 || a == atom.H2 {
		if b.headings++; b.headings > maxHeadings {
			a = atom.H3
		}
	}
	n := element(a)
	for more {
		var key, val []byte
		key, val, more = z.TagAttr()
		if keptAttribute(string(key)) && !has(n, string(key)) {
			n.Attr = append(n.Attr, html.Attribute{Key: string(key), Val: cutText(val, maxAttr)})
		}
	}
	b.elements++
	b.place(n, r)
}

func (b *builder) place(n *html.Node, r role) {
	if n.DataAtom == atom.Meta {
		b.head.AppendChild(n)
		return
	}
	b.flush()
	b.top().AppendChild(n)
	if !r.is(void) {
		b.open = append(b.open, n)
		b.opened[n.DataAtom]++
	}
}

func has(n *html.Node, key string) bool {
	for _, attr := range n.Attr {
		if attr.Key == key {
			return true
		}
	}
	return false
}

func (b *builder) top() *html.Node { return b.open[len(b.open)-1] }

// flush makes the text since the last element a node.
func (b *builder) flush() {
	if len(b.text) == 0 {
		return
	}
	text := strings.ToValidUTF8(string(b.text), "\uFFFD")
	b.text = b.text[:0]
	b.top().AppendChild(&html.Node{Type: html.TextNode, Data: text})
}

// pop closes the open elements from the i-th on.
func (b *builder) pop(i int) {
	b.flush()
	for _, n := range b.open[i:] {
		b.opened[n.DataAtom]--
	}
	b.open = b.open[:i]
	if len(b.beyond) > 0 {
		clear(b.beyond)
	}
}
