package project

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/callcell/callcell/envelope"
)

// The phases of an Apply, as its journal says them.
const (
	// phaseClear: what is in the staging directory is of no use, and goes.
	phaseClear = "clear"
	// phaseSwap: all that is to be written is staged, and is to be swapped in.
	phaseSwap = "swap"
)

// A journal is what an Apply is about. It stands in the user's own directory
// and not in the tree: what is in the tree, a stranger may have put there.
type journal struct {
	Version int    `json:"version"`
	Phase   string `json:"phase"`
	Root    string `json:"root"`  // the directory, for people
	Token   string `json:"token"` // the staging directory is ignore.Dir/Token
	Ops     []op   `json:"ops"`
}

// An op is one file of it. Which state it is in is seen by the inodes: the
// staged file has that of New, the file that was there that of Old.
type op struct {
	Kind   envelope.ChangeKind `json:"kind"`
	Name   string              `json:"name"`
	Staged string              `json:"staged"`        // name in the staging directory
	New    uint64              `json:"new,omitempty"` // inode of what is staged
	Old    uint64              `json:"old,omitempty"` // inode of what was at Name
	Before digest              `json:"before,omitzero"`
	After  digest              `json:"after,omitzero"`
	Dirs   []string            `json:"dirs,omitempty"` // that are made for it, outermost first
}

// digest is a SHA-256 in a journal.
type digest [32]byte

// MarshalText implements encoding.TextMarshaler.
func (d digest) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(d[:])), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *digest) UnmarshalText(text []byte) error {
	b, err := hex.DecodeString(string(text))
	if err != nil || len(b) != len(d) {
		return errors.New("no digest")
	}
	copy(d[:], b)
	return nil
}

const (
	journalVersion = 1
	maxJournal     = 64 << 20
	newExt         = ".new" // of a journal that is being written
)

// JournalError is a journal that cannot be read. Nothing of its tree is
// touched.
type JournalError struct {
	Path string
	Err  error
}

// Error names the journal.
func (e *JournalError) Error() string {
	return fmt.Sprintf("the journal %s of changes that were being applied cannot be read: %v", e.Path, e.Err)
}

// Unwrap returns the cause.
func (e *JournalError) Unwrap() error { return e.Err }

// readJournal returns the journal at path, nil where there is none.
func readJournal(path string) (*journal, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &JournalError{path, err}
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxJournal))
	if err != nil {
		return nil, &JournalError{path, err}
	}
	j := &journal{}
	if err := json.Unmarshal(data, j); err != nil {
		return nil, &JournalError{path, err}
	}
	if j.Version != journalVersion || j.Token == "" || filepath.Base(j.Token) != j.Token || j.Phase != phaseClear && j.Phase != phaseSwap {
		return nil, &JournalError{path, errors.New("it is of another version")}
	}
	return j, nil
}

// write puts the journal in place, durably: it is the old one or the new one
// that stands there, never a part.
func (j *journal) write(path string) (err error) {
	data, err := json.Marshal(j)
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path+newExt, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600) // the tree's lock is ours
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncDir(dir)
}

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
