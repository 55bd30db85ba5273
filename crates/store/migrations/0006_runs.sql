-- SQLite and PostgreSQL both take this. Columns are what queries select by; everything else is JSON.
CREATE TABLE runs (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    started_ms BIGINT NOT NULL,
    ended_ms BIGINT,
    status TEXT NOT NULL,
    point_count BIGINT NOT NULL,
    -- `Run`, without its points: it is written again during the run, and they never change.
    run TEXT NOT NULL,
    points TEXT NOT NULL
);

CREATE INDEX runs_by_time ON runs (started_ms, id);

-- For the list of runs. `spec` and `name` are in the run too.
CREATE TABLE layers (
    run_id TEXT NOT NULL REFERENCES runs (id),
    idx BIGINT NOT NULL,
    name TEXT NOT NULL,
    spec TEXT NOT NULL,
    control BIGINT NOT NULL,
    PRIMARY KEY (run_id, idx)
);

-- Runs of a layer are found without reading the table.
CREATE INDEX layers_by_spec ON layers (control, spec, run_id);

CREATE TABLE trials (
    run_id TEXT NOT NULL REFERENCES runs (id),
    seq BIGINT NOT NULL,
    -- `TrialRecord`
    trial TEXT NOT NULL,
    PRIMARY KEY (run_id, seq)
);

-- Results of other programs. A store of format 5 has this table already.
CREATE TABLE IF NOT EXISTS imports (
    id TEXT NOT NULL PRIMARY KEY,
    imported_ms BIGINT NOT NULL,
    file TEXT NOT NULL,
    format TEXT NOT NULL,
    tool TEXT NOT NULL,
    measured TEXT,
    notes TEXT NOT NULL,
    points TEXT NOT NULL,
    point_count BIGINT NOT NULL
);

CREATE INDEX IF NOT EXISTS imports_by_time ON imports (imported_ms, id);
