package envelope

import "strings"

// didYouMean returns a hint for a word that is not among known: the nearest
// one where one is near, otherwise nothing.
func didYouMean(word string, known []string) string {
	if best := nearest(word, known); best != "" {
		return "did you mean " + quote(best) + "?"
	}
	return ""
}

// nearest returns the known word that word is most likely a slip of, or "".
func nearest(word string, known []string) string {
	const longest = 64 // of a word worth comparing
	if word == "" || len(word) > longest {
		return ""
	}
	plain := plainWord(word)
	best, least := "", 1<<30
	for _, k := range known {
		p := plainWord(k)
		d := distance(plain, p)
		if len(plain) >= 3 && strings.HasPrefix(p, plain) {
			d = min(d, 1)
		}
		if d < least && d <= max(1, len(p)/3) {
			best, least = k, d
		}
	}
	return best
}

// plainWord takes away what spellings of one name differ in: cpu_time,
// CpuTime and cpu-time are cpuTime.
func plainWord(word string) string {
	return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(word))
}

// distance is the number of bytes to insert, delete, replace or swap with
// their neighbour to make b of a.
func distance(a, b string) int {
	before := make([]int, len(b)+1) // the row before last
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(row[j-1]+1, last[j]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
