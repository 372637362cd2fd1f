// Package dial connects to a host and port that were judged already.
//
// It resolves the name, judges every address that it has, and dials addresses
// that passed, and no other:
//
//	Dial(ctx, judge, target)
//	  resolve    a literal as it is; a name of this host's own table; else the
//	             configured resolvers, as a complete name: no search domains
//	  judge      every address; none left is a *Denied
//	  race       one address after the other, with a short stagger; the first
//	             that answers is taken
//	    control  before each connect: the very address, judged once more
//
// The package opens no file, reads no environment and knows no proxy: it runs
// where there is no file to open, and must not depend on what a library would
// look for.
package dial
