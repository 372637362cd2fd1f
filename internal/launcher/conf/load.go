package conf

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/callcell/callcell/internal/config/guarded"
)

const maxFile = 64 << 10 // bytes; the default with all comments has two thousand

// Error says which line of the file is wrong, and why.
type Error struct {
	File string
	Line int    // counted from 1; 0 where no line is at fault
	Key  string // "" where the line has none
	Msg  string
}

// Error names file, line, key and fault.
func (e *Error) Error() string {
	text := e.File
	if e.Line > 0 {
		text += ":" + strconv.Itoa(e.Line)
	}
	if e.Key != "" {
		text += ": " + e.Key
	}
	return text + ": " + e.Msg
}

// Load reads the file at path. Where there is none at DefaultPath, it returns
// Default; another path was named and must be there. An error is a *Error of
// this package or of package guarded; then the configuration is the zero
// value.
func Load(path string) (Config, error) {
	if path == DefaultPath {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			return Default(), nil
		}
	}
	data, err := guarded.Read(path, maxFile)
	if err != nil {
		return Config{}, err
	}
	return Parse(path, data)
}

// Parse reads data, which is the content of the file of that name. An error
// is a *Error; then the configuration is the zero value.
func Parse(file string, data []byte) (Config, error) {
	c := Default()
	lines := map[string]int{}
	for i, line := range strings.Split(string(data), "\n") {
		key, msg := c.take(line, lines)
		if msg != "" {
			return Config{}, &Error{File: file, Line: i + 1, Key: key, Msg: msg}
		}
		if key != "" {
			lines[key] = i + 1
		}
	}
	if key, msg := c.check(); msg != "" {
		return Config{}, &Error{File: file, Line: lines[key], Key: key, Msg: msg}
	}
	c.sortMounts()
	return c, nil
}

// take takes one line over. It returns the line's key, and what is wrong.
func (c *Config) take(line string, lines map[string]int) (key, msg string) {
	line = strings.Trim(line, " \t")
	if line == "" || line[0] == '#' {
		return "", ""
	}
	key, value, ok := strings.Cut(line, "=")
	key, value = strings.TrimRight(key, " \t"), strings.TrimLeft(value, " \t")
	if !ok || !printable(key) || !printable(value) {
		return "", "want KEY = VALUE, both of printable ASCII without spaces"
	}
	if first, twice := lines[key]; twice {
		return key, "comes twice, first in line " + strconv.Itoa(first)
	}
	for _, s := range c.settings() {
		if s.key == key {
			return key, s.set(value)
		}
	}
	if kind, name, ok := strings.Cut(key, "."); ok && (kind == "mount" || kind == "noexec") {
		return key, c.takeMount(kind, name, value)
	}
	return key, "unknown key"
}

// printable reports whether text is made of printable ASCII without spaces,
// and not empty.
func printable(text string) bool {
	for i := range len(text) {
		if text[i] <= ' ' || text[i] > '~' {
			return false
		}
	}
	return text != ""
}
