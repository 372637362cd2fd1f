package conf

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// maxMountName is the longest name of a mount, in bytes, as in an envelope.
const maxMountName = 64

// takeMount takes one line of a mount over: where it is, or that nothing in it
// is executed. The two come in any order, and which is missing is found by
// checkMounts.
func (c *Config) takeMount(kind, name, value string) (msg string) {
	if !mountName(name) {
		return "a mount has a name of letters, digits, _ and -, at most " + strconv.Itoa(maxMountName) + " of them"
	}
	i := slices.IndexFunc(c.Mounts, func(m Mount) bool { return m.Name == name })
	if i < 0 {
		if len(c.Mounts) == MaxMounts {
			return "more than " + strconv.Itoa(MaxMounts) + " mounts"
		}
		i, c.Mounts = len(c.Mounts), append(c.Mounts, Mount{Name: name})
	}
	if kind == "noexec" {
		if value != "yes" {
			return "want yes"
		}
		c.Mounts[i].NoExec = true
		return ""
	}
	return path(&c.Mounts[i].Source, true)(value)
}

func mountName(name string) bool {
	return name != "" && len(name) <= maxMountName &&
		strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
}

// A place is a directory of this host that no cell is given: it alone, or what
// is below it too.
type place struct {
	path  string
	below bool
	why   string
}

func (c *Config) places() []place {
	const state = "callcell's own"
	return []place{
		{"/proc", true, "files of the kernel"}, {"/sys", true, "files of the kernel"}, {"/dev", true, "devices"},
		{"/run", true, "sockets of services"}, {"/var/run", true, "sockets of services"}, {"/tmp/.X11-unix", true, "sockets of services"},
		{"/etc", true, "the configuration of this host"}, {"/root", true, "root's own"}, {"/boot", true, "the system's"},
		{"/usr", false, "the system's: it is in the host's image"}, {"/home", false, "everybody's own"}, {"/var", false, "the data of every service"},
		{"/var/lib", false, "the data of every service"}, {"/var/lib/callcell", true, state},
		{c.Image.Dir, true, state}, {c.RunDir, true, state}, {c.CgroupRoot, true, "files of the kernel"},
	}
}

// checkMounts holds every mount to the places of places. What is above one of
// them has it in it.
func (c *Config) checkMounts() (key, msg string) {
	for _, m := range c.Mounts {
		if m.Source == "" {
			return "noexec." + m.Name, "there is no mount." + m.Name
		}
		for _, p := range c.places() {
			if m.Source == p.path || p.below && strings.HasPrefix(m.Source, p.path+"/") || strings.HasPrefix(p.path, m.Source+"/") {
				return "mount." + m.Name, m.Source + " is, or has in it, " + p.path + " (" + p.why + "): no cell is given that"
			}
		}
	}
	return "", ""
}

func (c *Config) sortMounts() {
	slices.SortFunc(c.Mounts, func(a, b Mount) int { return cmp.Compare(a.Name, b.Name) })
}
