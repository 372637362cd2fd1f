package blob

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// bootFile names the boot of this host.
const bootFile = "/proc/sys/kernel/random/boot_id"

// sumPath is where it is written down how much a team has, so that who puts one
// blob does not count the others. It is there while nobody changes what the team
// has: whoever does takes it away first, and writes it again when all is done. Who
// is killed in between leaves none, and who loses power one of another boot: then
// the next one counts.
func (s *Store) sumPath(teamDir string) string {
	return filepath.Join(s.dir, "sums", filepath.Base(teamDir))
}

// used returns how much the team has whose references are in dir. The team, or
// the store, is locked.
func (s *Store) used(dir string) (u Usage, err error) {
	text, err := os.ReadFile(s.sumPath(dir))
	boot := ""
	if n, _ := fmt.Sscanf(string(text), "%s %d %d\n", &boot, &u.Blobs, &u.Bytes); err == nil && n == 3 && string(text) == sumText(u) {
		return u, nil
	}
	if u, err = usage(dir); err == nil {
		s.note(s.sumPath(dir), u)
	}
	return u, err
}

// sumText is what such a file has; "": it is not known which boot this is.
func sumText(u Usage) string {
	boot, err := os.ReadFile(bootFile)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%s %d %d\n", strings.TrimSpace(string(boot)), u.Blobs, u.Bytes)
}

// note writes it down. Where that cannot be, the next one counts.
func (s *Store) note(path string, u Usage) {
	text := sumText(u)
	if text == "" || os.MkdirAll(filepath.Dir(path), 0o700) != nil {
		return
	}
	if os.WriteFile(path, []byte(text), 0o600) != nil {
		_ = os.Remove(path)
	}
}

// forget comes before what a team has is changed.
func forget(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("blob: %w", err)
	}
	return nil
}
