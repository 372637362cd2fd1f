//go:build !linux

package unpack

import (
	"errors"

	"github.com/callcell/callcell/internal/image/fstree"
)

// Trees are written on Linux alone.

type disk struct{}

type file struct{}

var errNotLinux = errors.New("trees are written on Linux alone")

func newDisk(int) (*disk, error)                     { return nil, errNotLinux }
func (*disk) close()                                 {}
func (*disk) mkdir(string) error                     { return errNotLinux }
func (*disk) create(string, bool) (*file, error)     { return nil, errNotLinux }
func (*disk) done(string, *file, *fstree.Node) error { return errNotLinux }
func (*disk) symlink(string, *fstree.Node) error     { return errNotLinux }
func (*disk) link(string, string) error              { return errNotLinux }
func (*disk) remove(string, *fstree.Node) error      { return errNotLinux }
func (*disk) settle(string, *fstree.Node) error      { return errNotLinux }
func checkDir(int, Options) (string, error)          { return "", errNotLinux }
func checkImage(int, Options) (string, error)        { return "", errNotLinux }
func create(int, string, bool) (*file, error)        { return nil, errNotLinux }
func (*file) Write([]byte) (int, error)              { return 0, errNotLinux }
func (*file) WriteAt([]byte, int64) (int, error)     { return 0, errNotLinux }
func (*file) Close() error                           { return nil }
