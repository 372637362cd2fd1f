package assembly

import (
	"strings"
	"testing"
)

// TestIndexesHaveNoSecrets: an address is a part of what runs in the cell, where
// install scripts read it.
func TestIndexesHaveNoSecrets(t *testing.T) {
	for _, address := range []string{"https://user:hunter2@index.example/simple", "https://hunter2@index.example/simple", "http://user:hunter2@index.example/", "https://user:hunter2@index.example:x/"} {
		if entry, err := IndexHost(address); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, %v", address, entry, err)
		}
	}
	for address, port := range map[string]int{"https://index.example/simple": 443, "https://index.example/feed@view/npm/": 443, "https://index.example:8443/simple": 8443} {
		entry, err := IndexHost(address)
		if err != nil || entry.Host != "index.example" || len(entry.Ports) != 1 || entry.Ports[0] != port {
			t.Errorf("%s: %v, %v", address, entry, err)
		}
	}
}
