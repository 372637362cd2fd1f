// Package redact masks values in what comes out of a call: exactly as they
// are, and in the encodings that programs write by habit.
//
//	New(values) -> Redactor --Writer--> a stream, cut anywhere
//	                        --Bytes---> a whole
//
// # What is found
//
// A value is found as itself, and as
//
//	base64     standard and URL alphabet, alone or inside of more, in each of
//	           the three alignments: the characters that the value alone
//	           decides. Up to one character at either end depends on the
//	           neighbour too, and stays
//	hex        in either case, or in both
//
// Line breaks inside of base64 and hex are looked past, one at a time: base64
// and xxd -p wrap. Each byte of any of these three may be spelt as
//
//	%XX                       as in URLs, and + for a space
//	\uXXXX \UXXXXXXXX         as in JSON, Go and Python; surrogate pairs too
//	\xXX \ooo                 as in Go, Python, C and shells: a byte, or the
//	                          character of that number
//	\n \t \r \a \b \f \v      and a backslash before what is neither letter
//	                          nor digit: \" \/ \\ \'
//	CR LF                     for LF, as a terminal makes of it
//
// in whatever mixture, so no encoder's choice of what it escapes matters.
//
// Not found is a value that was turned into anything else: compressed,
// encrypted, reversed, in another character set, escaped twice, cut in pieces,
// dumped in columns (hexdump, od). Who has the value and wants it out will get
// it out; redaction is against accident. What a cell must not leak it must not
// be given.
//
// # Laws
//
//   - No output has a value in it, in any form above.
//   - What has no value in it comes out byte for byte.
//   - Redacting twice is redacting once.
//   - The result does not depend on where the input is cut.
//   - What is held back is what may be the beginning of a value, or of an
//     escape (at most 11 bytes): nothing more.
//   - Time is linear in the input, memory in the values.
//
// Values that overlap become one mask, with the name of the first one (of
// those that begin together, the longest).
//
// # Ordinary text
//
// A short value would be masked where it is no secret at all, so New refuses
// one of less than [MinBytes]. [Ordinary] says of a longer one that it looks
// like a word or a number.
package redact
