package image

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Index is the records of one state directory. Its methods may be called
// concurrently, by several processes too.
type Index struct{ dir string }

// NewIndex returns the index in dir, which is made at need.
func NewIndex(dir string) *Index { return &Index{dir} }

// Get returns the record of an image; an *Error of KindAbsent where there is
// none.
func (x *Index) Get(name string) (*Record, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	r, err := x.read(x.file(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &Error{Kind: KindAbsent, Name: name, Msg: "it is not here", Hint: hintFor(name)}
	case err != nil:
		return nil, &Error{Kind: KindStore, Name: name, Msg: "its record cannot be read", Err: err}
	case r.Name != name:
		return nil, &Error{Kind: KindStore, Name: name, Msg: fmt.Sprintf("its record is of %q", r.Name)}
	}
	return r, nil
}

func hintFor(name string) string {
	scheme, rest, _ := strings.Cut(name, ":")
	switch scheme {
	case "oci":
		return "callcell image pull " + name
	case "build":
		return "callcell image build " + rest + " --pip PACKAGE"
	}
	return "callcell image host"
}

// List returns all records, by name. Files that are none are returned as an
// error beside the others.
func (x *Index) List() ([]*Record, error) {
	entries, err := os.ReadDir(filepath.Join(x.dir, "names"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, &Error{Kind: KindStore, Msg: "the records cannot be listed", Err: err}
	}
	var list []*Record
	var faults []error
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".json") {
			continue
		}
		r, err := x.read(filepath.Join(x.dir, "names", e.Name()))
		if err != nil {
			faults = append(faults, &Error{Kind: KindStore, Msg: "record " + e.Name(), Err: err})
			continue
		}
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b *Record) int { return strings.Compare(a.Name, b.Name) })
	return list, errors.Join(faults...)
}

func (x *Index) read(file string) (*Record, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxRecord+1))
	if err != nil {
		return nil, err
	}
	return decodeRecord(text)
}

func decodeRecord(text []byte) (*Record, error) {
	if len(text) > maxRecord {
		return nil, fmt.Errorf("it has more than %d bytes", maxRecord)
	}
	r := &Record{}
	if err := strictly(text, r); err != nil {
		return nil, err
	}
	return r, r.check()
}

// Put writes a record in place of the one of that name. It is durable when Put
// returns, or the one before is as it was.
func (x *Index) Put(r *Record) error {
	if err := r.check(); err != nil {
		return &Error{Kind: KindStore, Name: r.Name, Msg: "it cannot be recorded", Err: err}
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err == nil && len(text) >= maxRecord {
		err = fmt.Errorf("it has more than %d bytes", maxRecord)
	}
	if err == nil {
		err = replace(x.file(r.Name), append(text, '\n'))
	}
	if err != nil {
		return &Error{Kind: KindStore, Name: r.Name, Msg: "it cannot be recorded", Err: err}
	}
	return nil
}

// Remove removes a record; its trees stay until they are collected. It is an
// *Error of KindInUse where another image is built on it.
func (x *Index) Remove(ctx context.Context, name string) error {
	unlock, err := x.lock(ctx, true)
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := x.Get(name); err != nil {
		return err
	}
	all, err := x.List()
	if err != nil {
		return err
	}
	for _, r := range all {
		if r.Recipe != nil && r.Recipe.Base == name && r.Name != name {
			return &Error{Kind: KindInUse, Name: name, Msg: r.Name + " is built on it", Hint: "callcell image rm " + r.Name + " first"}
		}
	}
	if err := os.Remove(x.file(name)); err != nil {
		return &Error{Kind: KindStore, Name: name, Msg: "its record cannot be removed", Err: err}
	}
	return syncDir(filepath.Join(x.dir, "names"))
}

// Owner is the name under which trees are kept for this index: several share a
// store, and none of them knows what the others name.
func (x *Index) Owner() (string, error) {
	file := filepath.Join(x.dir, "owner")
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		b := make([]byte, 16)
		_, _ = rand.Read(b) // it does not fail
		if err = replace(file+"."+hex.EncodeToString(b), []byte(hex.EncodeToString(b))); err == nil {
			err = os.Link(file+"."+hex.EncodeToString(b), file) // who is first wins
		}
		if err = errors.Join(ifNot(err, fs.ErrExist), os.Remove(file+"."+hex.EncodeToString(b))); err == nil {
			text, err = os.ReadFile(file)
		}
	}
	if err == nil && (len(text) != 32 || strings.Trim(string(text), "0123456789abcdef") != "") {
		err = errors.New("it is not what it was")
	}
	if err != nil {
		return "", &Error{Kind: KindStore, Msg: "the owner of its trees", Err: err}
	}
	return string(text), nil
}

// ifNot is an error, unless it is another.
func ifNot(err, other error) error {
	if errors.Is(err, other) {
		return nil
	}
	return err
}

func (x *Index) file(name string) string {
	sum := sha256.Sum256([]byte(name))
	return filepath.Join(x.dir, "names", hex.EncodeToString(sum[:])+".json")
}

// replace writes a file beside and renames it.
func replace(file string, text []byte) (err error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".new-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), file); err != nil {
		return err
	}
	return syncDir(filepath.Dir(file))
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
