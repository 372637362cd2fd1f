-- Events of version 2 commit to a salted body, so that the body can be erased:
-- then body is empty, salt is NULL, and pruned is the event that says so.
ALTER TABLE events ADD COLUMN salt BLOB;
ALTER TABLE events ADD COLUMN commitment BLOB;
ALTER TABLE events ADD COLUMN pruned INTEGER NOT NULL DEFAULT 0;

CREATE INDEX events_about ON events (chain, kind, seq) WHERE call_id IS NULL;

-- The only change of an event: its body goes, and an event after it says so.
DROP TRIGGER events_update;
CREATE TRIGGER events_update BEFORE UPDATE ON events
WHEN NEW.body <> '' OR NEW.salt IS NOT NULL OR NEW.pruned <= NEW.seq OR OLD.body = ''
    OR OLD.commitment IS NULL OR OLD.call_id IS NULL
    OR (NEW.chain, NEW.seq, NEW.kind, NEW.call_id, NEW.instance, NEW.at, NEW.prev, NEW.hash, NEW.commitment)
        IS NOT (OLD.chain, OLD.seq, OLD.kind, OLD.call_id, OLD.instance, OLD.at, OLD.prev, OLD.hash, OLD.commitment)
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;

ALTER TABLE calls ADD COLUMN team TEXT NOT NULL DEFAULT '';

-- The key of calls stands at the end of each of these by itself.
CREATE INDEX calls_caller ON calls (caller);
CREATE INDEX calls_team ON calls (team);
CREATE INDEX calls_tool ON calls (tool);
CREATE INDEX calls_outcome ON calls (outcome) WHERE outcome > 1;
CREATE INDEX calls_reason ON calls (reason) WHERE reason > 0;

-- A call whose bodies are gone may lose its names, or its whole entry.
DROP TRIGGER calls_update;
CREATE TRIGGER calls_update BEFORE UPDATE ON calls
WHEN OLD.last <> 0 AND EXISTS (SELECT 1 FROM events e WHERE e.call_id = OLD.call_id AND e.body <> '')
BEGIN SELECT RAISE(ABORT, 'the call has ended'); END;

DROP TRIGGER calls_delete;
CREATE TRIGGER calls_delete BEFORE DELETE ON calls
WHEN OLD.last = 0 OR EXISTS (SELECT 1 FROM events e WHERE e.call_id = OLD.call_id AND e.body <> '')
BEGIN SELECT RAISE(ABORT, 'calls are not removed'); END;

-- What a call tried to reach: derived from its ending.
CREATE TABLE call_hosts (
    host    TEXT NOT NULL,
    call_id TEXT NOT NULL,
    PRIMARY KEY (host, call_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX call_hosts_call ON call_hosts (call_id);

INSERT OR IGNORE INTO call_hosts (host, call_id)
SELECT json_extract(a.value, '$.host'), e.call_id
FROM events e, json_each(CASE WHEN json_valid(e.body) THEN e.body ELSE '{}' END, '$.egress.attempts') a
WHERE e.kind = 2 AND e.call_id IS NOT NULL AND json_type(a.value, '$.host') = 'text' AND json_extract(a.value, '$.host') <> '';
