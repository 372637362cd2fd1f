// Command callcell-launcher is the privileged process that builds cells. It
// is started by callcell, with its end of a socket pair as descriptor 3, and
// is a binary of its own because the initialisation of packages it does not
// need would be everybody's latency.
package main

import (
	"os"

	"github.com/callcell/callcell/internal/launcher"
	"github.com/callcell/callcell/internal/launcher/conf"
)

func main() {
	path := conf.DefaultPath
	if len(os.Args) == 3 && os.Args[1] == "-config" {
		path = os.Args[2]
	} else if len(os.Args) != 1 {
		os.Stderr.WriteString("usage: callcell-launcher [-config FILE]\n")
		os.Exit(2)
	}
	os.Exit(launcher.Main(path, os.Stderr))
}
