-- Workspaces of teams: which version is the newest (0: none), and who may write
-- the next until when, in nanoseconds since 1970-01-01 UTC ('' and 0: nobody).
CREATE TABLE workspaces (
    team   TEXT    NOT NULL,
    name   TEXT    NOT NULL,
    head   INTEGER NOT NULL CHECK (head >= 0),
    holder TEXT    NOT NULL,
    until  INTEGER NOT NULL,
    PRIMARY KEY (team, name)
) STRICT, WITHOUT ROWID;

-- Their versions. manifest is the digest of a blob of the team's.
CREATE TABLE versions (
    team     TEXT    NOT NULL,
    name     TEXT    NOT NULL,
    number   INTEGER NOT NULL CHECK (number >= 1),
    manifest BLOB    NOT NULL CHECK (length(manifest) = 32),
    call_id  TEXT    NOT NULL,
    at       INTEGER NOT NULL,
    files    INTEGER NOT NULL,
    bytes    INTEGER NOT NULL,
    PRIMARY KEY (team, name, number)
) STRICT, WITHOUT ROWID;
