-- Who may call. tokens is a month's, 0 for the tier's; times are in nanoseconds
-- since 1970-01-01 UTC, 0 for never; profiles are words with spaces between.
CREATE TABLE teams (
    team      TEXT    NOT NULL PRIMARY KEY,
    tier      TEXT    NOT NULL,
    tokens    INTEGER NOT NULL CHECK (tokens >= 0),
    suspended INTEGER NOT NULL CHECK (suspended IN (0, 1)),
    created   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE keys (
    key_id   TEXT    NOT NULL PRIMARY KEY,
    team     TEXT    NOT NULL REFERENCES teams,
    label    TEXT    NOT NULL,
    role     INTEGER NOT NULL CHECK (role BETWEEN 1 AND 3),
    profiles TEXT    NOT NULL,
    created  INTEGER NOT NULL,
    revoked  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TRIGGER keys_delete BEFORE DELETE ON keys
BEGIN SELECT RAISE(ABORT, 'keys are revoked, not removed'); END;

CREATE TRIGGER keys_revoked BEFORE UPDATE ON keys WHEN OLD.revoked <> 0 AND NEW.revoked <> OLD.revoked
BEGIN SELECT RAISE(ABORT, 'the key is revoked'); END;

-- hash is the SHA-256 of a secret.
CREATE TABLE secrets (
    hash    BLOB    NOT NULL PRIMARY KEY CHECK (length(hash) = 32),
    key_id  TEXT    NOT NULL REFERENCES keys,
    created INTEGER NOT NULL,
    expires INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- One row. generation grows with every change above; folded is the last
-- settlement that usage and tasks have in them.
CREATE TABLE gateway (
    one        INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    generation INTEGER NOT NULL,
    folded     INTEGER NOT NULL
) STRICT;
INSERT INTO gateway (one, generation, folded) VALUES (1, 1, 0);

-- What is reserved for calls that are under way. month is a number, 202611;
-- arguments and result are tokens; cpu and wall are nanoseconds.
CREATE TABLE admissions (
    call_id   TEXT    NOT NULL PRIMARY KEY,
    key_id    TEXT    NOT NULL,
    team      TEXT    NOT NULL,
    task      TEXT    NOT NULL,
    month     INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    arguments INTEGER NOT NULL CHECK (arguments >= 0),
    result    INTEGER NOT NULL CHECK (result >= 0),
    cpu       INTEGER NOT NULL CHECK (cpu >= 0)
) STRICT, WITHOUT ROWID;

-- What calls have used, as it came. They are folded into usage and tasks, and
-- removed when they are older than a rate looks back.
CREATE TABLE settlements (
    seq       INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    key_id    TEXT    NOT NULL,
    team      TEXT    NOT NULL,
    task      TEXT    NOT NULL,
    month     INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    calls     INTEGER NOT NULL,
    arguments INTEGER NOT NULL,
    result    INTEGER NOT NULL,
    cpu       INTEGER NOT NULL,
    wall      INTEGER NOT NULL
) STRICT;

CREATE TABLE usage (
    month     INTEGER NOT NULL,
    team      TEXT    NOT NULL,
    key_id    TEXT    NOT NULL,
    calls     INTEGER NOT NULL,
    arguments INTEGER NOT NULL,
    result    INTEGER NOT NULL,
    cpu       INTEGER NOT NULL,
    wall      INTEGER NOT NULL,
    PRIMARY KEY (month, team, key_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE tasks (
    team   TEXT    NOT NULL,
    task   TEXT    NOT NULL,
    began  INTEGER NOT NULL,
    last   INTEGER NOT NULL,
    calls  INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    cpu    INTEGER NOT NULL,
    PRIMARY KEY (team, task)
) STRICT, WITHOUT ROWID;

CREATE INDEX tasks_last ON tasks (last);
