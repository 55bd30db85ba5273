-- Results of other programs. Points are JSON: they are read as a whole, and what they hold differs
-- from program to program.
CREATE TABLE imports (
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

CREATE INDEX imports_by_time ON imports (imported_ms, id);
