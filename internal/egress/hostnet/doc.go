// Package hostnet reads what this host says of the network around it: its name
// servers, its own table of names, and the certificate authorities that it
// trusts. The front reads it, because the egress process can open no file.
//
// The files are the administrator's. They are read as the C library and
// crypto/x509 read them, bounded, and what this package does not know in them is
// passed over, as it is there.
package hostnet

import (
	"errors"
	"io"
	"os"
)

// ErrNoRoots means that this host has no bundle of certificate authorities at
// the usual places.
var ErrNoRoots = errors.New("hostnet: no certificate authorities: install the package ca-certificates")

// The places, and the most bytes that are read of each.
const (
	resolvConf = "/etc/resolv.conf"
	hostsFile  = "/etc/hosts"
	maxConf    = 64 << 10
	maxHosts   = 4 << 20
	maxRoots   = 4 << 20
)

// Resolvers returns the name servers of this host, ADDRESS:PORT: those of
// /etc/resolv.conf, or, where that names none, this host itself.
func Resolvers() []string { return resolvers(resolvConf) }

func resolvers(path string) []string {
	text, err := read(path, maxConf)
	if list := ParseResolvers(text); err == nil && len(list) > 0 {
		return list
	}
	return []string{"127.0.0.1:53"}
}

// read returns a file, and of one that is longer the whole lines of its first
// max bytes.
func read(path string, max int) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, int64(max)+1))
	if err != nil || len(text) <= max {
		return text, err
	}
	for max > 0 && text[max-1] != '\n' {
		max--
	}
	return text[:max], nil
}
