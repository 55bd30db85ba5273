//! Runs of the workload `file` whose costs are given by a function.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::{collections::BTreeMap, sync::Arc};

use layermark_model::{
    CacheState, Cell, CpuUse, Debt, Device, DeviceBytes, Facts, GUEST_DISK, GUEST_NIC, GuestFacts,
    LayerRun, LayerStatus, Machine, Meaning, Mount, NEAR, Pass, Plan, Point, Run, RunStatus,
    SelfTest, Settings, Spec, StoreOption, Target, Trial, TrialRecord, Unit, witness::WitnessTrial,
};
use layermark_probe::workloads;
use layermark_report::Report;
use serde_json::{Map, Value, json};

/// Microseconds an operation by layer, point and record (bytes).
type Cost = Box<dyn Fn(&str, &Point, f64) -> f64>;
/// What else a trial has, by layer, point and block.
type Change = fn(&str, &Point, u32, &mut Trial);

pub struct Made {
    run: Run,
    blocks: u32,
    cost: Cost,
    change: Change,
    noise: f64,
}

/// A layer's name as texts mark it.
pub fn mark(layer: &str) -> String {
    format!("`{layer}`")
}

impl Made {
    pub fn new(layers: &[&str], blocks: u32) -> Self {
        let plan: Plan = serde_json::from_value(json!({
            "name": "made", "layers": layers, "work": [{"workload": "file"}]
        }))
        .expect("a plan");
        let run = Run {
            id: "01JMADE".into(),
            version: "0.1.0".into(),
            started_ms: 0,
            ended_ms: Some(1),
            status: RunStatus::Done,
            seed: 3,
            dir: "/srv".into(),
            plan,
            machine: Machine {
                kernel: "6".into(),
                os: "Debian".into(),
                cpu: "a made-up CPU".into(),
                cpus: 2,
                memory: 1 << 34,
                clocksource: "tsc".into(),
                hypervisor: false,
                privilege: "root".into(),
                base: "ext4 on vda".into(),
                label: None,
            },
            layers: layers.iter().map(|l| layer(l)).collect(),
            points: Vec::new(),
            cut: None,
            sustained: Vec::new(),
            fleet: None,
            sent: false,
            store: StoreOption::default(),
        };
        Self {
            run,
            blocks,
            cost: Box::new(|_, _, record| 1.0 + 1e-4 * record),
            change: |_, _, _, _| {},
            noise: 0.02,
        }
    }

    pub fn study(mut self, id: &str) -> Self {
        let root = env!("CARGO_MANIFEST_DIR");
        let text = std::fs::read_to_string(format!("{root}/../../plans/{id}.toml"));
        let plan = Plan::from_toml(&text.expect("a plan file")).expect("a plan");
        (self.run.plan.study, self.run.plan.claim) = (plan.study, plan.claim);
        self
    }

    /// A point for each record size.
    pub fn points(self, op: &str, records: &[u64], file_size: u64) -> Self {
        self.points_with(op, records, file_size, &json!({}))
    }

    /// The same with more parameters.
    pub fn points_with(mut self, op: &str, records: &[u64], file_size: u64, more: &Value) -> Self {
        for record in records {
            let mut params: Map<String, Value> = serde_json::from_value(json!({
                "op": op, "record": record, "file_size": file_size, "threads": 1, "sync": "none",
                "cache": "warm", "engine": "sync"
            }))
            .expect("a table");
            params.extend(more.as_object().expect("a table").clone());
            let mut point = Point {
                work: None,
                workload: "file".into(),
                label: format!("{op} {record} of {file_size} {more}"),
                params,
                meaning: Meaning::default(),
                needs: Arc::default(),
            };
            point.meaning = meant(&point);
            self.run.points.push(point);
        }
        self
    }

    /// Launches of these programs, cold and warm.
    pub fn launches(mut self, programs: &[&str]) -> Self {
        let named = programs.iter().map(|program| Settings {
            workload: "launch".into(),
            label: Some((*program).into()),
            params: serde_json::Map::new(),
        });
        let first = self.run.plan.work.len();
        self.run.plan.work.extend(named);
        let each = programs.iter().zip(first..);
        for ((program, work), cache) in each.flat_map(|p| [(p, "cold"), (p, "warm")]) {
            let params = json!({
                "command": program, "ready": "exit", "cache": cache, "record": 1, "file_size": 1
            });
            let cache = match cache {
                "cold" => CacheState::Cold,
                _ => CacheState::Warm,
            };
            let meaning = Meaning {
                operation: (*program).into(),
                target: Target::Program,
                unit: Unit::Launch,
                cache: Some(cache),
                ..Meaning::default()
            };
            let label = format!("{program} ({})", cache.word());
            let point = Point::new("launch", label, &params, meaning);
            let mut point = point.expect("a table");
            point.work = Some(work);
            self.run.points.push(point);
        }
        self
    }

    /// Scripts of so many users.
    pub fn scripts(mut self, users: &[u64]) -> Self {
        for users in users {
            let params = json!({"users": users, "job_set": "cc", "jobs": 40});
            let label = format!("{users} users");
            let point = Point::new("devload", label, &params, Meaning::default());
            let mut point = point.expect("a table");
            point.meaning = layermark_probe::workloads::meaning(&point);
            let size = json!({"record": 1, "file_size": users});
            point
                .params
                .extend(size.as_object().expect("a table").clone());
            self.run.points.push(point);
        }
        self
    }

    /// The points of a workload as its user would ask for them. A trial moves 1 MiB.
    pub fn work(mut self, settings: &Value) -> Self {
        let settings: Settings = serde_json::from_value(settings.clone()).expect("settings");
        let workload = workloads::find(&settings.workload).expect("a workload");
        let points = workloads::points(workload, &settings, 1.0).expect("points");
        let size = json!({"record": 1024, "file_size": 1 << 20});
        for mut point in points {
            let size = size.as_object().expect("a table").clone();
            point.params.extend(size);
            self.run.points.push(point);
        }
        self
    }

    /// CPUs of the machine.
    pub fn cpus(mut self, cpus: u32) -> Self {
        self.run.machine.cpus = cpus;
        self
    }

    pub fn confirm(mut self, labels: &[&str]) -> Self {
        self.run.plan.confirm = labels.iter().map(|l| (*l).to_owned()).collect();
        self
    }

    pub fn cost(mut self, cost: impl Fn(&str, &Point, f64) -> f64 + 'static) -> Self {
        self.cost = Box::new(cost);
        self
    }

    pub fn change(mut self, change: Change) -> Self {
        self.change = change;
        self
    }

    /// Blocks of the run.
    pub fn blocks(mut self, blocks: u32) -> Self {
        self.blocks = blocks;
        self
    }

    pub fn noise(mut self, share: f64) -> Self {
        self.noise = share;
        self
    }

    pub fn read_only(mut self, layer: &str) -> Self {
        let found = self.run.layers.iter_mut().find(|l| l.name == layer);
        found.expect("a layer").read_only = true;
        self
    }

    /// The layer is a guest whose CPU is emulated.
    pub fn emulated(mut self, layer: &str) -> Self {
        let found = self.run.layers.iter_mut().find(|l| l.name == layer);
        found.expect("a layer").facts.guest = Some(GuestFacts {
            accelerator: "tcg".into(),
            emulated_cpu: true,
            ..GuestFacts::default()
        });
        self
    }

    /// Power cuts of a layer, or of one that was only cut.
    pub fn power_cut(mut self, trial: WitnessTrial) -> Self {
        let layers = &mut self.run.layers;
        let own = layers.iter().position(|l| l.name == trial.layer);
        layers[own.unwrap_or(0)].facts.power_cuts.push(trial);
        self
    }

    pub fn build(self) -> Report {
        let (run, trials) = self.parts();
        Report::build(&run, &trials)
    }

    /// The run and its trials.
    pub fn parts(self) -> (Run, Vec<TrialRecord>) {
        let mut trials = Vec::new();
        let mut state = 9u64;
        for block in 0..self.blocks {
            for (p, point) in self.run.points.iter().enumerate() {
                for (l, layer) in self.run.layers.iter().enumerate() {
                    if layer.read_only && point.text("op").contains("write") {
                        continue;
                    }
                    // `SplitMix64`, as in the sample.
                    state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                    let mut z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                    let noise = (z ^ (z >> 31)) as f64 / u64::MAX as f64 - 0.5;
                    let record = point.number("record");
                    let us = (self.cost)(&layer.name, point, record as f64);
                    let us = us * (1.0 + 2.0 * self.noise * noise);
                    let mut trial = trial(point, us);
                    (self.change)(&layer.name, point, block, &mut trial);
                    trials.push(TrialRecord {
                        seq: trials.len() as u64,
                        cell: Cell {
                            session: 0,
                            block,
                            layer: l,
                            point: p,
                        },
                        at_ms: trials.len() as u64,
                        trial: Some(trial),
                        ..TrialRecord::default()
                    });
                }
            }
        }
        (self.run, trials)
    }
}

/// What the workload says of a point that has some of its parameters.
fn meant(point: &Point) -> Meaning {
    let mut whole = point.clone();
    let rest = json!({
        "direct": false, "passes": 0, "verify": false, "latency": true, "pattern": "random"
    });
    for (key, value) in rest.as_object().expect("a table") {
        whole.params.entry(key).or_insert_with(|| value.clone());
    }
    let meaning = layermark_probe::workloads::meaning(&whole);
    assert_ne!(meaning, Meaning::default(), "{whole:?}");
    meaning
}

fn trial(point: &Point, us: f64) -> Trial {
    let (size, record) = (point.number("file_size"), point.number("record"));
    let ops = (size / record).max(1);
    let elapsed_ns = (us * 1e3 * ops as f64) as u64;
    let writes = point.text("op").contains("write");
    Trial {
        passes: vec![Pass {
            elapsed_ns,
            ops,
            bytes: size,
            ..Pass::default()
        }],
        cpu: CpuUse {
            user_ns: elapsed_ns / 10,
            sys_ns: elapsed_ns / 2,
        },
        device: Some(DeviceBytes::default()),
        debt: writes.then_some(Debt {
            bytes: Some(size),
            seconds: 0.25,
        }),
        resident: Some(1.0),
        ..Trial::default()
    }
}

/// Notes of the devices of the guests at the ends of a layer.
fn devices_of_guests(spec: &Spec) -> BTreeMap<String, String> {
    let (near, far) = spec.ends();
    let ends = [(NEAR, near), ("", far)].into_iter();
    let guests = ends.filter(|(_, end)| end.layer == "vm");
    let notes = guests.flat_map(|(prefix, guest)| {
        let defaults = [(GUEST_DISK, "virtio-blk"), (GUEST_NIC, "virtio-net")];
        defaults.map(|(device, usual)| {
            let model = guest.options.get(device).map_or(usual, String::as_str);
            (format!("{prefix}{device}"), model.to_owned())
        })
    });
    notes.collect()
}

fn layer(name: &str) -> LayerRun {
    let spec: Spec = name.parse().expect("a spec");
    let facts = Facts {
        mounts: vec![Mount {
            at: "/srv/layer".into(),
            fs: "ext4".into(),
            source: name.into(),
            options: "rw".into(),
        }],
        devices: vec![Device {
            name: "vda".into(),
            number: "254:0".into(),
            write_cache: "write back".into(),
            fua: false,
            rotational: false,
            physical: true,
            own: false,
        }],
        notes: devices_of_guests(&spec),
        ..Facts::default()
    };
    LayerRun {
        spec,
        name: name.into(),
        status: LayerStatus::Ready,
        reason: None,
        hint: None,
        enough_s: None,
        facts,
        setup_s: 0.01,
        self_test: SelfTest {
            clock_ns: 20.0,
            loop_ns: 30.0,
            null_ns: 35.0,
            ..SelfTest::default()
        },
        read_only: false,
        skips: std::collections::BTreeMap::new(),
        control: false,
    }
}
