//go:build linux

// Command gen writes profile_amd64.go and profile_arm64.go of the package in
// whose directory it is run:
//
//	go generate ./internal/launcher/seccomp
//
// A table has every system call of the architecture with its number, from
// golang.org/x/sys/unix, and what moby's default profile says of it for a
// process without capabilities. The two modules are used in the versions that
// go.mod asks for, so raising one and not running gen is a red test here.
//
// It is a program and not a part of the package, because the launcher is to
// start quickly and therefore must not import moby's profile.
package main

import (
	"fmt"
	"os"
	"strings"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run() error {
	src, err := locate()
	if err != nil {
		return err
	}
	for _, arch := range architectures() {
		text, unnumbered, err := src.profile(arch)
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "gen: %s: allowed by moby, without a number: %s\n", arch.goarch, strings.Join(unnumbered, " "))
		if err := os.WriteFile(arch.file(), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
