package conf

import (
	"strconv"
	"strings"
)

const (
	second = 1_000_000_000 // in nanoseconds
	ki     = int64(1) << 10
	mi     = int64(1) << 20
	gi     = int64(1) << 30
	ti     = int64(1) << 40
)

// The bounds of the uid range. Below are people, services and the overflow
// user; above, uids that are negative to programs with signed numbers.
const (
	lowestUID  = 65536
	highestUID = 1<<31 - 1
)

// A setting is one key: set takes a value over, or says why not.
type setting struct {
	key string
	set func(value string) (msg string)
}

func (c *Config) settings() []setting {
	l, e, m, r := &c.Ceilings, &c.Egress, &c.Image, &c.Runsc
	return []setting{
		{"uids.first", number(&c.UIDsFirst, lowestUID, highestUID)},
		{"uids.count", number(&c.UIDsCount, 1, 1<<20)},
		{"cgroup.root", path(&c.CgroupRoot, true)},
		{"cgroup.parent", path(&c.CgroupParent, false)},
		{"run.dir", path(&c.RunDir, true)},
		{"cells", number(&c.Cells, 1, 1<<16)},
		{"spares", number(&c.Spares, 0, 64)},
		{"ceiling.memory", size(&l.Memory, mi, 64*ti)},
		{"ceiling.pids", number(&l.Pids, 1, 1<<22)},
		{"ceiling.cpu", cpus(&l.CPU)},
		{"ceiling.scratch", size(&l.Scratch, 4*ki, 64*ti)},
		{"ceiling.inodes", number(&l.Inodes, 1, 1<<30)},
		{"ceiling.wall", seconds(&l.Wall, 1, 365*24*3600)},
		{"ceiling.openFiles", number(&l.OpenFiles, 16, 1<<20)},
		{"ceiling.fileSize", size(&l.FileSize, 1, 64*ti)},
		{"egress.path", program(&e.Path)},
		{"egress.memory", size(&e.Memory, 32*mi, 64*ti)},
		{"egress.pids", number(&e.Pids, 16, 1<<22)},
		{"egress.cpu", cpus(&e.CPU)},
		{"egress.openFiles", number(&e.OpenFiles, 256, 1<<20)},
		{"image.dir", path(&m.Dir, true)},
		{"image.path", program(&m.Path)},
		{"image.memory", size(&m.Memory, 32*mi, 64*ti)},
		{"image.pids", number(&m.Pids, 16, 1<<22)},
		{"image.cpu", cpus(&m.CPU)},
		{"image.wall", seconds(&m.Wall, 1, 24*3600)},
		{"image.bytes", size(&m.Bytes, mi, 64*ti)},
		{"image.entries", number(&m.Entries, 16, 1<<30)},
		{"runsc.path", program(&r.Path)},
		{"runsc.version", word(&r.Version)},
		{"runsc.guest", program(&r.Guest)},
		{"runsc.root", path(&r.Root, true)},
		{"runsc.memory", size(&r.Memory, 32*mi, 64*ti)},
		{"runsc.pids", number(&r.Pids, 32, 1<<22)},
		{"runsc.network", either(&r.Network, NetworkSandbox, NetworkHost)},
	}
}

// check is what must hold between values. It returns the key at fault.
func (c *Config) check() (key, msg string) {
	if last := int64(c.UIDsFirst) + int64(c.UIDsCount) - 1; last > highestUID {
		return "uids.count", "the range ends above " + strconv.Itoa(highestUID)
	}
	if int64(c.UIDsCount) < c.Cells {
		return "uids.count", "fewer uids than cells (" + strconv.FormatInt(c.Cells, 10) + "): every cell has one of its own"
	}
	return c.checkMounts()
}

// digits parses digits alone, without zeros in front: no sign, no space.
func digits(text string) (int64, bool) {
	if text == "" || len(text) > 18 || strings.Trim(text, "0123456789") != "" || len(text) > 1 && text[0] == '0' {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}

func number[T int | int64](to *T, least, most int64) func(string) string {
	return func(value string) string {
		n, ok := digits(value)
		if !ok || n < least || n > most {
			return "want a whole number from " + strconv.FormatInt(least, 10) + " to " + strconv.FormatInt(most, 10)
		}
		*to = T(n)
		return ""
	}
}

// unit is a suffix and what it stands for.
type unit struct {
	name string
	size int64
}

// scaled parses digits with one of the units behind them.
func scaled(value string, least, most int64, units []unit) (int64, bool) {
	for _, u := range units {
		text, ok := strings.CutSuffix(value, u.name)
		if !ok {
			continue
		}
		n, ok := digits(text)
		if !ok || n > most/u.size {
			return 0, false
		}
		return n * u.size, n*u.size >= least
	}
	return 0, false
}

func size(to *int64, least, most int64) func(string) string {
	units := []unit{{"Ti", ti}, {"Gi", gi}, {"Mi", mi}, {"Ki", ki}, {"B", 1}}
	return func(value string) string {
		n, ok := scaled(value, least, most, units)
		if !ok {
			return "want a size with a unit (64Mi), from " + strconv.FormatInt(least, 10) + "B to " + strconv.FormatInt(most/ti, 10) + "Ti"
		}
		*to = n
		return ""
	}
}

// seconds parses a time into nanoseconds.
func seconds(to *int64, least, most int64) func(string) string {
	units := []unit{{"s", 1}, {"m", 60}, {"h", 3600}}
	return func(value string) string {
		n, ok := scaled(value, least, most, units)
		if !ok {
			return "want a time with a unit, s, m or h (86400s), from " + strconv.FormatInt(least, 10) + "s to " + strconv.FormatInt(most/3600, 10) + "h"
		}
		*to = n * second
		return ""
	}
}

// cpus parses a number of CPUs into thousandths.
func cpus(to *int64) func(string) string {
	return func(value string) string {
		const most = 65536
		whole, frac, point := strings.Cut(value, ".")
		n, ok := digits(whole)
		f, fok := digits("1" + frac + strings.Repeat("0", max(0, 3-len(frac))))
		if thousandths := n*1000 + f - 1000; ok && fok && point == (frac != "") && len(frac) <= 3 && n < most && thousandths > 0 {
			*to = thousandths
			return ""
		}
		return "want a number of CPUs with at most three decimals (64, 0.5), less than 65536"
	}
}

// either takes one of two words.
func either(to *string, one, other string) func(string) string {
	return func(value string) string {
		if value != one && value != other {
			return "want " + one + " or " + other
		}
		*to = value
		return ""
	}
}

// word takes what is no longer than a version.
func word(to *string) func(string) string {
	return func(value string) string {
		if len(value) > 128 {
			return "want a version, of at most 128 bytes"
		}
		*to = value
		return ""
	}
}

// program takes a path from / on in its shortest form, or a name.
func program(to *string) func(string) string {
	absolute := path(to, true)
	return func(value string) string {
		if !strings.Contains(value, "/") && value != "." && value != ".." && len(value) < 256 {
			*to = value
			return ""
		}
		if absolute(value) != "" {
			return "want a path from / on, without . and .., or a name beside callcell-launcher"
		}
		return ""
	}
}

// path takes a path in its shortest form, from / on or without a / in front.
func path(to *string, absolute bool) func(string) string {
	return func(value string) string {
		rest, fromRoot := strings.CutPrefix(value, "/")
		ok := fromRoot == absolute && len(value) < 4096
		for _, part := range strings.Split(rest, "/") {
			ok = ok && part != "" && part != "." && part != ".." && len(part) < 256
		}
		switch {
		case ok:
			*to = value
			return ""
		case absolute:
			return "want a path from / on, without . and .. and not / itself"
		}
		return "want a path without a / in front, and without . and .."
	}
}
