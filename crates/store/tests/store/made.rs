//! A run and its trials in which every field has a value of its own.

use layermark_model::{
    CacheState, Cell, CpuUse, Debt, DeviceBackground, DeviceBytes, DirectIo, Facts, Latency,
    LayerRun, LayerStatus, Machine, Meaning, Pass, Plan, Quantity, Run, RunStatus, SelfTest, Trial,
    TrialRecord, Verified,
};

fn layer(name: &str, control: bool) -> LayerRun {
    let mut facts = Facts::default();
    facts.backing.push("/a/b.img".into());
    facts.notes.insert("direct_io".into(), "on".into());
    LayerRun {
        spec: "loop:xfs,direct-io=off".parse().unwrap(),
        name: name.into(),
        status: LayerStatus::Ready,
        reason: None,
        hint: None,
        enough_s: None,
        facts,
        setup_s: 0.1,
        self_test: SelfTest {
            clock_ns: 20.1,
            loop_ns: 0.3,
            null_ns: 1.0 / 3.0,
            ..SelfTest::default()
        },
        read_only: false,
        skips: std::collections::BTreeMap::new(),
        control,
    }
}

pub fn run(id: &str, started_ms: i64) -> Run {
    let plan = "name = 'x'\n[[work]]\nworkload = 'file'\nop = ['read', 'write']\nrecord = 4096\n";
    let params = serde_json::json!({ "op": "read", "record": 4096, "cache": "cold" });
    let meaning = Meaning {
        operation: "read".into(),
        cache: Some(CacheState::Cold),
        ..Meaning::default()
    };
    let meaning = meaning.axis(Quantity::RequestSize, "record", 4096);
    Run {
        id: id.into(),
        version: "0.1.0".into(),
        started_ms,
        ended_ms: None,
        status: RunStatus::Running,
        seed: u64::MAX,
        dir: "/tmp/'quoted' \u{e4}".into(),
        plan: Plan::from_toml(plan).unwrap(),
        machine: Machine {
            cpus: 2,
            memory: 1 << 34,
            ..Machine::default()
        },
        layers: vec![layer("native", false), layer("native (control)", true)],
        points: vec![
            layermark_model::Point::new("file", "large read".into(), &params, meaning).unwrap(),
        ],
        cut: None,
        sustained: Vec::new(),
        fleet: None,
        sent: false,
        store: layermark_model::StoreOption::default(),
    }
}

pub fn record(seq: u64) -> TrialRecord {
    TrialRecord {
        seq,
        cell: Cell {
            session: 1,
            block: 2,
            layer: 1,
            point: 0,
        },
        host: None,
        at_ms: 1234,
        trial: Some(Trial {
            passes: vec![
                Pass {
                    elapsed_ns: 100 + seq,
                    ops: 3,
                    bytes: 7,
                    ..Pass::default()
                };
                2
            ],
            latency: Some(Latency {
                min: 1,
                mean: 0.1 + 0.2,
                p50: 2,
                p99: 3,
                p999: 4,
                max: 5,
                histogram: "AAAB+/=".into(),
            }),
            cpu: CpuUse {
                user_ns: 1,
                sys_ns: 2,
            },
            device: Some(DeviceBytes {
                read: 1,
                written: 2,
                flushes: 3,
            }),
            guest_device: Some(DeviceBytes {
                read: 4,
                written: 5,
                flushes: 6,
            }),
            debt: Some(Debt {
                bytes: Some(9),
                seconds: 1e-9 / 3.0,
            }),
            resident: Some(0.1),
            direct: Some(DirectIo::Ignored),
            verified: Some(Verified { records: 5, bad: 1 }),
            syncs: 4,
            background: Some(DeviceBackground {
                flushes: 7,
                read: None,
                written: None,
                ns: 8,
            }),
            idle_flushes: Some(0.5),
            figures: layermark_model::FigureValues::of(&serde_json::json!({
                "program": "app",
                "start_ns": 1_u64 << 53,
                "counted_by": ["/proc"],
                "trace": {"lookups": 3, "files": ["/bin/app"]},
            })),
            notes: vec!["a note".into()],
            response_ns: Some(1.5),
            busy: Some(0.25),
            ..Trial::default()
        }),
        error: None,
        defect: None,
        upkeep_ns: 77,
        foreign_cpu: 0.3,
        steal: 0.0,
        backing_resident: Some(2.0 / 3.0),
        flags: vec!["contaminated".into()],
    }
}
