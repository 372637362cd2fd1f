package store

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/callcell/callcell/internal/gateway"
	"github.com/callcell/callcell/internal/store/storetest"
)

func TestGatewayStore(t *testing.T) {
	storetest.RunGateway(t, func(t *testing.T) gateway.Store { return open(t, file(t)).Gateway() })
}

// TestNoSecretInTheFile: of a secret only its hash is kept.
func TestNoSecretInTheFile(t *testing.T) {
	path := file(t)
	d := open(t, path)
	a := gateway.NewAdmin(d.Gateway(), gateway.DefaultTiers(), nil)
	if _, err := a.CreateTeam(t.Context(), gateway.Team{Name: "blue", Tier: "free"}); err != nil {
		t.Fatal(err)
	}
	_, secret, err := a.CreateKey(t.Context(), gateway.Key{Team: "blue", Role: gateway.RoleCall})
	if err != nil {
		t.Fatal(err)
	}
	noTextIn(t, path, secret[len(gateway.SecretPrefix):])
}

// noTextIn fails where one of the store's files has a text in it.
func noTextIn(t *testing.T, path, text string) {
	t.Helper()
	seen := 0
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		seen += len(data)
		if bytes.Contains(data, []byte(text)) {
			t.Errorf("%s has it", path+suffix)
		}
	}
	if seen < 4096 {
		t.Errorf("%d bytes were looked at", seen)
	}
}

// TestOneHolds: a second daemon on a store is refused, until the first is gone;
// who does not hold it can still use it.
func TestOneHolds(t *testing.T) {
	path := file(t)
	first, second := open(t, path), open(t, path)
	if err := first.Hold(); err != nil {
		t.Fatal(err)
	}
	if err := second.Hold(); !errors.Is(err, ErrHeld) {
		t.Errorf("a second daemon: %v", err)
	}
	if _, err := second.Gateway().Directory(t.Context()); err != nil {
		t.Error(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := second.Hold(); err != nil {
		t.Errorf("after the first is gone: %v", err)
	}
}
