-- Calls that somebody may come back for. name is the SHA-256 of what an
-- idempotency key is known by, NULL where there is none; digest that of the
-- request. state: 1 it runs, 2 it is done, 3 its daemon died, 4 erased. result is
-- the answer as JSON, NULL where there is none (any longer); size is what it has.
CREATE TABLE kept (
    call_id TEXT    NOT NULL PRIMARY KEY,
    key_id  TEXT    NOT NULL,
    team    TEXT    NOT NULL,
    name    BLOB    CHECK (length(name) = 32),
    digest  BLOB    NOT NULL CHECK (length(digest) = 32),
    task    TEXT    NOT NULL,
    tool    TEXT    NOT NULL,
    state   INTEGER NOT NULL CHECK (state BETWEEN 1 AND 4),
    began   INTEGER NOT NULL,
    ended   INTEGER NOT NULL CHECK ((ended = 0) = (state = 1)),
    outcome INTEGER NOT NULL,
    reason  INTEGER NOT NULL,
    size    INTEGER NOT NULL CHECK (size >= 0),
    result  BLOB
) STRICT;

CREATE UNIQUE INDEX kept_name ON kept (name) WHERE name IS NOT NULL;
CREATE INDEX kept_key ON kept (key_id, call_id);
CREATE INDEX kept_ended ON kept (ended);
CREATE INDEX kept_room ON kept (team, ended) WHERE result IS NOT NULL;

-- How many calls of each team are kept, and how many bytes of answers: derived.
CREATE TABLE kept_sums (
    team  TEXT    NOT NULL PRIMARY KEY,
    calls INTEGER NOT NULL CHECK (calls >= 0),
    bytes INTEGER NOT NULL CHECK (bytes >= 0)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER kept_insert AFTER INSERT ON kept
BEGIN INSERT INTO kept_sums (team, calls, bytes) VALUES (NEW.team, 1, coalesce(octet_length(NEW.result), 0))
    ON CONFLICT (team) DO UPDATE SET calls = calls + 1, bytes = bytes + excluded.bytes; END;

CREATE TRIGGER kept_update AFTER UPDATE OF result ON kept
BEGIN UPDATE kept_sums SET bytes = bytes + coalesce(octet_length(NEW.result), 0) - coalesce(octet_length(OLD.result), 0)
    WHERE team = NEW.team; END;

CREATE TRIGGER kept_delete AFTER DELETE ON kept
BEGIN UPDATE kept_sums SET calls = calls - 1, bytes = bytes - coalesce(octet_length(OLD.result), 0) WHERE team = OLD.team;
    DELETE FROM kept_sums WHERE team = OLD.team AND calls = 0; END;
