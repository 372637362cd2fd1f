package project

import (
	"slices"
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// folded is a name as a file system sees it that knows neither case nor forms
// of Unicode. Names with the same are twins.
func folded(name string) string {
	for i := range len(name) {
		if name[i] >= 0x80 {
			return norm.NFC.String(cases.Fold().String(norm.NFC.String(name)))
		}
	}
	return strings.ToLower(name)
}

// twins returns the names of which another is a twin, sorted.
func twins(names []string) (found []string) {
	first := make(map[string]string, len(names))
	for _, name := range names {
		key := folded(name)
		other, there := first[key]
		if !there {
			first[key] = name
			continue
		}
		found = append(found, name, other)
	}
	slices.Sort(found)
	return slices.Compact(found)
}
