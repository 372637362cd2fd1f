package userkernel

import "github.com/callcell/callcell/internal/launcher/template"

// A file is one of ours under /etc.
type file struct{ path, text string }

// etc are the files that stand in the place of the root's own, the same as at
// the container level.
func etc(network bool) []file {
	sources := map[string]string{}
	for _, f := range template.Files() {
		sources["/"+f.Name] = f.Text
	}
	from := map[string]string{}
	if network {
		from["/etc/resolv.conf"], from["/etc/nsswitch.conf"] = template.ResolvConf, template.NSSwitch
	}
	var files []file
	for _, path := range []string{"/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/hosts", "/etc/hostname", "/etc/passwd", "/etc/group"} {
		source := path
		if other, ok := from[path]; ok {
			source = other
		}
		files = append(files, file{path, sources[source]})
	}
	return files
}
