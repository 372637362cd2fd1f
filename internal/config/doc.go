// Package config reads the files of operators and of the local user: the
// host's configuration, and envelopes and requests in files. It is the only
// place that knows YAML; the wire is JSON, and the launcher reads a format of
// its own (internal/launcher/conf).
//
// # YAML
//
// A file becomes JSON and goes through the strict decoder of package envelope,
// so that a file and a request can never mean different things. What YAML has
// beyond JSON is refused where it could surprise, and each error names file,
// line, column, field and the mend:
//
//   - one document of at most 1 MiB in UTF-8, 32 levels deep; no directives;
//   - no anchors, aliases, merge keys and tags; no key twice; no key that is
//     not text; no value left empty (null);
//   - a plain scalar is a boolean (true, false), a number as JSON writes it,
//     or a string. What some YAML reads as something else (yes, off, 0x1f,
//     017, 1_000, 1e3, .5, 12:30, 2026-01-01, ~) is refused: quotes make it a
//     string. A string field never takes a number, nor a size a bare number;
//   - no bidi controls and no line breaks but LF and CR LF, in comments too: a
//     file reads the same to an editor, to a reviewer and here.
//
// # The host's configuration
//
// [Load] reads /etc/callcell/callcell.yaml where the caller is root, and
// callcell/callcell.yaml below $XDG_CONFIG_HOME (~/.config) otherwise. A
// default place without a file means the defaults; a file that was named must
// be there. A file that anybody but root and the caller can write is refused.
// [Config.Print] shows every value that is in force and where it comes from.
package config
