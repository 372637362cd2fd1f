-- Images that are made, and the last that were. ended is 0 while one is made, or
-- where its daemon died and there was none since. text is what is said of it, JSON.
CREATE TABLE image_jobs (
    id    TEXT    NOT NULL PRIMARY KEY,
    call  TEXT    NOT NULL,
    began INTEGER NOT NULL,
    ended INTEGER NOT NULL,
    text  BLOB    NOT NULL
) STRICT;
