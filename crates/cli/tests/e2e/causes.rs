//! Causes beside other programs, of layers that flush late, and of limits that refill.

use std::{
    fs::{self, File},
    io::Write,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    common::{Lm, disk_dir, has_fuse, machine, needs_root, skipped},
    places::has,
};

const APPEND: [&str; 5] = ["file", "--op", "append", "--sync", "each"];

/// A run of flushed appends, as JSON.
fn appends(lm: Lm, layers: &[&str]) -> Value {
    let said = lm
        .work_with(&APPEND, layers)
        .args(["--blocks", "8", "--sessions", "1", "--json"])
        .run();
    assert!(matches!(said.code, Some(0 | 4)), "{}", said.stderr);
    said.left_nothing().json()
}

fn rows(report: &Value) -> impl Iterator<Item = &Value> {
    report["results"].as_array().expect("results").iter()
}

fn row<'a>(report: &'a Value, layer: &str) -> &'a Value {
    let found = rows(report).find(|r| r["layer"] == layer);
    found.unwrap_or_else(|| panic!("no {layer}: {report:#}"))
}

/// Writes 30 MB/s until it is told to end, and at most two minutes.
fn write_beside(file: &Path, over: &AtomicBool) {
    let mut file = File::create(file).expect("a file");
    for _ in 0..3600 {
        if over.load(Ordering::Relaxed) {
            return;
        }
        file.write_all(&vec![7; 1 << 20]).expect("written");
        file.sync_data().expect("flushed");
        thread::sleep(Duration::from_millis(33));
    }
}

fn beside_a_writer(layers: &[&str]) -> Value {
    let (temp, over) = (disk_dir(), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| write_beside(&temp.path().join("beside"), &over));
        let report = std::panic::catch_unwind(|| appends(Lm::new(), layers));
        over.store(true, Ordering::Relaxed);
        report.expect("a report")
    })
}

/// "It writes 2.05 bytes to the device for each byte" and "0.111 bytes": those of another program.
#[test]
fn a_writer_beside_a_run_gives_no_cause_by_bytes() {
    if !needs_root() || !has_fuse() || !has("mkfs.ext4") {
        return;
    }
    let report = beside_a_writer(&["overlay:upper", "fuse", "loop:ext4"]);
    let physical = &row(&report, "native")["device_others"];
    if !physical.is_number() {
        return skipped("no device is known below the directory of the tests");
    }
    assert!(rows(&report).any(|r| r["device_others"].as_f64() > Some(0.1)));
    // A loop device counts what is its own, and native's count may have been taken where the writer slept.
    let native_alone = physical.as_f64() <= Some(0.1);
    for row in rows(&report) {
        let told = row["reasons"].to_string();
        let both_known = native_alone && row["layer"] == "loop:ext4";
        assert!(
            both_known || !told.contains("bytes to its device"),
            "{row:#}"
        );
        let others = row["device_others"].as_f64().expect("windows");
        let share = row["device_share"].as_f64();
        if row["layer"] == "loop:ext4" {
            // Its own device, whose journal and blocks of 4 KiB are not those of the disk below.
            assert!(share.is_some_and(|s| (1.0..100.0).contains(&s)), "{row:#}");
        } else {
            assert_eq!(share.is_none(), others > 0.1, "{row:#}");
        }
    }
}

/// A server that answers fsync and flushes 200 ms later: "other programs flushed in 27 of 27 trials".
#[test]
fn a_server_that_flushes_late_is_told_from_other_programs() {
    if !needs_root() || !has_fuse() {
        return;
    }
    let late = "fuse:fsync=late";
    // Other tests may flush at the same time: not in each of three runs.
    for _ in 0..3 {
        let report = appends(Lm::new(), &[late]);
        let durability = &row(&report, late)["durability"];
        assert_ne!(durability["verdict"], "honoured", "{durability:#}");
        if durability["verdict"] == "late" {
            let of = |name: &str| durability["late"][name].as_u64();
            assert!(of("later") >= Some(8), "{durability:#}");
            assert!(of("turns") >= Some(4), "{durability:#}");
            let native = &row(&report, "native")["durability"];
            assert_ne!(native["verdict"], "late", "{native:#}");
            let findings = report["findings"].to_string();
            let words = "answers fsync before the device is flushed";
            assert!(findings.contains(words), "{findings}");
            return;
        }
        // One trial in which nothing else was flushed shows that its own flushes were not either.
        let why = &durability["because"];
        let told = ["cannot tell", "absorbed"].map(Value::from);
        assert!(told.contains(&durability["verdict"]), "{durability:#}");
        skipped(&format!("whether {late} is late: {why}"));
    }
}

/// An honest server is not said to be late, whatever other programs flush meanwhile.
#[test]
fn a_server_that_flushes_before_it_answers_is_not_late() {
    if !needs_root() || !has_fuse() {
        return;
    }
    let report = beside_a_writer(&["fuse"]);
    for row in rows(&report) {
        assert_ne!(row["durability"]["verdict"], "late", "{row:#}");
    }
}

/// A place with a small part of a CPU looks faster in short turns than it is.
#[test]
fn a_quota_that_refills_between_turns_shows_without_pauses() {
    if !needs_root() {
        return;
    }
    let Some(group) = machine::QuotaGroup::with(4_000) else {
        return skipped("no control group with a CPU quota can be made");
    };
    let lm = Lm::new();
    let place = lm.dir.path().join("place");
    fs::create_dir(&place).expect("a place");
    let enter = lm.dir.path().join("enter.sh");
    let procs = group.procs();
    let script = format!("echo $$ > {}\nexec \"$@\"\n", procs.display());
    fs::write(&enter, script).expect("a script");
    let layer = format!(
        "exec:sh {},dir={},label=place",
        enter.display(),
        place.display()
    );
    let work = [
        "file",
        "--op",
        "write",
        "--record",
        "4K",
        "--file-size",
        "64K",
        "--direct",
    ];
    let said = lm
        .work_with(&work, &[&layer])
        .args(["--blocks", "4", "--sessions", "1", "--json"])
        .run();
    assert!(matches!(said.code, Some(0 | 4)), "{}", said.stderr);
    let report = said.json();
    let row = row(&report, "place");
    let sustained = &row["sustained"];
    let ratios = sustained["ratios"].as_array().expect("stretches");
    assert!((1..=2).contains(&ratios.len()), "{row:#}");
    // Beside other programs the turns are slow too.
    let average = row["ratio"]["average"]["estimate"].as_f64();
    let slow = |r: &Value| r.as_f64() > average.map(|average| 1.5 * average);
    let findings = report["findings"].to_string();
    assert!(
        !findings.contains("at a stretch") || ratios.len() == 2 && ratios.iter().all(slow),
        "{findings}"
    );
    let limit = &sustained["limit"];
    assert_eq!(
        (&limit["of"], &limit["rate"]),
        (&json!("cpu"), &json!(0.04))
    );
    let caveats = report["caveats"].to_string();
    let words = "the probe of `place` may use 0.04 CPUs";
    assert!(caveats.contains(words), "{caveats}");
    drop(group);
}

/// In turns a quota refills: "3.5x" and "changed during the run".
#[test]
fn a_cpu_quota_is_a_fact_and_a_caveat() {
    if !needs_root() || !has_fuse() {
        return;
    }
    let Some(group) = machine::QuotaGroup::with(20_000) else {
        return skipped("no control group with a CPU quota can be made");
    };
    let enter = format!("echo $$ > {}", group.procs().display());
    let work = ["file", "--op", "rand-read", "--file-size", "256K"];
    let Some(lm) = Lm::new()
        .work_with(&work, &["fuse:cache=none"])
        .around(&enter, "")
    else {
        return;
    };
    let said = lm
        .args(["--blocks", "4", "--sessions", "1", "--json"])
        .run();
    assert!(matches!(said.code, Some(0 | 4)), "{}", said.stderr);
    let report = said.json();
    for layer in report["layers"].as_array().expect("layers") {
        let limit = &layer["facts"]["limits"][0];
        assert_eq!(limit["of"], "cpu", "{limit}");
        assert_eq!(limit["helper"], false, "{limit}");
        assert_eq!(limit["rate"], 0.2, "{limit}");
    }
    let throttled = &row(&report, "fuse:cache=none")["throttled"];
    assert!(throttled["times"].as_u64() > Some(0), "{throttled}");
    let caveats = report["caveats"].to_string();
    let words = "Limits that refill: each probe may use 0.2 CPUs (cpu.";
    assert!(caveats.contains(words), "{caveats}");
}

/// A directory on a file system in user space whose server has a quota: 20x, without a cause.
#[test]
fn a_quota_of_the_server_of_a_directory_is_a_fact() {
    if !needs_root() || !has_fuse() || !has("gocryptfs") {
        return;
    }
    let Some(group) = machine::QuotaGroup::with(20_000) else {
        return skipped("no control group with a CPU quota can be made");
    };
    let procs = group.procs();
    let mount = format!(
        "mkdir $W/cipher $W/plain; echo secret > $W/../key; gocryptfs -q -init -passfile $W/../key $W/cipher; \
         sh -c 'echo $$ > {}; exec gocryptfs -q -passfile $W/../key $W/cipher $W/plain'",
        procs.display()
    );
    let lm = Lm::new();
    let layer = format!("dir:{}/plain", lm.work().display());
    let work = ["file", "--op", "rand-read", "--file-size", "256K"];
    let lm = lm
        .work_with(&work, &[&layer])
        .around(&mount, "umount $W/plain");
    let Some(lm) = lm else {
        return;
    };
    let said = lm
        .args(["--blocks", "2", "--sessions", "1", "--json"])
        .run();
    let report = said.json();
    let layers = report["layers"].as_array().expect("layers");
    let facts = |name: &str| &layers.iter().find(|l| l["name"] == name).expect("a layer")["facts"];
    if facts(&layer)["mounts"][0]["fs"] != "fuse.gocryptfs" {
        return skipped(&said.stderr);
    }
    assert_eq!(facts(&layer)["notes"]["encryption"], "gocryptfs");
    // The server ends some moments after its mount.
    layermark_testkit::wait_for("the end of the server", || {
        let pids = fs::read_to_string(&procs).ok()?;
        pids.is_empty().then_some(())
    });
    let limits = &facts(&layer)["limits"];
    if limits.is_null() && !tells_servers() {
        return skipped("this kernel does not tell who serves a file system (Linux 6.18 does)");
    }
    assert_eq!(
        (&limits[0]["helper"], &limits[0]["rate"]),
        (&true.into(), &0.2.into()),
        "{limits}"
    );
    assert!(facts("native")["limits"].is_null());
}

/// Whether the kernel has `fuse_connection` in the fdinfo of `/dev/fuse`.
fn tells_servers() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("a release");
    let mut numbers = release
        .split('.')
        .map_while(|part| part.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(18))
}
