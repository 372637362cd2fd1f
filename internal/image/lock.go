package image

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Lock is what was installed, to the byte: with it a rebuild gives the same
// content, or fails.
type Lock struct {
	Version    int             `json:"version"`              // of this form: 1
	Base       string          `json:"base"`                 // what it stands on: host, or oci:REF
	BaseDigest string          `json:"baseDigest,omitempty"` // of all that the base is made of; absent for the host's slice
	Pip        []Locked        `json:"pip,omitempty"`        // packages of Python's index
	NPM        json.RawMessage `json:"npm,omitempty"`        // a package-lock.json
	Apt        []Locked        `json:"apt,omitempty"`        // packages of the base's distribution
	Added      string          `json:"added,omitempty"`      // digest of the tree that came out
}

// Locked is one package.
type Locked struct {
	Name    string `json:"name"`    // of the package
	Version string `json:"version"` // that was installed
	SHA256  string `json:"sha256"`  // of its archive, HEX
}

// Bounds of a lock.
const (
	maxLocked   = 10_000
	maxLockFile = 16 << 20 // bytes
)

var (
	lockedName    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]*$`)
	lockedVersion = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.:~!+_-]*$`)
	lockedSum     = regexp.MustCompile(`^[0-9a-f]*$`)
)

// ParseLock reads a lock file.
func ParseLock(text []byte) (*Lock, error) {
	fail := func(err error) (*Lock, error) {
		return nil, &Error{Kind: KindSource, Msg: "it is not a lock file", Hint: "callcell image inspect build:NAME --lock prints one", Err: err}
	}
	if len(text) > maxLockFile {
		return fail(fmt.Errorf("it has more than %d bytes", maxLockFile))
	}
	l := &Lock{}
	if err := strictly(text, l); err != nil {
		return fail(err)
	}
	if l.Version != 1 {
		return fail(fmt.Errorf("version %d is not 1", l.Version))
	}
	for _, list := range [][]Locked{l.Pip, l.Apt} {
		if err := checkLocked(list); err != nil {
			return fail(err)
		}
	}
	return l, nil
}

func checkLocked(list []Locked) error {
	if len(list) > maxLocked {
		return fmt.Errorf("%d packages are more than %d", len(list), maxLocked)
	}
	for _, p := range list {
		if len(p.Name) > 214 || len(p.Version) > 128 || len(p.SHA256) != 64 ||
			!lockedName.MatchString(p.Name) || !lockedVersion.MatchString(p.Version) || !lockedSum.MatchString(p.SHA256) {
			return fmt.Errorf("%.80q %.80q with %.80q is not a package", p.Name, p.Version, p.SHA256)
		}
	}
	return nil
}

// requirements is the lock as pip reads it.
func (l *Lock) requirements() string {
	var b strings.Builder
	for _, p := range l.Pip {
		fmt.Fprintf(&b, "%s==%s --hash=sha256:%s\n", p.Name, p.Version, p.SHA256)
	}
	return b.String()
}

// pipReport reads what pip reports of an installation. It comes out of a cell.
func pipReport(text []byte) ([]Locked, error) {
	var report struct {
		Install []struct {
			Metadata struct{ Name, Version string }
			Download struct {
				Archive struct {
					Hash   string            `json:"hash"`
					Hashes map[string]string `json:"hashes"`
				} `json:"archive_info"`
			} `json:"download_info"`
		}
	}
	if err := json.Unmarshal(text, &report); err != nil {
		return nil, err
	}
	var list []Locked
	for _, p := range report.Install {
		sum := p.Download.Archive.Hashes["sha256"]
		if sum == "" {
			sum = strings.TrimPrefix(p.Download.Archive.Hash, "sha256=")
		}
		list = append(list, Locked{Name: p.Metadata.Name, Version: p.Metadata.Version, SHA256: sum})
	}
	sortLocked(list)
	return list, checkLocked(list)
}

// debReport reads lines of NAME VERSION SHA256.
func debReport(text []byte) ([]Locked, error) {
	var list []Locked
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) != 3 {
			return nil, fmt.Errorf("%.80q is not a package", line)
		}
		list = append(list, Locked{Name: f[0], Version: f[1], SHA256: f[2]})
	}
	sortLocked(list)
	return list, checkLocked(list)
}

func sortLocked(list []Locked) {
	slices.SortFunc(list, func(a, b Locked) int { return strings.Compare(a.Name, b.Name) })
}

// Changes says what is otherwise in now than in before, a line each.
func (l *Lock) Changes(before *Lock) []string {
	var out []string
	if l.BaseDigest != before.BaseDigest || l.Base != before.Base {
		out = append(out, fmt.Sprintf("base: %s %s -> %s %s", before.Base, before.BaseDigest, l.Base, l.BaseDigest))
	}
	out = append(out, changes("pip", before.Pip, l.Pip)...)
	out = append(out, changes("apt", before.Apt, l.Apt)...)
	if !bytes.Equal(compact(before.NPM), compact(l.NPM)) {
		out = append(out, "npm: the lock of packages is another")
	}
	if len(out) == 0 && before.Added != "" && l.Added != before.Added {
		out = append(out, "content: the same packages, and "+before.Added+" -> "+l.Added)
	}
	return out
}

func compact(text []byte) []byte {
	var b bytes.Buffer
	if json.Compact(&b, text) != nil {
		return text
	}
	return b.Bytes()
}

func changes(kind string, before, now []Locked) []string {
	var out []string
	old := map[string]Locked{}
	for _, p := range before {
		old[p.Name] = p
	}
	for _, p := range now {
		was, there := old[p.Name]
		delete(old, p.Name)
		switch {
		case !there:
			out = append(out, fmt.Sprintf("%s: + %s %s", kind, p.Name, p.Version))
		case was.Version != p.Version:
			out = append(out, fmt.Sprintf("%s: %s %s -> %s", kind, p.Name, was.Version, p.Version))
		case was.SHA256 != p.SHA256:
			out = append(out, fmt.Sprintf("%s: %s %s has another archive", kind, p.Name, p.Version))
		}
	}
	for _, p := range before {
		if _, gone := old[p.Name]; gone {
			out = append(out, fmt.Sprintf("%s: - %s %s", kind, p.Name, p.Version))
		}
	}
	return out
}
