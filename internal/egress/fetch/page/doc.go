// Package page makes readable text of an HTML document that a stranger wrote.
//
//	bytes -> tokens -> a small tree -> the article, or all that is visible -> text
//
// The tree is built here and not by html.Parse, which repairs a document as
// browsers do and can be made to build far more than it is given, or to copy
// one text again and again. This one is bounded before any of it is looked at:
//
//   - tags of more than 64 KiB end the document;
//   - at most 40,000 elements, and 96 of them within each other: the tags of
//     further ones are left out, their text is not;
//   - only elements and attributes that tell what is text, and attributes cut
//     at 256 bytes; no script, no style, no frame, nothing is loaded;
//   - the article is looked for only where that takes a bounded number of
//     steps, by codeberg.org/readeck/go-readability. A panic of it is an
//     answer: there is no article.
//
// So the time and the memory that a document takes grow with its size alone.
// The size is for the caller to bound.
package page

// The bounds of a document.
const (
	maxTag      = 64 << 10 // bytes of one tag with its attributes
	maxElements = 40_000   // of the tree
	maxDepth    = 96       // elements within each other
	maxHeadings = 200      // h1 and h2: the title is compared with each
	maxAttr     = 256      // bytes of one attribute
	maxTitle    = 300      // bytes
	maxWork     = 32 << 20 // see work
	minArticle  = 250      // bytes of text below which it is no article
)
