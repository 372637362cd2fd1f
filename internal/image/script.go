package image

import (
	"strings"

	"github.com/callcell/callcell/internal/cell"
)

// script is what a build runs in its cell. Its last command writes the tree to
// standard output; all that comes before speaks to standard error. What is
// installed stands elsewhere later, so that compiled files are told that place,
// and carry no time.
func (o *BuildOptions) script() string {
	lines := []string{
		"set -eu",
		"umask 022",
		"mkdir -p " + prefix,
		"export PREFIX=$PWD/" + prefix + " SOURCE_DATE_EPOCH=315532800",
	}
	if len(o.CA) > 0 {
		lines = append(lines, "export PIP_CERT=$PWD/ca.pem NODE_EXTRA_CA_CERTS=$PWD/ca.pem npm_config_cafile=$PWD/ca.pem")
	}
	if len(o.Pip) > 0 {
		lines = append(lines, o.pipScript()...)
	}
	if len(o.NPM) > 0 {
		lines = append(lines, o.npmScript()...)
	}
	if len(o.Apt) > 0 {
		lines = append(lines, o.aptScript()...)
	}
	for _, command := range o.Run {
		lines = append(lines, "( "+command+"\n) >&2")
	}
	return strings.Join(append(lines, "exec ./"+Tool+" pack "+prefix), "\n") + "\n"
}

func (o *BuildOptions) pipScript() []string {
	install := "python3 -m pip install --no-input --disable-pip-version-check --no-cache-dir --no-compile --no-warn-script-location --progress-bar off --report " + pipFile
	if o.PipIndex != "" {
		install += " --index-url " + quote(o.PipIndex)
	}
	if o.Lock != nil {
		install += " --no-deps --require-hashes"
	}
	return []string{
		`command -v python3 >/dev/null || { echo "there is no python3 in the base" >&2; exit 127; }`,
		`python3 -m pip --version >&2 || { echo "python3 has no pip in the base" >&2; exit 127; }`,
		install + " --target " + prefix + "/python -r requirements.txt >&2",
		// Which of them was asked for by name would be all that differs when a
		// lock names every one.
		"find " + prefix + "/python -path '*.dist-info/REQUESTED' -delete",
		"find " + prefix + "/python -path '*.dist-info/RECORD' -exec sed -i '/[.]dist-info[/]REQUESTED,/d' {} +",
		"python3 -m compileall -q -f --invalidation-mode unchecked-hash -s " + prefix + " -p " + cell.AddedDir + " " + prefix + "/python >&2 || true",
	}
}

func (o *BuildOptions) npmScript() []string {
	install := "npm install --save-exact " + strings.Join(quoteAll(o.NPM), " ")
	if o.Lock != nil {
		install = "npm ci"
	}
	if o.NPMRegistry != "" {
		install += " --registry " + quote(o.NPMRegistry)
	}
	return []string{
		`command -v npm >/dev/null || { echo "there is no npm in the base" >&2; exit 127; }`,
		// Node has a list of authorities of its own; an index of this host's may
		// be known to the host's alone.
		`[ -n "${NODE_EXTRA_CA_CERTS:-}" ] || [ ! -r /etc/ssl/certs/ca-certificates.crt ] || export NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt`,
		"mkdir -p " + prefix + "/node",
		"( cd " + prefix + "/node && " + install + " --no-audit --no-fund --no-update-notifier --cache /tmp/npm ) >&2",
		"cp " + prefix + "/node/package-lock.json " + npmFile,
		// How it was asked for is not of what is installed: the lock has it.
		"rm -f " + prefix + "/node/package.json " + prefix + "/node/package-lock.json " + prefix + "/node/node_modules/.package-lock.json",
	}
}

// aptScript takes packages apart without running their scripts: nobody is root
// in a cell.
func (o *BuildOptions) aptScript() []string {
	apt := "apt-get -q -y -o Debug::NoLocking=1 -o APT::Sandbox::User= -o Dir::State=$PWD/apt/state -o Dir::State::status=/var/lib/dpkg/status -o Dir::Cache=$PWD/apt/cache"
	if len(o.CA) > 0 {
		apt += " -o Acquire::https::CAInfo=$PWD/ca.pem"
	}
	return []string{
		`command -v apt-get >/dev/null || { echo "there is no apt in the base" >&2; exit 127; }`,
		"mkdir -p apt/state/lists/partial apt/cache/archives/partial " + prefix + "/apt",
		apt + " update >&2",
		apt + " install --no-install-recommends --download-only -- " + strings.Join(quoteAll(o.Apt), " ") + " >&2",
		"for deb in apt/cache/archives/*.deb; do\n" +
			"  dpkg-deb -x \"$deb\" " + prefix + "/apt >&2\n" +
			"  echo \"$(dpkg-deb -f \"$deb\" Package) $(dpkg-deb -f \"$deb\" Version) $(sha256sum \"$deb\" | cut -d' ' -f1)\" >>" + debsFile + "\n" +
			"done",
	}
}

// quote makes one word of the shell's.
func quote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

func quoteAll(words []string) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = quote(w)
	}
	return out
}
