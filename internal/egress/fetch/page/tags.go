package page

import "golang.org/x/net/html/atom"

// A role is what the builder does with an element. Roles are bits.
type role uint16

const (
	kept    role = 1 << iota // is a node of the tree; others are transparent
	void                     // has no content and no end tag
	block                    // begins a line of its own
	endsP                    // ends an open paragraph
	skipped                  // is left out with all its content
	raw                      // its content is text up to its end tag, and left out
	cell                     // what is open outside it stays so
	rowish                   // is a part of a table
	special                  // an open list item before it stays open
)

// roleOf returns what is done with an element.
func roleOf(a atom.Atom) role {
	switch a {
	case atom.Div, atom.P, atom.Address:
		return kept | block | endsP
	case atom.Section, atom.Article, atom.Aside, atom.Header, atom.Footer, atom.Main, atom.Nav, atom.Blockquote,
		atom.Figure, atom.Figcaption, atom.Details, atom.Summary, atom.Dialog, atom.Fieldset, atom.Form, atom.Pre,
		atom.Ul, atom.Ol, atom.Dl, atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		return kept | block | endsP | special
	case atom.Li, atom.Dt, atom.Dd:
		return kept | block | endsP | special
	case atom.Center, atom.Hgroup, atom.Menu, atom.Dir, atom.Search, atom.Listing, atom.Legend, atom.Optgroup:
		return block | endsP
	case atom.Table:
		return kept | block | endsP | special | cell
	case atom.Tr, atom.Thead, atom.Tbody, atom.Tfoot:
		return kept | block | special | rowish
	case atom.Td, atom.Th, atom.Caption:
		return kept | special | cell | rowish
	case atom.Hr:
		return kept | void | block | endsP
	case atom.Br, atom.Img, atom.Input, atom.Col, atom.Meta:
		return kept | void
	case atom.A, atom.Span, atom.Time, atom.Button, atom.Label, atom.Picture:
		return kept
	}
	return roleOfOther(a)
}

func roleOfOther(a atom.Atom) role {
	switch a {
	case atom.Script, atom.Style, atom.Noscript, atom.Iframe, atom.Noembed, atom.Noframes, atom.Textarea:
		return raw
	case atom.Svg, atom.Template, atom.Select, atom.Datalist, atom.Video, atom.Audio, atom.Canvas, atom.Map:
		return skipped
	}
	return 0
}

func (r role) is(of role) bool { return r&of != 0 }

func heading(a atom.Atom) bool {
	switch a {
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		return true
	}
	return false
}

// keptAttribute reports whether an attribute can tell what is text.
func keptAttribute(key string) bool {
	switch key {
	case "class", "id", "style", "role", "hidden", "aria-hidden", "aria-modal", "href", "src", "rel", "itemprop",
		"name", "property", "content", "summary", "datatable", "colspan", "rowspan":
		return true
	}
	return false
}
