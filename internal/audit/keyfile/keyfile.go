// Package keyfile keeps the private key of an audit log in a file of its own,
// which nobody but its owner can read:
//
//	callcell-audit-key-v1 BASE64-OF-32-BYTES
//
// It is made at first use. Several processes may do that at once: the key that
// is there first is everybody's.
package keyfile

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/callcell/callcell/internal/audit"
)

// The sentinels of this package.
var (
	// ErrInsecure means that others can read or write the file, or that it is
	// not a plain one. It is a *Error.
	ErrInsecure = errors.New("key file not safe to use")
	// ErrForm means that the file has no key in it. It is a *Error.
	ErrForm = errors.New("not a key of an audit log")
)

// Error says what is wrong with a key file, and the mend.
type Error struct {
	Path string
	Hint string
	Err  error
}

// Error names the file and the fault.
func (e *Error) Error() string { return e.Path + ": " + e.Err.Error() }

// Unwrap returns the fault.
func (e *Error) Unwrap() error { return e.Err }

const word = "callcell-audit-key-v1 "

// maxFile is more than a key file has, in bytes.
const maxFile = 256

// Load returns the key in the file at path, and makes one where there is none;
// its directory must be there. Errors are a *Error that wraps ErrInsecure or
// ErrForm, or wrap audit.ErrUnwritable.
func Load(path string) (*audit.Key, error) {
	key, err := read(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if err := create(path); err != nil {
		return nil, fmt.Errorf("%w: make the signing key: %w", audit.ErrUnwritable, err)
	}
	return read(path)
}

func read(path string) (*audit.Key, error) {
	f, err := open(path)
	if err != nil {
		return nil, &Error{Path: path, Err: err}
	}
	defer f.Close()
	if err := check(path, f); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return nil, &Error{Path: path, Err: err}
	}
	defer clear(text)
	coded, ok := bytes.CutPrefix(text, []byte(word))
	coded, end := bytes.CutSuffix(coded, []byte("\n"))
	var seed [32]byte
	defer clear(seed[:])
	raw := make([]byte, base64.StdEncoding.DecodedLen(len(coded)))
	defer clear(raw)
	if n, err := base64.StdEncoding.Strict().Decode(raw, coded); !ok || !end || err != nil || n != len(seed) {
		// The cause is not wrapped: it could quote the secret.
		return nil, &Error{Path: path, Err: ErrForm, Hint: "move it away to have a new one made; what the old one signed needs its public key"}
	}
	copy(seed[:], raw)
	return audit.NewKey(seed), nil
}

func check(path string, f *os.File) error {
	info, err := f.Stat()
	switch {
	case err != nil:
		return &Error{Path: path, Err: err}
	case !info.Mode().IsRegular():
		return &Error{Path: path, Err: fmt.Errorf("%w: not a regular file", ErrInsecure), Hint: "name the file itself"}
	case info.Mode().Perm()&0o077 != 0:
		return &Error{Path: path, Err: fmt.Errorf("%w: open to others", ErrInsecure), Hint: "chmod 600 " + path}
	case !ours(info):
		return &Error{Path: path, Err: fmt.Errorf("%w: it belongs to another user", ErrInsecure), Hint: "run as that user"}
	}
	return nil
}

// create makes a key durable, and then gives it its name: nobody sees half of
// one. Where another process was first, that one's key stays.
func create(path string) (err error) {
	var id [8]byte
	rand.Read(id[:])
	dir := filepath.Dir(path)
	temporary := filepath.Join(dir, "."+filepath.Base(path)+"."+hex.EncodeToString(id[:]))
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(temporary)) }()
	var seed [32]byte
	rand.Read(seed[:])
	text := append(base64.StdEncoding.AppendEncode([]byte(word), seed[:]), '\n')
	_, err = f.Write(text)
	clear(seed[:])
	clear(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(temporary, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
