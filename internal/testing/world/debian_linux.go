package world

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
)

// DebianSource is the line of sources.list for the archive of Debian packages,
// which has Package alone: its program of that name prints 42. A script that
// would run as it is installed fails.
const DebianSource = "deb [trusted=yes] https://index.test/debian/ ./\n"

// deb is the package for Debian: an archive of ar's with two of tar's in it.
func deb() ([]byte, error) {
	control, err := packed(
		entry{name: "./control", text: "Package: " + Package + "\nVersion: 1.0\nArchitecture: all\nMaintainer: world <world@index.test>\nDescription: tiny\n"},
		entry{name: "./postinst", text: "#!/bin/sh\nexit 1\n", mode: 0o755})
	if err != nil {
		return nil, err
	}
	data, err := packed(entry{name: "./usr/bin/" + Package, text: "#!/bin/sh\necho 42\n", mode: 0o755})
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	out.WriteString("!<arch>\n")
	for _, m := range []member{{"debian-binary", "2.0\n"}, {"control.tar.gz", string(control)}, {"data.tar.gz", string(data)}} {
		fmt.Fprintf(&out, "%-16s%-12d%-6d%-6d%-8o%-10d`\n%s", m.name, 0, 0, 0, 0o100644, len(m.text), m.text)
		if len(m.text)%2 == 1 {
			out.WriteByte('\n')
		}
	}
	return out.Bytes(), nil
}

// packed is a compressed archive.
func packed(entries ...entry) ([]byte, error) {
	stream, err := archive(entries)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, err = z.Write(stream)
	err = errors.Join(err, z.Close())
	return out.Bytes(), err
}

// debian is a flat archive of Debian packages, which nobody has signed.
func debian() http.Handler {
	const file = "callcell-tiny_1.0_all.deb"
	data, err := deb()
	if err != nil {
		return missing(err)
	}
	list := fmt.Sprintf("Package: %s\nVersion: 1.0\nArchitecture: all\nMaintainer: world <world@index.test>\nFilename: ./%s\nSize: %d\nSHA256: %x\nDescription: tiny\n",
		Package, file, len(data), sha256.Sum256(data))
	m := http.NewServeMux()
	m.HandleFunc("/debian/Packages", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(list)) })
	m.HandleFunc("/debian/"+file, func(w http.ResponseWriter, _ *http.Request) { w.Write(data) })
	return m
}
