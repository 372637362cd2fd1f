package image_test

import (
	"testing"

	"github.com/callcell/callcell/internal/image"
)

// TestRegistry: a registry without a port is where its protocol is.
func TestRegistry(t *testing.T) {
	for _, c := range []struct {
		ref   string
		plain bool
		host  string
		port  int
	}{
		{"registry.test/tools:1", false, "registry.test", 443},
		{"registry.test/tools:1", true, "registry.test", 80},
		{"registry.test:5000/tools:1", false, "registry.test", 5000},
		{"registry.test:5000/tools:1", true, "registry.test", 5000},
	} {
		if host, port, err := image.Registry(c.ref, c.plain); host != c.host || port != c.port || err != nil {
			t.Errorf("%s, plain %t: %s:%d, %v", c.ref, c.plain, host, port, err)
		}
	}
	if _, _, err := image.Registry("UPPER:1", false); err == nil {
		t.Error("what is no reference has a registry")
	}
}
