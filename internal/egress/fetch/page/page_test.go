package page

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html"
	"pgregory.net/rapid"
)

const all = 1 << 30

// maxNodes is what a tree can have: a text may be before and in each element.
const maxNodes = 3*maxElements + 10

func prose(n int) string {
	return strings.Repeat("<p>Words that make an article, one after the other, to the end of it.</p>", n)
}

func TestVisibleText(t *testing.T) {
	for doc, want := range map[string]string{
		"":                                       "",
		"plain":                                  "plain",
		"a  b\n\tc":                              "a b c",
		"a<b>b</b>c <i>d</i>":                    "abc d",
		"<p>one<p>two":                           "one\n\ntwo",
		"<div>one</div><div>two</div>x":          "one\ntwo\nx",
		"a<br>b<br><br><br>c":                    "a\nb\n\nc",
		"<ul><li>a<li>b<ul><li>c</ul></ul>d":     "- a\n- b\n\n- c\n\nd",
		"<pre>a\n  b</pre>c":                     "a\n  b\n\nc",
		"<table><tr><td>a<td>b<tr><td>c</table>": "a\tb\nc",
		"<td>a<td>b":                             "ab",
		"a<script>x</script>b<style>y</style>c<noscript>z</noscript>d": "abcd",
		"<script>no end": "",
		"<svg><title>t</title><text>x</text></svg>a<svg/>b":                              "ab",
		"<template>a<template>b</template>c</template>d":                                 "d",
		"<select><option>a</select>b<textarea>c</textarea>":                              "b",
		"<p hidden>a</p><p aria-hidden=true>b<p style='color:red; DISPLAY : none'>c<p>d": "d",
		"<title> The  title </title>a":                                                   "a",
		"&lt;p&gt; &amp;amp; &#0; &#x110000; &nosuch;":                                   "<p> &amp; \uFFFD \uFFFD &nosuch;",
		"<!-- a --><!doctype html><?php b ?>c":                                           "c",
		"</p></div></html>a</table>":                                                     "a",
		"<a href=x>a<a href=y>b</a>c":                                                    "abc",
		"<h1>a<h2>b":                                                                     "a\n\nb",
		"<p>a<table><tr><td><p>b</table>c":                                               "a\n\nb\n\nc",
		"<dl><dt>a<dd>b<dt>c</dl>":                                                       "a\nb\nc",
		"a\xffb":                                                                         "a\uFFFDb",
		"<plaintext><b>a":                                                                "<b>a",
		"<xmp><b></xmp>a":                                                                "<b>a",
	} {
		if got := Read([]byte(doc), all); got.Body != want || got.Cut {
			t.Errorf("%q is %q, cut %v; want %q", doc, got.Body, got.Cut, want)
		}
	}
}

func TestArticleIsTakenOutOfItsPage(t *testing.T) {
	doc := "<title>The story - The site</title><div class=sidebar><ul><li><a href=/>menu</a></ul></div><div id=content><h1>The story</h1>" +
		prose(10) + "<ul><li>point</ul></div><div class=footer>imprint</div>"
	got := Read([]byte(doc), all)
	if strings.Contains(got.Body, "menu") || strings.Contains(got.Body, "imprint") || strings.Count(got.Body, "Words that make") != 10 || !strings.HasPrefix(got.Title, "The story") {
		t.Errorf("%+v", got)
	}
	if got := Read([]byte("<meta property='og:title' content='From  meta'><title>t</title>"+prose(10)), all); got.Title != "From meta" {
		t.Errorf("title %q", got.Title)
	}
}

func TestTextIsCutBetweenCharacters(t *testing.T) {
	for most, want := range map[int]string{0: "", 1: "a", 2: "a", 3: "aü", 4: "aü", 5: "aü\nb", 6: "aü\nb"} {
		got := Read([]byte("aü<br>b"), most)
		if got.Body != want || got.Cut != (most < 5) {
			t.Errorf("at most %d: %q, cut %v; want %q", most, got.Body, got.Cut, want)
		}
	}
	if got := Read([]byte(prose(10)), 13); got.Body != "Words that ma" || !got.Cut {
		t.Errorf("%+v", got)
	}
}

func TestTitleIsOneShortLine(t *testing.T) {
	got := Read([]byte("<title>a\r\n\u202eb\x00\u200b "+strings.Repeat("ü", 1000)+"</title>"), all)
	if !strings.HasPrefix(got.Title, "a b\uFFFD ü") || len(got.Title) > maxTitle || len(got.Title) < maxTitle-2 || !utf8.ValidString(got.Title) {
		t.Errorf("%d bytes: %q", len(got.Title), got.Title)
	}
}

// bombs are documents that ask for more than they are.
func bombs() map[string]string {
	const n = 1 << 16
	fill := func(piece string) string { return strings.Repeat(piece, n/len(piece)) }
	var formats strings.Builder
	for i := range n / 20 {
		fmt.Fprintf(&formats, "<font size=%d>", i)
	}
	return map[string]string{
		"nested":          strings.Repeat("<div>", 1_000_000) + "deep",
		"nested text":     strings.Repeat("<div>", 80) + prose(2_000),
		"attributes":      "<p " + fill("a ") + ">",
		"many attributes": fill("<p " + strings.Repeat("a ", 32_000) + ">x"),
		"formats":         formats.String() + fill("<p>x"),
		"tables":          fill("<table><tr><td>"),
		"loose ends":      fill("x</div>"),
		"stray cells":     fill("x<td>"),
		"entities":        fill("&CounterClockwiseContourIntegral;"),
		"headings":        "<title>" + fill("a b ")[:4000] + "</title>" + fill("<h2>a b c d e</h2>"),
		"shares":          strings.Repeat("<div class=share>", 80) + fill("<p class=share>w, </p>"),
		"bylines":         strings.Repeat("<div rel=author>", 80) + fill("<p rel=author>some words"),
		"breaks":          fill("<br>x"),
		"links":           fill("<a href=x>w</a> "),
		"comments":        fill("<!--x-->"),
		"scripts":         fill("<script><!--<script>"),
		"signs":           fill("<"),
		"zeros":           fill("\x00"),
		"mixed":           fill("<h2> <div id=content> </ul> <h2> word, word. "),
	}
}

func TestBombsAreReadWithinTheirBounds(t *testing.T) {
	for name, doc := range bombs() {
		t.Run(name, func(t *testing.T) {
			tr := build([]byte(doc))
			if n, depth := size(tr.doc); n > maxNodes || depth > maxDepth+4 {
				t.Errorf("%d nodes, %d within each other", n, depth)
			}
			got := read(tr, 100_000)
			if len(got.Body) > 100_000 || name == "nested" && (got.Body != "deep" || got.Cut) {
				t.Errorf("%d bytes", len(got.Body))
			}
		})
	}
	if got := Read([]byte("a<p "+strings.Repeat("a ", 100_000)+">b"), all); got.Body != "a" || !got.Cut {
		t.Errorf("a long tag: %+v", got)
	}
	lines := strings.Repeat("<p>x</p>", maxElements+10)
	if got := Read([]byte(lines), all); strings.Count(got.Body, "x") != maxElements+10 || strings.Contains(got.Body, "xx") {
		t.Error("the elements beyond the bound have no lines of their own")
	}
}

// size counts the nodes below n, and how many are within each other.
func size(n *html.Node) (nodes, depth int) {
	for child := n.FirstChild; child != nil; child = child.NextSibling {
		below, deep := size(child)
		nodes += below + 1
		depth = max(depth, deep+1)
	}
	return nodes, depth
}

func TestPanicOfTheSearchIsNoArticle(t *testing.T) {
	tr := build([]byte("<p>x"))
	tr.doc = nil
	if _, _, _, err := article(tr, all); err == nil || !strings.Contains(err.Error(), "panicked") {
		t.Errorf("%v", err)
	}
}

// TestWellFormedPagesReadAsABrowserWouldParseThem compares with html.Parse.
func TestWellFormedPagesReadAsABrowserWouldParseThem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		b.WriteString("<!doctype html>")
		writeFlow(t, &b, 0)
		doc, err := html.Parse(strings.NewReader(b.String()))
		if err != nil {
			t.Fatal(err)
		}
		want, _ := render(doc, all)
		if got, _ := render(build([]byte(b.String())).doc, all); got != want {
			t.Fatalf("%s\nis   %q\nwant %q", b.String(), got, want)
		}
	})
}

func writeFlow(t *rapid.T, b *strings.Builder, depth int) {
	for range rapid.IntRange(0, 4).Draw(t, "n") {
		within := func(open, end string, write func(*rapid.T, *strings.Builder, int)) {
			b.WriteString(open)
			if depth < 5 {
				write(t, b, depth+1)
			}
			b.WriteString(end)
		}
		end := func(text string) string { // may be left out
			if rapid.Bool().Draw(t, "end") {
				return text
			}
			return ""
		}
		switch rapid.IntRange(0, 9).Draw(t, "kind") {
		case 0:
			within("<div class=a>", "</div>", writeFlow)
		case 1:
			within("<p>", end("</p>"), writePhrase)
		case 2:
			within("<ul><li>", end("</li>")+"<li>x</ul>", writeFlow)
		case 3:
			within("<table><tr><td>", end("</td>")+"<td>y"+end("</td></tr>")+"<tr><td>z</table>", writeFlow)
		case 4:
			within("<h2>", "</h2>", writePhrase)
		case 5:
			within("<dl><dt>", end("</dt>")+"<dd>x</dl>", writeFlow)
		case 6:
			within("<section><pre>", "</pre></section>", writePhrase)
		default:
			writePhrase(t, b, depth)
		}
	}
}

func writePhrase(t *rapid.T, b *strings.Builder, _ int) {
	words := []string{"word ", "<b>bold</b>", "<span>s</span> ", "<i>a<b>b</b></i>", "<br>", "&amp;", "<img src=x>", "<em>é </em>"}
	for range rapid.IntRange(0, 3).Draw(t, "words") {
		b.WriteString(rapid.SampledFrom(words).Draw(t, "word"))
	}
}

func FuzzRead(f *testing.F) {
	seeds := 0
	for _, doc := range bombs() {
		f.Add([]byte(doc[:min(len(doc), 2000)]), 1000)
		seeds++
	}
	for _, doc := range []string{prose(10), "<title>a</title><p>b", "<meta property=og:title content=x>" + prose(5), "<noscript><img src=x></noscript><img>", "<table><tr><td>a", "<li>\xff", "<a b='>'>", "</", "<!", "<p/ a=\"", "<svg><svg></svg>"} {
		f.Add([]byte(doc), 50)
		seeds++
	}
	if seeds < 20 {
		f.Fatal("no seeds")
	}
	f.Fuzz(func(t *testing.T, doc []byte, most int) {
		most = min(max(most, 0), 1<<20)
		tr := build(doc)
		if n, depth := size(tr.doc); n > maxNodes || depth > maxDepth+4 {
			t.Errorf("%d nodes, %d within each other", n, depth)
		}
		if tr.cut && !bytes.Contains(doc, []byte("<")) {
			t.Error("cut without a tag")
		}
		got := read(tr, most)
		if len(got.Body) > most || !utf8.ValidString(got.Body) {
			t.Errorf("%d bytes of %d: %q", len(got.Body), most, got.Body)
		}
		if len(got.Title) > maxTitle || !utf8.ValidString(got.Title) || strings.ContainsFunc(got.Title, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("title %q", got.Title)
		}
	})
}
