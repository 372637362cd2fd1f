package cli

import (
	"slices"
	"strings"
)

// spread gives each package of "image build --pip A B C" a flag of its own: a
// list ends where the next flag begins.
func spread(args []string) []string {
	at := slices.Index(args, "image")
	if at < 0 || at+1 >= len(args) || args[at+1] != "build" {
		return args
	}
	out, list := slices.Clone(args[:at+2]), ""
	for _, arg := range args[at+2:] {
		switch {
		case arg == "--pip" || arg == "--npm" || arg == "--apt":
			list = arg
			continue
		case strings.HasPrefix(arg, "-"):
			list = ""
		case list != "":
			arg = list + "=" + arg
		}
		out = append(out, arg)
	}
	return out
}
