// Package render makes what came out of a cell fit to be seen: by a person at
// a terminal, by a model, in a log line, in a table. Everything in it is pure
// but for the random mark of [Fence].
//
// What a program wrote is data of an untrusted program. Shown as it is, it can
// repaint the terminal, forge a line of ours, turn text around, or carry words
// that only a model reads. So [Text] lets pass what a reader sees as it is and
// shows everything else as a visible escape:
//
//	bytes that are not UTF-8                 \xNN
//	control characters but \n and \t         their picture: ESC is U+241B, CR is U+240D
//	C1 controls, line and paragraph
//	  separators, bidi controls, zero-width
//	  and other format characters, tags,
//	  variation selectors, fillers, private
//	  use, what Unicode has not assigned     \u{NNNN}
//	a combining mark without a base, or the
//	  ninth and later ones on one base       \u{NNNN}
//
// Nothing is interpreted and nothing is dropped: an escape sequence is the
// picture of ESC and then its letters. Three invisible characters pass where a
// script or an emoji needs them, at most one in a place: an emoji's variation
// selector right behind its base, a zero-width joiner between two emoji, a
// zero-width (non-)joiner between two letters of a script that is written with
// it (Persian, the scripts of India).
//
// # Laws
//
//   - The result is valid UTF-8; its only control characters are \n and \t.
//   - Printable ASCII, \n and \t are left as they are. So Text is not
//     injective (a program may write the six letters of an escape itself; who
//     must know has the bytes), but it is idempotent: neutralising twice
//     changes nothing.
//   - The result is never shorter than the input and at most [MaxGrowth]
//     times as long. With a cap it is at most the cap and a notice.
//   - [Name] is injective: two file names never look the same because of an
//     escape.
//   - The mark of a [Fence] does not occur in what it encloses.
//
// What this does not do: it does not tell letters apart that look alike, and
// right-to-left scripts are still laid out right to left.
package render
