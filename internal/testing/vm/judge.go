package vm

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A Result is what came of one suite.
type Result struct {
	Package string
	Ended   bool // there is a result line
	Status  int
	Seconds string
	Output  []string
}

// A Record is what came out of the guest.
type Record struct {
	Kernel  string // "" where it has not booted
	Results []Result
	Faults  []string
	Ended   bool
}

// Read reads what the guest says until it says no more. Each line is given to
// see, which may be nil, as it comes, with the record so far.
func Read(r io.Reader, see func(line string, rec *Record)) *Record {
	rec := &Record{}
	s := bufio.NewScanner(r)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		line := strings.TrimRight(s.Text(), "\r")
		rec.line(line)
		if see != nil {
			see(line, rec)
		}
	}
	return rec
}

func (rec *Record) line(line string) {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case WordBoot:
		rec.Kernel = rest
	case WordFault:
		rec.Faults = append(rec.Faults, "the guest's init: "+rest)
	case WordEnd:
		rec.Ended = true
	case WordRun:
		rec.Results = append(rec.Results, Result{Package: rest})
	case WordResult:
		f := strings.Fields(rest)
		if n := len(rec.Results); n > 0 && len(f) == 3 && f[0] == rec.Results[n-1].Package {
			last := &rec.Results[n-1]
			status, err := strconv.Atoi(f[1])
			last.Status, last.Seconds, last.Ended = status, f[2], err == nil
		}
	default:
		if n := len(rec.Results); n > 0 && !rec.Results[n-1].Ended {
			rec.Results[n-1].Output = append(rec.Results[n-1].Output, line)
		}
	}
}

// Judge says what is wrong with the record of a boot; nothing where all is
// well. A guest that says less than it should is as bad as one that says FAIL.
func (rec *Record) Judge(b Boot) (faults []string) {
	faults = slices.Clone(rec.Faults)
	if rec.Kernel == "" {
		return append(faults, "the guest has not booted")
	}
	if b.Check != nil {
		if f := b.Check(rec.Kernel); f != "" {
			faults = append(faults, f)
		}
	}
	for _, s := range b.Suites {
		at := slices.IndexFunc(rec.Results, func(r Result) bool { return r.Package == s.Package })
		if at < 0 {
			faults = append(faults, s.Package+": was not run")
			continue
		}
		for _, f := range rec.Results[at].judge(s) {
			faults = append(faults, s.Package+": "+f)
		}
	}
	if !rec.Ended {
		faults = append(faults, "the guest did not come to its end")
	}
	return faults
}

func (r Result) judge(s Suite) (faults []string) {
	if !r.Ended {
		return []string{"has no result"}
	}
	passed, skipped := r.Count()
	if r.Status != 0 {
		faults = append(faults, fmt.Sprintf("ended with %d", r.Status))
	}
	if passed == 0 {
		faults = append(faults, "no test ran")
	}
	for _, name := range skipped {
		if !slices.ContainsFunc(s.Skips, func(known string) bool { return strings.HasPrefix(known, name+": ") }) {
			faults = append(faults, name+" was skipped, and should not be here")
		}
	}
	return faults
}

var (
	verdict = regexp.MustCompile(`^--- (PASS|FAIL|SKIP): (\S+) \(`)
	chatter = regexp.MustCompile(`^(=== |\s*--- PASS: |PASS$|\s*$)`)
)

// Count returns how many tests passed, and which were skipped.
func (r Result) Count() (passed int, skipped []string) {
	for _, line := range r.Output {
		m := verdict.FindStringSubmatch(line)
		switch {
		case m == nil:
		case m[1] == "PASS":
			passed++
		case m[1] == "SKIP":
			skipped = append(skipped, m[2])
		}
	}
	return passed, skipped
}

// Short is one line about a suite, and after it, where it failed, all that its
// tests said beside that they ran and passed.
func (r Result) Short() string {
	passed, skipped := r.Count()
	word := "ok  "
	if !r.Ended || r.Status != 0 || passed == 0 {
		word = "FAIL"
	}
	text := fmt.Sprintf("%s %-28s %6ss  %d tests passed", word, r.Package, r.Seconds, passed)
	if len(skipped) > 0 {
		text += ", skipped: " + strings.Join(skipped, " ")
	}
	if word == "FAIL" {
		for _, line := range r.Output {
			if !chatter.MatchString(line) {
				text += "\n     " + line
			}
		}
	}
	return text
}
