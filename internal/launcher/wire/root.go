package wire

import (
	"errors"
	"fmt"
	"path"
	"strings"
)

// AddedDir is where an added tree stands.
const AddedDir = "/opt/callcell"

// The bounds of what a root is made of.
const (
	MaxMounts = 16
	maxTarget = 255 // bytes
	maxName   = 64  // bytes
)

// Mount is a directory of this host that a cell sees, read-only.
type Mount struct {
	Name string // of an entry of launcher.conf
	// Source is the SHA-256 of the path that the front believes the entry to
	// have. It is compared and never opened: a front can name no path.
	Source [32]byte
	Target string // where the cell sees it
}

// IsDigest reports whether text is a tree's digest: 64 digits of hexadecimal,
// in lower case.
func IsDigest(text string) bool {
	return len(text) == 64 && strings.Trim(text, "0123456789abcdef") == ""
}

// IsID reports whether text is an id, of a call or of a root in the making.
func IsID(text string) bool {
	return len(text) == 36 && strings.Trim(text, "0123456789abcdef-") == ""
}

// CheckRoot returns an error unless trees and mounts are what a cell can be
// given. The error names field and value.
func (s *Spec) CheckRoot() error {
	if s.Tree != "" && !IsDigest(s.Tree) || s.Added != "" && !IsDigest(s.Added) {
		return errors.New("tree, added: not 64 digits of hexadecimal")
	}
	if len(s.Mounts) > MaxMounts {
		return fmt.Errorf("mounts: %d, at most %d", len(s.Mounts), MaxMounts)
	}
	for i, m := range s.Mounts {
		if m.Name == "" || len(m.Name) > maxName || i > 0 && m.Name <= s.Mounts[i-1].Name {
			return fmt.Errorf("mounts: %.80q is no name, or not above the one before", m.Name)
		}
		if why := unfitTarget(m.Target); why != "" {
			return fmt.Errorf("mounts: the target %.300q %s", m.Target, why)
		}
		for _, other := range s.Mounts[:i] {
			if over(m.Target, other.Target) {
				return fmt.Errorf("mounts: the target %q is over or below %q", m.Target, other.Target)
			}
		}
	}
	return nil
}

// unfitTarget says why nothing is mounted there, or "".
func unfitTarget(target string) string {
	switch {
	case len(target) > maxTarget:
		return "is too long"
	case target == "/" || !path.IsAbs(target) || path.Clean(target) != target:
		return "is no path from / on in its shortest form"
	case strings.ContainsFunc(target, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\ufffd' }):
		return "has control characters in it, or is not UTF-8"
	}
	for _, p := range Places() {
		if over(target, p) {
			return "would hide " + p + " of the cell"
		}
	}
	return ""
}

// Places are the directories that a cell is made of: nothing is mounted there,
// above them or below.
func Places() []string {
	return []string{"/.callcell", "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", AddedDir,
		"/proc", "/run", "/sbin", "/scratch", "/sys", "/tmp", "/usr", "/var/run", "/var/tmp", "/work"}
}

// over reports whether one of two clean paths is the other, or below it.
func over(a, b string) bool {
	return a == b || strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/")
}
