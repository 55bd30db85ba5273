//! Guests: boot time, duration of a request, cost while idle, six at once, and drift of the clock
//! while other programs use the CPU.

use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail};
use layermark_layers::{LayerError, Place, Spec, find};

use crate::{
    opened::Opened,
    results::{Claim, lacks},
};

/// Number of guests booted one after the other.
const BOOTS: usize = 5;
/// Number of concurrent guests.
const SIX: usize = 6;
/// Number of readings of a guest's clock, with five requests each.
const LOOKS: usize = 200;
const QUESTIONS: f64 = 5.0;
const IDLE: Duration = Duration::from_secs(10);
const LOADED: Duration = Duration::from_secs(30);

/// Every claim about guests.
pub fn measure(binary: &Path) -> Result<Vec<Claim>> {
    let spec: Spec = "vm:disk=virtio-blk,size=256M".parse()?;
    let layer = find("vm").context("the layer vm")?;
    if lacks("vm", &layer.missing(&spec)) {
        return Ok(Vec::new());
    }
    // Its file system must be able to hold images. One in memory would count as the guests' memory.
    let dir = tempfile::Builder::new()
        .prefix("layermark-bench-")
        .tempdir_in(".")?;
    let bench = Bench {
        binary: binary.canonicalize()?,
        dir: dir.path().canonicalize()?,
        spec,
    };
    let mut claims = bench.boots()?;
    let mut guest = bench.guest("one")?;
    claims.push(round_trip(guest.place.as_mut())?);
    claims.push(idle(guest.place.as_mut())?);
    claims.push(clock(guest.place.as_mut())?);
    drop(guest);
    claims.push(bench.six()?);
    Ok(claims)
}

struct Bench {
    binary: std::path::PathBuf,
    dir: std::path::PathBuf,
    spec: Spec,
}

impl Bench {
    fn guest(&self, name: &str) -> Result<Opened> {
        Opened::new(&self.binary, &self.dir, name, &self.spec)
    }

    fn boots(&self) -> Result<Vec<Claim>> {
        let (mut seconds, mut bytes, mut kvm) = (Vec::new(), 0.0, false);
        for _ in 0..BOOTS {
            let facts = self.guest("boots")?.place.facts()?;
            let note = |name: &str| -> Result<f64> {
                let text = facts.notes.get(name).with_context(|| name.to_owned())?;
                Ok(text.parse()?)
            };
            seconds.push(note("boot_s")?);
            bytes = note("initramfs_bytes")?;
            kvm = facts.guest.is_some_and(|g| !g.emulated_cpu);
        }
        let (what, limit) = if kvm {
            (
                "seconds from QEMU's start to the agent's first word, KVM",
                1.0,
            )
        } else {
            (
                "seconds from QEMU's start to the agent's first word, emulated CPU",
                5.0,
            )
        };
        Ok(vec![
            middle(what, &seconds, limit),
            told("size of the initramfs, MB", bytes / 1e6, 25.0),
        ])
    }

    fn six(&self) -> Result<Claim> {
        let mut guests = Vec::new();
        for n in 0..SIX {
            guests.push(self.guest(&format!("six-{n}"))?);
        }
        let bytes: u64 = ours()?.into_iter().map(proportional).sum();
        if bytes == 0 {
            bail!("the guests' processes are not to be seen in /proc");
        }
        Ok(told(
            "memory of six guests of 512 MiB that are up, GB",
            bytes as f64 / 1e9,
            4.0,
        ))
    }
}

fn told(what: &str, value: f64, at_most: f64) -> Claim {
    Claim {
        what: what.into(),
        value,
        interval: None,
        at_most: Some(at_most),
    }
}

/// Median, with the range as its interval.
fn middle(what: &str, values: &[f64], at_most: f64) -> Claim {
    let at = |q| layermark_stats::quantile(values, q).unwrap_or(f64::NAN);
    Claim {
        what: what.into(),
        value: at(0.5),
        interval: Some((at(0.0), at(1.0))),
        at_most: Some(at_most),
    }
}

fn round_trip(guest: &mut dyn Place) -> Result<Claim> {
    let mut ms = Vec::new();
    for _ in 0..LOOKS {
        let start = Instant::now();
        guest.keeps_time()?;
        ms.push(start.elapsed().as_secs_f64() * 1e3 / QUESTIONS);
    }
    Ok(middle("ms from a question to the agent's answer", &ms, 5.0))
}

fn idle(guest: &mut dyn Place) -> Result<Claim> {
    // Its start-up work has ended by then.
    thread::sleep(Duration::from_secs(5));
    let (start, before) = (Instant::now(), guest.helper_cpu()?.ns);
    thread::sleep(IDLE);
    let used = guest.helper_cpu()?.ns - before;
    let share = used as f64 / start.elapsed().as_nanos() as f64;
    Ok(told("CPU of an idle guest, %", share * 100.0, 1.0))
}

/// Proved drift of the guest's clock while every CPU was wanted twice.
fn clock(guest: &mut dyn Place) -> Result<Claim> {
    let over = AtomicBool::new(false);
    let cpus = thread::available_parallelism()?.get();
    let outcome = thread::scope(|scope| {
        for _ in 0..cpus {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let looked = guest.keeps_time();
        thread::sleep(LOADED);
        let outcome = looked.and_then(|()| guest.keeps_time());
        over.store(true, Ordering::Relaxed);
        outcome
    });
    let percent = match outcome {
        Ok(()) => 0.0,
        Err(LayerError::Clock { percent, .. }) => percent.abs(),
        Err(e) => return Err(anyhow!(e)),
    };
    Ok(told(
        "drift of a guest's clock in 30 s under load, % (0: below 0.1)",
        percent,
        0.1,
    ))
}

/// Child processes of this process.
fn ours() -> Result<Vec<u32>> {
    let mut pids = Vec::new();
    for task in fs::read_dir("/proc/self/task")? {
        let text = fs::read_to_string(task?.path().join("children"))?;
        pids.extend(
            text.split_whitespace()
                .filter_map(|n| n.parse::<u32>().ok()),
        );
    }
    Ok(pids)
}

/// Memory of a process, bytes, with its share of shared pages (`Pss`, proc(5)).
fn proportional(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("Pss:"));
    let kib = line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}
