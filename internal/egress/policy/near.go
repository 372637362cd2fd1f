package policy

import (
	"slices"
	"strconv"
	"strings"
)

// near says why no entry covers what was asked, and names the one that nearly
// does. It is on the way of every refused look-up, so it costs a few map
// look-ups and compares with no entry one by one.
func (p *Policy) near(v Verdict) string {
	if len(p.entries) == 0 {
		return "network.allow is empty"
	}
	if list := p.covering(v); len(list) > 0 {
		return p.otherPorts(list, v.Port)
	}
	if v.Literal.IsValid() {
		return "no entry of network.allow is this address"
	}
	if list := p.below[v.Host]; len(list) > 0 {
		return p.entries[list[0]].name + " covers names below " + v.Host + ", not " + v.Host + " itself"
	}
	for above := range domains(v.Host) {
		if list := p.exact[above]; len(list) > 0 {
			return p.entries[list[0]].name + " covers that name alone, not names below it"
		}
	}
	const none = "no entry of network.allow covers it"
	if list := p.exact["www."+v.Host]; len(list) > 0 {
		return none + "; did you mean " + p.entries[list[0]].name + "?"
	}
	if i, ok := p.alike[looks(v.Host)]; ok {
		return none + "; did you mean " + p.entries[i].name + "?"
	}
	return none
}

// covering returns the entries that cover the host on whatever port.
func (p *Policy) covering(v Verdict) []int {
	list := slices.Clone(p.exact[v.Host])
	if !v.Literal.IsValid() {
		for above := range domains(v.Host) {
			list = append(list, p.below[above]...)
		}
	}
	return list
}

// otherPorts names the entries of a list, four of them at most, and the ports
// of all.
func (p *Policy) otherPorts(list []int, port int) string {
	var names []string
	var ports []int
	for _, i := range list {
		names = append(names, p.entries[i].name)
		ports = append(ports, p.entries[i].Ports...)
	}
	if len(names) > 4 {
		names = append(names[:4], "...")
	}
	return strings.Join(names, ", ") + ": allowed on " + portList(sortedPorts(ports), port)
}

// portList is "ports 443, 8080, not 22".
func portList(ports []int, not int) string {
	switch len(ports) {
	case 0:
		return "no port"
	case 1:
		return "port " + strconv.Itoa(ports[0]) + ", not " + strconv.Itoa(not)
	}
	var b strings.Builder
	b.WriteString("ports ")
	for _, port := range ports {
		b.WriteString(strconv.Itoa(port))
		b.WriteString(", ")
	}
	b.WriteString("not ")
	b.WriteString(strconv.Itoa(not))
	return b.String()
}

// looks returns what is left of a name when it has been mistyped or is made to
// look like another: of each label the letters there are, in the order of the
// alphabet, with digits that look like a letter as that letter. Names that
// look alike are for hints alone. A long name looks like nothing.
func looks(name string) string {
	if len(name) > maxLabel {
		return ""
	}
	labels := strings.Split(name, ".")
	for i, label := range labels {
		letters := make([]byte, 0, maxLabel)
		for _, c := range []byte(label) {
			switch c {
			case '-', '_':
				continue
			case '0':
				c = 'o'
			case '1', 'i':
				c = 'l'
			case '5':
				c = 's'
			}
			letters = append(letters, c)
		}
		slices.Sort(letters)
		labels[i] = string(slices.Compact(letters))
	}
	return strings.Join(labels, ".")
}
