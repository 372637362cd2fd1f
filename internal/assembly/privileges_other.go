//go:build !linux

package assembly

// DropPrivileges does nothing here: no cell can be built.
func DropPrivileges() error { return nil }

// BecomeUser does nothing here.
func BecomeUser(string, string) error { return nil }

// BecomeOwner does nothing here.
func BecomeOwner(string, string) error { return nil }
