-- Images that are made, and the last that were. state: 1 it runs, 2 it is done or
-- has failed, 3 its daemon died. text is what is said of it, JSON.
CREATE TABLE image_jobs (
    id    TEXT    NOT NULL PRIMARY KEY,
    call  TEXT    NOT NULL,
    state INTEGER NOT NULL CHECK (state BETWEEN 1 AND 3),
    began INTEGER NOT NULL,
    ended INTEGER NOT NULL CHECK ((ended = 0) = (state = 1)),
    text  BLOB    NOT NULL
) STRICT;
