package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"time"

	"github.com/callcell/callcell/internal/audit"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migrations returns the steps in order: step i leads to schema version i+1. A
// step is never changed once released; a change is another step.
func migrations() []string {
	return []string{"0001_audit.sql", "0002_audit_v2.sql", "0003_workspaces.sql", "0004_gateway.sql", "0005_kept.sql", "0006_image_jobs.sql"}
}

// migrate brings the file to the newest version. Where it is there already, it
// costs one pragma. Several processes may do it at once.
func migrate(ctx context.Context, conn *sql.Conn, path string) error {
	known := len(migrations())
	found, err := version(ctx, conn)
	switch {
	case err != nil:
		return err
	case found > known:
		return &NewerError{Path: path, Found: found, Known: known}
	case found == known:
		return nil
	}
	if err := useWAL(ctx, conn); err != nil {
		return err
	}
	return within(ctx, conn, func() error { return step(ctx, conn, path) })
}

// step applies what is missing. It runs in a transaction that excludes others.
func step(ctx context.Context, conn *sql.Conn, path string) error {
	steps := migrations()
	found, err := version(ctx, conn)
	if err != nil {
		return err
	}
	if found > len(steps) {
		return &NewerError{Path: path, Found: found, Known: len(steps)}
	}
	for _, name := range steps[found:] {
		text, err := migrationFiles.ReadFile("migrations/" + name)
		if err != nil {
			return err
		}
		if _, err := conn.ExecContext(ctx, string(text)); err != nil {
			return fmt.Errorf("migration %s: %w", name, mapped(err))
		}
	}
	_, err = conn.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", len(steps)))
	return mapped(err)
}

func version(ctx context.Context, conn *sql.Conn) (int, error) {
	var v int
	err := conn.QueryRowContext(ctx, "PRAGMA user_version").Scan(&v)
	if err == nil && v < 0 {
		return 0, fmt.Errorf("%w: schema version %d", audit.ErrCorrupt, v)
	}
	return v, mapped(err)
}

// useWAL turns the file into one with a write-ahead log, which stays with it.
// SQLite does not wait here for others that do the same, so it is tried until
// the busy timeout is over.
func useWAL(ctx context.Context, conn *sql.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, busyTimeout)
	defer cancel()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		var mode string
		err := mapped(conn.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode))
		if err == nil && mode != "wal" {
			return fmt.Errorf("%w: journal mode is %s: the file system does not do for a write-ahead log", audit.ErrUnwritable, mode)
		}
		if !errors.Is(err, audit.ErrBusy) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-again.C:
		}
	}
}

// within runs fn in a transaction that excludes other writers.
func within(ctx context.Context, conn *sql.Conn, fn func() error) error {
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return mapped(err)
	}
	err := fn()
	if err == nil {
		_, err = conn.ExecContext(ctx, "COMMIT")
		err = mapped(err)
	}
	if err != nil {
		conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK") // it may be rolled back already
	}
	return err
}
