//! Both ends of a workload in one process, for its tests.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr},
    process::Command,
};

use layermark_model::{Point, PointError, Settings, Trial, protocol::Peer};
use serde_json::Value;

use crate::{Context, FarEnd, ProbeError, TurnRequest, Turned, Work, Workload};

pub const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// The points of `params`, as in a plan.
pub fn points(workload: &dyn Workload, params: Value) -> Result<Vec<Point>, PointError> {
    let Value::Object(mut params) = params else {
        panic!("not a table")
    };
    params.insert("workload".into(), workload.id().into());
    let settings: Settings = serde_json::from_value(params.into()).unwrap();
    workload.points(&settings, 1.0)
}

/// The only point of `params`.
pub fn point(workload: &dyn Workload, params: Value) -> Point {
    let mut all = points(workload, params).unwrap();
    assert_eq!(all.len(), 1);
    all.remove(0)
}

/// A context for a far end at `port`.
pub fn context(port: u16) -> Context {
    Context {
        peer: Some(Peer {
            address: LOOPBACK,
            port,
            secret: "the secret".into(),
        }),
        ..Context::least()
    }
}

/// A trial, with its far end if it has one.
pub struct Ends {
    pub work: Box<dyn Work>,
    pub far: Option<Box<dyn FarEnd>>,
    pub trial: Trial,
    round: u32,
    dir: tempfile::TempDir,
}

impl Ends {
    pub fn start(workload: &dyn Workload, params: Value) -> Result<Self, ProbeError> {
        let point = point(workload, params);
        let dir = tempfile::tempdir().unwrap();
        let serve = || workload.serve(dir.path(), &point, &context(0));
        let far = point.needs.near.has_two().then(serve).transpose()?;
        let port = far.as_ref().map_or(0, |far| far.port());
        Ok(Self {
            work: workload.prepare(dir.path(), &point, &context(port))?,
            far,
            trial: Trial::default(),
            round: 0,
            dir,
        })
    }

    pub fn turn(&mut self, ms: u64) -> Result<Turned, ProbeError> {
        self.round += 1;
        let ask = TurnRequest {
            round: self.round,
            ns: ms * 1_000_000,
            lead_in_ns: 1_000_000,
        };
        self.work.turn(&ask, &mut self.trial, &mut |_, _| {})
    }

    /// As in the lab: the far end has stopped when the near one ends.
    pub fn end(mut self) -> Trial {
        self.work.settle(&mut self.trial).unwrap();
        if let Some(far) = &mut self.far {
            far.end().unwrap();
        }
        self.work.end(&mut self.trial).unwrap();
        drop((self.work, self.far));
        let left = fs::read_dir(self.dir.path()).unwrap().count();
        assert_eq!(left, 0, "files are left");
        self.trial
    }
}

/// Runs an ignored test of this program in a network namespace.
pub fn in_a_network_of_its_own(test: &str) {
    let mut unshare = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        unshare.args(["-U", "-r"]);
    }
    let output = unshare
        .arg("-n")
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    if said.contains("unshare failed") {
        return eprintln!("skipped: no network namespace here: {said}");
    }
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}"
    );
}
