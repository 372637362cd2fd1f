package source

import (
	"errors"
	"strings"
)

var (
	errQuote = errors.New("a quote is not closed")
	errSlash = errors.New("a backslash stands at the end")
)

// split returns the words of a line. Spaces and tabs stand between words.
// Single quotes keep everything between them as it is; double quotes too, but
// for \" and \\; outside of quotes a backslash keeps the character behind it.
// Nothing is expanded.
func split(line string) ([]string, error) {
	var words []string
	for {
		line = strings.TrimLeft(line, " \t")
		if line == "" {
			return words, nil
		}
		var word strings.Builder
		rest, err := line, error(nil)
		for rest != "" && rest[0] != ' ' && rest[0] != '\t' && err == nil {
			rest, err = piece(&word, rest)
		}
		if err != nil {
			return nil, err
		}
		words, line = append(words, word.String()), rest
	}
}

// piece takes a character or what is quoted off the front of line.
func piece(word *strings.Builder, line string) (rest string, err error) {
	switch line[0] {
	case '\'':
		inside, rest, closed := strings.Cut(line[1:], "'")
		if !closed {
			return "", errQuote
		}
		word.WriteString(inside)
		return rest, nil
	case '"':
		return quoted(word, line[1:])
	case '\\':
		if len(line) == 1 {
			return "", errSlash
		}
		line = line[1:]
	}
	word.WriteByte(line[0])
	return line[1:], nil
}

// quoted takes what is in front of a closing double quote.
func quoted(word *strings.Builder, line string) (rest string, err error) {
	for i := 0; i < len(line); i++ {
		switch {
		case line[i] == '"':
			return line[i+1:], nil
		case line[i] == '\\' && i+1 < len(line) && (line[i+1] == '"' || line[i+1] == '\\'):
			i++
		}
		word.WriteByte(line[i])
	}
	return "", errQuote
}
