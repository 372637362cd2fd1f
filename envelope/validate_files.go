package envelope

import (
	"maps"
	"path"
	"slices"
	"strings"
)

// maxWhy is the longest reason, in bytes.
const maxWhy = 1024

// sorted returns the entry names of a map in order, so that the first fault
// is the same one each time.
func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// eachMount calls run for each mount in the order of their names.
func eachMount(e *Envelope, run func(field string, m Mount) *FieldError) *FieldError {
	for _, name := range sorted(e.Files.Mounts) {
		if err := run(entryField("files.mounts", name), e.Files.Mounts[name]); err != nil {
			return err
		}
	}
	return nil
}

func checkMountNames(e *Envelope) *FieldError {
	if len(e.Files.Mounts) > 64 {
		return fault("files.mounts", "has more than 64 entries", "mount fewer, larger directories")
	}
	for _, name := range sorted(e.Files.Mounts) {
		if err := checkEntry("files.mounts", name); err != nil {
			return err
		}
	}
	return nil
}

func checkMountSources(e *Envelope) *FieldError {
	return eachMount(e, func(field string, m Mount) *FieldError {
		field += ".source"
		if err := checkAbsolute(field, m.Source); err != nil {
			return err
		}
		for _, place := range []string{"/proc", "/sys", "/dev", "/run", "/var/run"} {
			if within(m.Source, place) {
				return fault(field, quote(m.Source)+" is a place of devices, kernel files or sockets", "mount a directory of plain files: read-only does not keep a program from a socket")
			}
		}
		return nil
	})
}

func checkMountTargets(e *Envelope) *FieldError {
	return eachMount(e, func(field string, m Mount) *FieldError {
		field += ".target"
		if err := checkAbsolute(field, m.Target); err != nil {
			return err
		}
		for _, place := range cellPlaces() {
			if within(m.Target, place) || within(place, m.Target) {
				return fault(field, quote(m.Target)+" would hide "+place+" of the cell", "choose a place of its own, such as /data, /mnt/NAME or /opt/NAME")
			}
		}
		return nil
	})
}

// cellPlaces are the directories that a cell is made of.
func cellPlaces() []string {
	return []string{"/.callcell", "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/opt/callcell",
		"/proc", "/run", "/sbin", "/scratch", "/sys", "/tmp", "/usr", "/var/run", "/var/tmp", "/work"}
}

func checkMountWhys(e *Envelope) *FieldError {
	return eachMount(e, func(field string, m Mount) *FieldError { return checkWhy(field+".why", m.Why) })
}

func checkWhy(field, why string) *FieldError {
	if strings.TrimSpace(why) == "" {
		return fault(field, "is missing", "say in one line why calls need it: it is shown with every warning")
	}
	return checkText(field, why, maxWhy)
}

func checkMountNesting(e *Envelope) *FieldError {
	names := sorted(e.Files.Mounts)
	for i, name := range names {
		for _, other := range names[:i] {
			a, b := e.Files.Mounts[name].Target, e.Files.Mounts[other].Target
			if within(a, b) || within(b, a) {
				return fault(entryField("files.mounts", name)+".target", quote(a)+" overlaps the target of "+other+", "+quote(b), "choose places beside each other")
			}
		}
	}
	return nil
}

// checkAbsolute reports whether p is a clean absolute path below the root.
func checkAbsolute(field, p string) *FieldError {
	switch {
	case p == "":
		return fault(field, "is missing", "write an absolute path")
	case p == "/":
		return fault(field, "is the root of everything", "name one directory below it")
	case !strings.HasPrefix(p, "/"):
		return fault(field, quote(p)+" is not absolute", "begin it with /")
	}
	if err := checkName(field, p[1:]); err != nil {
		err.Hint = "write a clean absolute path, such as /srv/models"
		return err
	}
	return nil
}

// within reports whether the clean absolute path p is place or below it.
func within(p, place string) bool {
	return path.Clean(p) == place || strings.HasPrefix(path.Clean(p), place+"/")
}
