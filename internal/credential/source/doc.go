// Package source gets secrets from where an operator keeps them.
//
//	file:PATH              a file that nobody else can read or write
//	command:WORDS          what a program writes to its standard output
//	env:NAME               a variable of this process
//	vault:PATH, PATH#FIELD a secret of Vault or OpenBao, by its HTTP API
//	oauth2:NAME            a token of a configured OAuth2 client, by the client
//	                       credentials grant (RFC 6749, section 4.4)
//
// A [Set] holds what the sources need to know of the host. Open reads the
// words; the [Source] that it returns is asked with Fetch, for each call anew:
// nothing is kept. A [Grant] says how long the source lets a secret live, and
// how it is revoked where that can be done.
//
// # Files
//
// The rules of package guarded hold for the file and its directories, and
// others must not be able to read it (a group may). At most
// [secret.MaxBytes]. One line end is cut off.
//
// # Commands
//
// The words are split at spaces; quotes and backslashes keep words together as
// in a shell, and nothing is expanded. The first one is an absolute path, to a
// program that nobody else can write. It runs without a shell, in /, with
// PATH, HOME, LANG, and of the call CALLCELL_CALL (its id) and CALLCELL_SCOPES
// (with spaces between them) as its environment, with nothing on its standard
// input, in a process group of its own that is killed when the program ends,
// or has not ended in time. What it writes to standard error is thrown away:
// there may be secrets in it. One line end is cut off what it writes.
//
// # Vault
//
// PATH is what `vault read` takes, or `vault kv get` with the mount in front:
// the server is asked which engine is mounted where, and the path is read as
// that engine wants it. A server that will not tell is taken to have a version
// 2 KV engine at the first word of PATH. FIELD may be left out where a secret
// has one field. Fields of one path in one call come from one answer, so that
// a user's name and password fit each other. A lease is revoked; the values of
// a KV engine cannot be. The tests have a real OpenBao 2.
//
// # OAuth2
//
// The scopes asked for are those of the credential. A token with fewer scopes
// or others is refused and, where that can be done, revoked: what the envelope
// says is what a call gets. Revocation is RFC 7009, where an address for it is
// configured. The tests have a real oidc-provider 9.
//
// # The network
//
// HTTPS alone, verified against this host's roots and those configured; no
// proxy of the environment, no redirect, no answer over 1 MiB, and never
// longer than the context lasts. What came by HTTP was in buffers that nobody
// can overwrite: see package secret.
//
// # Errors
//
// Every error is a [*Fault]. Its text is made of this package's words alone: no
// path, no address, nothing that a program wrote or a server answered.
package source
