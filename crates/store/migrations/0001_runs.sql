-- SQLite and PostgreSQL both take this: BIGINT for whole numbers and switches, DOUBLE PRECISION
-- for measured values, TEXT for words, JSON and base64. Seeds are unsigned and so are TEXT.
CREATE TABLE runs (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    started_ms BIGINT NOT NULL,
    ended_ms BIGINT,
    status TEXT NOT NULL,
    seed TEXT NOT NULL,
    dir TEXT NOT NULL,
    plan TEXT NOT NULL,
    machine TEXT NOT NULL
);

CREATE INDEX runs_by_time ON runs (started_ms, id);

CREATE TABLE layers (
    run_id TEXT NOT NULL REFERENCES runs (id),
    idx BIGINT NOT NULL,
    name TEXT NOT NULL,
    spec TEXT NOT NULL,
    status TEXT NOT NULL,
    reason TEXT,
    hint TEXT,
    facts TEXT NOT NULL,
    setup_s DOUBLE PRECISION NOT NULL,
    self_test TEXT NOT NULL,
    read_only BIGINT NOT NULL,
    control BIGINT NOT NULL,
    PRIMARY KEY (run_id, idx)
);

CREATE TABLE points (
    run_id TEXT NOT NULL REFERENCES runs (id),
    idx BIGINT NOT NULL,
    workload TEXT NOT NULL,
    label TEXT NOT NULL,
    params TEXT NOT NULL,
    PRIMARY KEY (run_id, idx)
);

CREATE TABLE trials (
    run_id TEXT NOT NULL REFERENCES runs (id),
    seq BIGINT NOT NULL,
    session BIGINT NOT NULL,
    block BIGINT NOT NULL,
    layer BIGINT NOT NULL,
    point BIGINT NOT NULL,
    at_ms BIGINT NOT NULL,
    error TEXT,
    -- The trial's value; the passes it is the median of are kept beside it.
    ns_per_op DOUBLE PRECISION,
    passes TEXT,
    latency_min BIGINT,
    latency_mean DOUBLE PRECISION,
    latency_p50 BIGINT,
    latency_p99 BIGINT,
    latency_p999 BIGINT,
    latency_max BIGINT,
    histogram TEXT,
    -- CPU, device bytes, debt, cache, verification: everything else the probe said, as JSON.
    detail TEXT,
    upkeep_ns BIGINT NOT NULL,
    foreign_cpu DOUBLE PRECISION NOT NULL,
    steal DOUBLE PRECISION NOT NULL,
    backing_resident DOUBLE PRECISION,
    flags TEXT NOT NULL,
    PRIMARY KEY (run_id, seq)
);
