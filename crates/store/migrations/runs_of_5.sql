-- Runs of format 5 as rows of format 6. `json_quote` and `printf` are SQLite's; 17 digits are every
-- bit of a number.
SELECT r.id, r.name, r.started_ms, r.ended_ms, r.status,
    (SELECT count(*) FROM old_points AS p WHERE p.run_id = r.id) AS point_count,
    '{"id":' || json_quote(r.id) || ',"version":' || json_quote(r.version)
    || ',"started_ms":' || r.started_ms
    || ',"ended_ms":' || coalesce(CAST(r.ended_ms AS TEXT), 'null')
    || ',"status":' || json_quote(r.status) || ',"seed":' || r.seed || ',"dir":' || json_quote(r.dir)
    || ',"plan":' || r.plan || ',"machine":' || r.machine || ',"points":[],"layers":['
    || coalesce((
        SELECT string_agg(
            '{"spec":' || json_quote(l.spec) || ',"name":' || json_quote(l.name)
            || ',"status":' || json_quote(l.status) || ',"reason":' || json_quote(l.reason)
            || ',"hint":' || json_quote(l.hint) || ',"facts":' || l.facts
            || ',"setup_s":' || printf('%!.17g', l.setup_s) || ',"self_test":' || l.self_test
            || ',"read_only":' || CASE WHEN l.read_only <> 0 THEN 'true' ELSE 'false' END
            || ',"skips":' || l.skips
            || ',"control":' || CASE WHEN l.control <> 0 THEN 'true' ELSE 'false' END || '}',
            ',' ORDER BY l.idx)
        FROM old_layers AS l WHERE l.run_id = r.id), '')
    || ']}' AS run,
    '[' || coalesce((
        SELECT string_agg(
            '{"workload":' || json_quote(p.workload) || ',"label":' || json_quote(p.label)
            || ',"params":' || p.params || ',"meaning":' || coalesce(p.meaning, 'null') || '}',
            ',' ORDER BY p.idx)
        FROM old_points AS p WHERE p.run_id = r.id), '')
    || ']' AS points
FROM old_runs AS r
