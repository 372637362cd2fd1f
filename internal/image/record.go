package image

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/callcell/callcell/envelope"
)

// Bounds of a record.
const (
	maxRecord = 4 << 20 // bytes of its file
	maxName   = 512     // bytes
	maxEnv    = 256     // variables
)

// Record is what is known of one image.
type Record struct {
	Version int    `json:"version"` // of this form: 1
	Name    string `json:"name"`    // by which calls name it: host, oci:REF or build:NAME
	// Tree and Added are digests of the trees that a cell's root is made of: the
	// one that it begins with, and the one that stands at /opt/callcell.
	Tree  string `json:"tree,omitempty"`
	Added string `json:"added,omitempty"` // digest of the tree that stands at /opt/callcell
	// Env are variables that programs of the image need.
	Env    map[string]string `json:"env,omitempty"`
	Source *Source           `json:"source,omitempty"` // of an image of a registry
	Recipe *Recipe           `json:"recipe,omitempty"` // of an image that was built
	Lock   *Lock             `json:"lock,omitempty"`   // of an image that was built
	Slice  *Slice            `json:"slice,omitempty"`  // of a snapshot of the host

	Bytes   int64            `json:"bytes"`             // of the tree that was made for it
	Entries int64            `json:"entries"`           // files, directories and links of it
	Dropped map[string]int64 `json:"dropped,omitempty"` // entries that no tree has, by reason
	Made    time.Time        `json:"made"`              // when it was made
	Call    string           `json:"call,omitempty"`    // id of the call whose row says how it was made
}

// Source is where an image of a registry comes from.
type Source struct {
	Ref      string   `json:"ref"`              // HOST/NAME:TAG or HOST/NAME@sha256:HEX
	Digest   string   `json:"digest"`           // of the manifest, sha256:HEX
	Platform string   `json:"platform"`         // that was taken: linux/amd64
	Layers   []string `json:"layers,omitempty"` // digests, lowest first
}

// Recipe is what was asked for.
type Recipe struct {
	Base       string   `json:"base"`                 // what it stands on: host, or oci:REF
	BaseDigest string   `json:"baseDigest,omitempty"` // of all that the base is made of; absent for the host's slice
	Pip        []string `json:"pip,omitempty"`        // packages of Python's index
	NPM        []string `json:"npm,omitempty"`        // packages of npm's registry
	Apt        []string `json:"apt,omitempty"`        // packages of the base's distribution
	Run        []string `json:"run,omitempty"`        // commands of the shell, in order
}

// Digest names the image by all that it is made of, sha256:HEX.
func (r *Record) Digest() string {
	sum := sha256.New()
	fmt.Fprintf(sum, "callcell image 1\ntree %s\nadded %s\n", r.Tree, r.Added)
	for _, name := range slices.Sorted(maps.Keys(r.Env)) {
		fmt.Fprintf(sum, "env %q %q\n", name, r.Env[name])
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil))
}

// Trees are the trees that the record names.
func (r *Record) Trees() []string {
	return slices.DeleteFunc([]string{r.Tree, r.Added}, func(d string) bool { return d == "" })
}

// check holds a record that was read against what this package writes.
func (r *Record) check() error {
	if r.Version != 1 {
		return fmt.Errorf("version %d is not 1", r.Version)
	}
	if err := CheckName(r.Name); err != nil {
		return err
	}
	for _, d := range []string{r.Tree, r.Added} {
		if d != "" && !validDigest(d) {
			return fmt.Errorf("%q is not a digest", d)
		}
	}
	if len(r.Env) > maxEnv {
		return fmt.Errorf("it has %d variables", len(r.Env))
	}
	return nil
}

// CheckName holds a name against the rules that envelopes have for images.
func CheckName(name string) error {
	if len(name) > maxName {
		return &Error{Kind: KindName, Name: name[:64], Msg: fmt.Sprintf("the name has more than %d bytes", maxName)}
	}
	e := envelope.Default()
	e.Image = name
	if err := e.Validate(); err != nil {
		return &Error{Kind: KindName, Name: name, Msg: "it is not the name of an image", Hint: "host, oci:REF or build:NAME"}
	}
	return nil
}

func validDigest(d string) bool {
	digits, ok := strings.CutPrefix(d, "sha256:")
	if !ok || len(digits) != 64 || strings.ToLower(digits) != digits {
		return false
	}
	_, err := hex.DecodeString(digits)
	return err == nil
}
