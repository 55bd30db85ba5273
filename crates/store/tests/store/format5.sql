-- A store of format 5 as layermark 737583e wrote it: its tables, and the rows of `earlier()` in files.rs.
DROP TABLE trials; DROP TABLE layers; DROP TABLE runs;
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
    ns_per_op DOUBLE PRECISION,
    passes TEXT,
    latency_min BIGINT,
    latency_mean DOUBLE PRECISION,
    latency_p50 BIGINT,
    latency_p99 BIGINT,
    latency_p999 BIGINT,
    latency_max BIGINT,
    histogram TEXT,
    detail TEXT,
    upkeep_ns BIGINT NOT NULL,
    foreign_cpu DOUBLE PRECISION NOT NULL,
    steal DOUBLE PRECISION NOT NULL,
    backing_resident DOUBLE PRECISION,
    flags TEXT NOT NULL,
    PRIMARY KEY (run_id, seq)
);
ALTER TABLE points ADD COLUMN meaning TEXT;
ALTER TABLE layers ADD COLUMN skips TEXT NOT NULL DEFAULT '{}';
CREATE INDEX layers_by_spec ON layers (control, spec, run_id);
INSERT INTO runs VALUES('01RUN','x','0.1.0',1,2000,'done','18446744073709551615','/tmp/''quoted'' ä','{"name":"x","about":"","layers":[],"profile":"quick","delta":0.05,"control":true,"scale":1.0,"work":[{"workload":"file","op":["read","write"],"record":4096}]}','{"kernel":"","os":"","cpu":"","cpus":2,"memory":17179869184,"clocksource":"","hypervisor":false,"privilege":"","base":""}');
INSERT INTO layers VALUES('01RUN',0,'native','loop:xfs,direct-io=off','ready',NULL,NULL,'{"mounts":[],"devices":[],"backing":["/a/b.img"],"versions":{},"notes":{"direct_io":"on"}}',0.3000000000000000444,'{"clock_ns":20.1,"loop_ns":0.3,"null_ns":0.3333333333333333}',0,0,'{}');
INSERT INTO layers VALUES('01RUN',1,'native (control)','loop:xfs,direct-io=off','left-out','a "quoted" reason, 💥','look','{"mounts":[],"devices":[],"backing":["/a/b.img"],"versions":{},"notes":{"direct_io":"on"}}',0.10000000000000000555,'{"clock_ns":20.1,"loop_ns":0.3,"null_ns":0.3333333333333333}',0,1,'{"large read":"no ''x''"}');
INSERT INTO points VALUES('01RUN',0,'file','large read','{"cache":"cold","op":"read","record":4096}','{"operation":"read","target":"data","direction":"neither","unit":"operation","concurrency":1,"cache":"cold","axes":[{"quantity":"request-size","key":"record","value":4096}]}');
INSERT INTO trials VALUES('01RUN',0,1,2,1,0,1234,NULL,1.5,'[{"elapsed_ns":100,"ops":3,"bytes":7},{"elapsed_ns":100,"ops":3,"bytes":7}]',1,0.3000000000000000444,2,3,4,5,'AAAB+/=','{"passes":[],"latency":null,"service":null,"response_ns":1.5,"cpu":{"user_ns":1,"sys_ns":2},"spun_ns":0,"busy":0.25,"device":{"read":1,"written":2,"flushes":3},"guest_device":{"read":4,"written":5,"flushes":6},"debt":{"bytes":9,"seconds":3.3333333333333337e-10},"resident":0.1,"direct":"ignored","verified":{"records":5,"bad":1},"syncs":4,"background":{"flushes":7,"ns":8},"idle_flushes":0.5,"figures":{"counted_by":["/proc"],"program":"app","start_ns":9007199254740992.0,"trace.files":["/bin/app"],"trace.lookups":3},"notes":["a note"]}',77,0.29999999999999998889,0.0,0.66666666666666662965,'["contaminated"]');
INSERT INTO trials VALUES('01RUN',1,1,2,1,0,1234,'no: 💥 ''x''; "y" --
',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,77,0.29999999999999998889,0.0,0.66666666666666662965,'["contaminated"]');
INSERT INTO trials VALUES('01RUN',2,1,2,1,0,1234,NULL,NULL,'[]',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'{"passes":[],"latency":null,"service":null,"response_ns":null,"cpu":{"user_ns":0,"sys_ns":0},"spun_ns":0,"busy":null,"device":null,"debt":null,"resident":null,"direct":null,"verified":null,"syncs":0,"notes":[]}',77,0.29999999999999998889,0.0,NULL,'["contaminated"]');
UPDATE _sqlx_migrations SET version = 5;
