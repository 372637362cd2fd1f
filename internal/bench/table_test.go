package bench

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
)

func TestTableIsKept(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	if got, err := LoadTable(state); err != nil || len(got.Costs) > 0 {
		t.Fatalf("%+v, %v where there is none", got, err)
	}
	rows := []Row{{Name: "container cell", Median: 3 * time.Millisecond}, {Name: "callcell.Run", Median: 5}, {Name: "dark cell", Median: 7}}
	for range 2 { // the second replaces the first
		want := TableOf(rows, time.Unix(1_800_000_000, 5))
		if err := want.Save(state); err != nil {
			t.Fatal(err)
		}
		got, err := LoadTable(state)
		if err != nil || !reflect.DeepEqual(got, want) || len(got.Costs) != 1 || got.Costs["container"] != 3*time.Millisecond {
			t.Fatalf("%+v, %v; want %+v", got, err, want)
		}
	}
	if entries, err := os.ReadDir(state); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}

func TestTableThatCannotBe(t *testing.T) {
	for _, text := range []string{"", "{}", `{"version":2}`, `{"version":1,"costsNs":{"container":-1}}`, `{"version":1,"costsNs":{"cellar":1}}`,
		`{"version":1,"costsNs":{"container":36000000000000}}`, `{"version":1}x`, `{"version":1,"more":1}`} {
		if got, err := parseTable([]byte(text)); err == nil {
			t.Errorf("%s: %+v", text, got)
		}
	}
}

func FuzzTable(f *testing.F) {
	f.Add([]byte(`{"version":1,"measured":"2026-11-29T00:00:00Z","costsNs":{"container":3000000}}`))
	f.Add([]byte(`{"version":1,"costsNs":{"container":-1}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		table, err := parseTable(data)
		for word, cost := range table.Costs {
			var level envelope.Level
			if err != nil || level.UnmarshalText([]byte(word)) != nil || cost <= 0 {
				t.Fatalf("%+v, %v", table, err)
			}
		}
	})
}
