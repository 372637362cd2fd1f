package page

import (
	"fmt"
	"log/slog"

	readability "codeberg.org/readeck/go-readability/v2"
	"golang.org/x/net/html"
)

// Text is what a document says.
type Text struct {
	Title string // one line of at most 300 bytes
	Body  string // lines of words, valid UTF-8
	Cut   bool   // there was more
}

// Read returns the readable text of an HTML document in UTF-8, at most most
// bytes of it: that of its article, or of all that can be seen of it where
// there is none. It always returns.
func Read(doc []byte, most int) Text { return read(build(doc), most) }

func read(t tree, most int) Text {
	seen, seenCut := render(t.body, most)
	text := Text{Title: t.title, Body: seen, Cut: t.cut || seenCut}
	if work(t.doc) > maxWork {
		return text
	}
	title, body, cut, err := article(t, max(most, minArticle))
	if err != nil {
		return text
	}
	if title = oneLine([]byte(title), maxTitle); title != "" {
		text.Title = title
	}
	if len(body) >= minArticle {
		text.Body, text.Cut = cutText([]byte(body), most), t.cut || cut || len(body) > most
	}
	return text
}

// article returns the text of the document's article; "" where it has none.
// It changes the tree.
func article(t tree, most int) (title, body string, cut bool, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("page: the search for the article panicked: %v", r)
		}
	}()
	p := readability.NewParser()
	p.DisableJSONLD = true
	p.Logger = slog.New(slog.DiscardHandler)
	a, err := p.ParseAndMutate(t.doc, nil)
	if err != nil {
		return "", "", false, fmt.Errorf("page: %w", err)
	}
	if a.Node != nil {
		body, cut = render(a.Node, most)
	}
	return a.Title(), body, cut, nil
}

// work estimates the steps that the search for the article takes: it looks at
// each text again for every element that the text is in.
func work(n *html.Node) int { return workBelow(n, 1) }

func workBelow(n *html.Node, depth int) (sum int) {
	for child := n.FirstChild; child != nil; child = child.NextSibling {
		if child.Type == html.TextNode {
			sum += depth * len(child.Data)
			continue
		}
		sum += depth*64 + workBelow(child, depth+1)
	}
	return sum
}
