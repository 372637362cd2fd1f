-- Comments stand outside of the statements: SQLite keeps a statement's text in
-- the file and reads it whenever the file is opened.

-- Events of the audit log. Nothing changes or removes one. call_id is NULL where
-- an event is about no call; at is in nanoseconds since 1970-01-01 UTC.
CREATE TABLE events (
    chain    TEXT    NOT NULL,
    seq      INTEGER NOT NULL CHECK (seq >= 1),
    kind     INTEGER NOT NULL CHECK (kind >= 1),
    call_id  TEXT,
    instance TEXT    NOT NULL,
    at       INTEGER NOT NULL,
    body     TEXT    NOT NULL,
    prev     BLOB    NOT NULL CHECK (length(prev) = 32),
    hash     BLOB    NOT NULL CHECK (length(hash) = 32),
    PRIMARY KEY (chain, seq)
) STRICT;

-- One intent (kind 1) and one ending (any other kind) for each call.
CREATE UNIQUE INDEX events_once ON events (call_id, (kind = 1));

CREATE TRIGGER events_update BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;

CREATE TRIGGER events_delete BEFORE DELETE ON events
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;

-- What calls are found by: derived from the events. first and last are sequence
-- numbers in the chain; last is 0 while the call is open.
CREATE TABLE calls (
    call_id  TEXT    NOT NULL PRIMARY KEY,
    chain    TEXT    NOT NULL,
    first    INTEGER NOT NULL,
    last     INTEGER NOT NULL,
    instance TEXT    NOT NULL,
    task     TEXT    NOT NULL,
    caller   TEXT    NOT NULL,
    tool     TEXT    NOT NULL,
    level    INTEGER NOT NULL,
    outcome  INTEGER NOT NULL,
    reason   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX calls_task ON calls (task, call_id) WHERE task <> '';
CREATE INDEX calls_open ON calls (instance) WHERE last = 0;

CREATE TRIGGER calls_update BEFORE UPDATE ON calls WHEN OLD.last <> 0
BEGIN SELECT RAISE(ABORT, 'the call has ended'); END;

CREATE TRIGGER calls_delete BEFORE DELETE ON calls
BEGIN SELECT RAISE(ABORT, 'calls are not removed'); END;

-- Until when an instance is alive, in nanoseconds since 1970-01-01 UTC.
CREATE TABLE leases (
    instance TEXT    NOT NULL PRIMARY KEY,
    until    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
