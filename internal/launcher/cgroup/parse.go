package cgroup

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The kernel's text is read by exact rules: what deviates is ErrText, with a
// zero value, never a guess.

// parseNumber reads a file that holds one number.
func parseNumber(text string) (int64, error) {
	digits := strings.TrimSuffix(text, "\n")
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil {
		return 0, fmt.Errorf("%w: number %q", ErrText, clip(text))
	}
	return int64(n), nil
}

// lookup finds the number of a key in "key number" lines. A file without the
// key answers -1: counters come and go with kernel versions.
func lookup(text, key string) (int64, error) {
	for line := range strings.SplitSeq(text, "\n") {
		if k, v, ok := strings.Cut(line, " "); ok && k == key {
			return parseNumber(v)
		}
	}
	return -1, nil
}

// parsePids reads cgroup.procs. It leaves out 0, as which the kernel shows a
// member that is outside the reader's pid namespace, but counts it.
func parsePids(text string) (pids []int, hidden int, err error) {
	if text == "" {
		return nil, 0, nil
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		n, err := strconv.ParseUint(line, 10, 31)
		if err != nil {
			return nil, 0, fmt.Errorf("%w: process id %q", ErrText, clip(line))
		}
		if n == 0 {
			hidden++
			continue
		}
		pids = append(pids, int(n))
	}
	return pids, hidden, nil
}

// mount is a version 1 hierarchy as mountinfo shows it.
type mount struct {
	point       string
	controllers []string
}

// parseMounts finds, at or below root, the version 1 mounts that carry the
// wanted controllers; each controller once, the last mount of it winning, since
// a later mount may cover an earlier one.
//
//	36 31 0:33 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
func parseMounts(mountinfo, root string, wanted []string) ([]mount, error) {
	var mounts []mount
	var seen []string
	lines := strings.Split(strings.TrimSuffix(mountinfo, "\n"), "\n")
	for _, line := range slices.Backward(lines) {
		fields := strings.Split(line, " ")
		dash := slices.Index(fields, "-")
		if dash < 6 || len(fields) < dash+4 {
			return nil, fmt.Errorf("%w: mountinfo %q", ErrText, clip(line))
		}
		point := unescape(fields[4])
		if fields[dash+1] != "cgroup" || !within(point, root) {
			continue
		}
		var found []string
		for _, option := range strings.Split(fields[dash+3], ",") {
			if slices.Contains(wanted, option) && !slices.Contains(found, option) {
				found = append(found, option)
			}
		}
		if len(found) == 0 || slices.ContainsFunc(found, func(c string) bool { return slices.Contains(seen, c) }) {
			continue
		}
		seen = append(seen, found...)
		mounts = append(mounts, mount{point: point, controllers: found})
	}
	slices.Reverse(mounts)
	return mounts, nil
}

func within(path, root string) bool {
	root = strings.TrimSuffix(root, "/")
	return path == root || strings.HasPrefix(path, root+"/")
}

// unescape undoes the octal escapes of mountinfo: \040 for a space.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// splitParent takes the parent's path apart. It must stay below the root.
func splitParent(parent string) ([]string, error) {
	names := strings.Split(parent, "/")
	for _, name := range names {
		if name == "" || name == "." || name == ".." || len(name) > 255 || strings.ContainsAny(name, "\x00\n") {
			return nil, fmt.Errorf("%w: parent %q", ErrName, clip(parent))
		}
	}
	return names, nil
}

// clip keeps an error message short whatever was read.
func clip(s string) string {
	if len(s) > 64 {
		return s[:64] + "..."
	}
	return s
}
