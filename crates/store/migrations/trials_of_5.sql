-- Trials of format 5 as rows of format 6. Passes and latency had columns of their own, and were
-- empty in `detail`, which begins with `{"passes":[]`.
SELECT run_id, seq,
    '{"seq":' || seq || ',"cell":{"session":' || session || ',"block":' || block
    || ',"layer":' || layer || ',"point":' || point || '},"at_ms":' || at_ms
    || ',"trial":' || CASE WHEN detail IS NULL THEN 'null' ELSE
        replace('{"passes":' || passes || substr(detail, 13), '"latency":null',
            '"latency":' || CASE WHEN histogram IS NULL THEN 'null' ELSE
                '{"min":' || latency_min || ',"mean":' || printf('%!.17g', latency_mean)
                || ',"p50":' || latency_p50 || ',"p99":' || latency_p99
                || ',"p999":' || latency_p999 || ',"max":' || latency_max
                || ',"histogram":' || json_quote(histogram) || '}' END) END
    || ',"error":' || json_quote(error) || ',"upkeep_ns":' || upkeep_ns
    || ',"foreign_cpu":' || printf('%!.17g', foreign_cpu) || ',"steal":' || printf('%!.17g', steal)
    || ',"backing_resident":' || CASE WHEN backing_resident IS NULL THEN 'null'
        ELSE printf('%!.17g', backing_resident) END
    || ',"flags":' || flags || '}' AS trial
FROM old_trials
