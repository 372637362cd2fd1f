package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/callcell/callcell/envelope"
)

// TableFile is the name of the last measurement's table, in the state directory.
const TableFile = "bench.json"

// maxTable bounds the file, in bytes.
const maxTable = 64 << 10

// Table is what a measurement leaves behind: what an empty call costs at each
// level of this host, median of the cell alone.
type Table struct {
	Version  int                      `json:"version"` // 1
	Measured time.Time                `json:"measured"`
	Costs    map[string]time.Duration `json:"costsNs"` // by the level's word
}

// TableOf takes the costs out of rows: those whose subject is the cell of a
// level ("container cell").
func TableOf(rows []Row, at time.Time) Table {
	t := Table{Version: 1, Measured: at.UTC().Truncate(time.Second), Costs: map[string]time.Duration{}}
	for _, r := range rows {
		var level envelope.Level
		word, ok := strings.CutSuffix(r.Name, " cell")
		if ok && level.UnmarshalText([]byte(word)) == nil {
			t.Costs[level.String()] = r.Median
		}
	}
	return t
}

// Save keeps the table in the state directory. A table before it is replaced,
// as a whole or not at all.
func (t Table) Save(state string) error {
	data, err := json.MarshalIndent(t, "", "  ")
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	if err := os.MkdirAll(state, 0o700); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	f, err := os.CreateTemp(state, TableFile+".*")
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	_, err = f.Write(append(data, '\n'))
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(state, TableFile))
	}
	if err != nil {
		return fmt.Errorf("bench: %w", errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}

// LoadTable returns the table in the state directory, an empty one where there
// is none. One that cannot be read is an error.
func LoadTable(state string) (Table, error) {
	f, err := os.Open(filepath.Join(state, TableFile))
	if errors.Is(err, fs.ErrNotExist) {
		return Table{}, nil
	}
	if err != nil {
		return Table{}, fmt.Errorf("bench: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxTable+1))
	if err != nil {
		return Table{}, fmt.Errorf("bench: %w", err)
	}
	return parseTable(data)
}

func parseTable(data []byte) (Table, error) {
	var t Table
	if err := envelope.Decode(data, maxTable, &t); err != nil {
		return Table{}, fmt.Errorf("bench: %s: %w", TableFile, err)
	}
	if t.Version != 1 {
		return Table{}, fmt.Errorf("bench: %s: version %d", TableFile, t.Version)
	}
	for word, cost := range t.Costs {
		var level envelope.Level
		if err := level.UnmarshalText([]byte(word)); err != nil {
			return Table{}, fmt.Errorf("bench: %s: %w", TableFile, err)
		}
		if cost <= 0 || cost > time.Hour {
			return Table{}, fmt.Errorf("bench: %s: a cell of level %s takes %s", TableFile, level, cost)
		}
	}
	return t, nil
}
