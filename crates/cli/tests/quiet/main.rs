//! What the product must say about real layers on the real disk: facts and words, no tight timings.
//! Verdicts depend on time, so no other test program runs meanwhile, and these tests run in turn.

#[path = "../e2e/common/mod.rs"]
mod common;

use std::sync::{Mutex, MutexGuard, PoisonError};

use common::{Lm, needs_root, result};
use serde_json::Value;

/// Held while a test measures.
fn quiet() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A report of real measurements; nothing else was measured meanwhile.
struct Measured {
    report: Value,
    text: String,
    code: Option<i32>,
}

/// In as many blocks as verdicts need. Not for a time: on a slow disk that would be too few.
fn measure(args: &[&str], layers: &[&str]) -> Measured {
    measure_in("12", args, layers)
}

fn measure_in(blocks: &str, args: &[&str], layers: &[&str]) -> Measured {
    let _quiet = quiet();
    let mut measured = once(blocks, args, layers);
    // Where the machine changed under the run the report rightly gives no number.
    for _ in 0..2 {
        let rows = measured.report["results"].as_array().expect("results");
        if rows.iter().all(|r| r["steady"] != false) {
            break;
        }
        eprintln!("measured again: no steady state\n{}", measured.text);
        measured = once(blocks, args, layers);
    }
    measured
}

fn once(blocks: &str, args: &[&str], layers: &[&str]) -> Measured {
    let flags = ["--blocks", blocks, "--json"];
    let said = Lm::new()
        .work_with(args, layers)
        .args(flags)
        .run()
        .left_nothing();
    let (report, code) = (said.json(), said.code);
    let text = said
        .then()
        .args(["report", "last", "--full"])
        .run()
        .code(0)
        .stdout;
    Measured { report, text, code }
}

impl Measured {
    /// The only point's row in a layer.
    #[track_caller]
    fn row(&self, layer: &str) -> &Value {
        let rows = self.report["results"].as_array().expect("results");
        let row = rows.iter().find(|r| r["layer"] == layer);
        row.unwrap_or_else(|| panic!("no row for {layer}\n{}", self.text))
    }

    fn ratio(&self, layer: &str) -> f64 {
        let row = self.row(layer);
        row["ratio"]["estimate"]
            .as_f64()
            .unwrap_or_else(|| panic!("{row:#}\n{}", self.text))
    }

    fn op_us(&self, layer: &str) -> f64 {
        self.row(layer)["op_us"]
            .as_f64()
            .unwrap_or_else(|| panic!("{}", self.text))
    }

    fn verdict(&self, layer: &str) -> &str {
        self.row(layer)["verdict"].as_str().expect("a verdict")
    }

    /// Everything that is said about a layer's row.
    fn remarks(&self, layer: &str) -> String {
        let row = self.row(layer);
        format!(
            "{} {} {} {}",
            row["reasons"], row["untrusted"], row["flags"], row["durability"]
        )
    }

    #[track_caller]
    fn check(&self, good: bool, what: &str) {
        assert!(good, "{what} (exit code {:?})\n{}", self.code, self.text);
    }
}

#[test]
fn a_first_write_to_a_packaged_file_pays_for_the_copy_up() {
    let args = [
        "file",
        "--op",
        "first-write",
        "--record",
        "4K",
        "--file-size",
        "16M",
    ];
    let m = measure(&args, &["overlay:writecopy", "overlay:merged"]);
    let (copied, native) = (m.op_us("overlay:writecopy"), m.op_us("native"));
    m.check(
        m.verdict("overlay:writecopy") == "slower",
        "writecopy is slower",
    );
    m.check(
        copied > native + 1000.0,
        "copying 16 MiB takes more than a millisecond",
    );
    m.check(
        m.remarks("overlay:writecopy").contains("copy-up"),
        "the reason is named",
    );
    m.check(m.text.contains("copy-up"), "also in words");
    let merged = m.op_us("overlay:merged");
    m.check(
        merged < native + (copied - native) / 4.0,
        "without a copy it costs little",
    );
    m.check(
        !m.remarks("overlay:merged").contains("copy-up"),
        "and none is named",
    );
}

#[test]
fn a_new_file_in_the_upper_layer_pays_for_no_copy_up() {
    let args = [
        "file",
        "--op",
        "write",
        "--record",
        "64K",
        "--file-size",
        "4M",
        "--sync",
        "fsync",
    ];
    let m = measure(&args, &["overlay:upper", "overlay:merged"]);
    for layer in ["overlay:upper", "overlay:merged"] {
        m.check(m.ratio(layer) < 3.0, "no copy-up in it");
        m.check(!m.remarks(layer).contains("copy-up"), "and none is named");
    }
}

#[test]
fn a_volatile_overlay_is_faster_because_it_skips_the_flush() {
    let args = [
        "file",
        "--op",
        "rand-write",
        "--record",
        "4K",
        "--file-size",
        "1M",
        "--sync",
        "each",
    ];
    let m = measure(&args, &["overlay:volatile", "overlay:upper"]);
    m.check(
        m.verdict("overlay:volatile") == "faster",
        "volatile is faster",
    );
    let remarks = m.remarks("overlay:volatile");
    m.check(
        remarks.contains("absorbed") && remarks.contains("skips fsync"),
        &remarks,
    );
    m.check(m.text.contains("fsync"), "also in words");
    let native = m.row("native");
    m.check(
        native["durability"]["verdict"] == "honoured",
        "native flushes",
    );
    m.check(
        m.row("overlay:upper")["durability"]["verdict"] != "absorbed",
        "so does the honest overlay",
    );
}

#[test]
fn fuse_adds_time_to_every_operation_on_a_name() {
    let args = ["meta", "--op", "open-stat", "--files", "100"];
    let m = measure(&args, &["fuse"]);
    m.check(m.verdict("fuse") == "slower", "fuse is slower");
    m.check(
        m.row("fuse")["extra_us"]["estimate"].as_f64() > Some(1.0),
        "it adds microseconds",
    );
    m.check(
        m.row("fuse")["cpu_us_per_op"]["upkeep"].as_f64() > Some(0.0),
        "its server uses CPU",
    );
}

/// Without a cache each file costs the same few requests, so twice the delay adds twice the time. A
/// busy machine wakes late, each time by the same.
#[test]
fn an_injected_delay_is_recovered() {
    let args = ["meta", "--op", "open-stat", "--files", "20"];
    let (none, one, two) = (
        "fuse:cache=none",
        "fuse:cache=none,delay=1ms",
        "fuse:cache=none,delay=2ms",
    );
    let m = measure_in("3", &args, &[none, one, two]);
    let [one, two] = [one, two].map(|layer| m.op_us(layer) - m.op_us(none));
    m.check(one >= 1000.0, &format!("{one} us were added"));
    m.check(
        (1.6..2.1).contains(&(two / one)),
        &format!("{one} us for 1 ms, {two} us for 2 ms"),
    );
}

#[test]
fn a_read_only_image_is_left_out_of_writing_and_does_not_fail() {
    if !needs_root() {
        return;
    }
    let args = [
        "file",
        "--op",
        "read",
        "--op",
        "write",
        "--record",
        "64K",
        "--file-size",
        "1M",
    ];
    let images = ["image:squashfs", "image:erofs"];
    let m = measure(&args, &images);
    m.check(matches!(m.code, Some(0)), "no failure");
    for image in images {
        let rows = m.report["results"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|r| r["layer"] == image);
        let ops: Vec<&Value> = rows.map(|r| &r["point"]["op"]).collect();
        m.check(ops == ["read"], &format!("{image} only reads: {ops:?}"));
        m.check(m.row(image)["failed_trials"] == 0, "nothing failed");
        let left_out = m.report["left_out"].to_string();
        m.check(
            left_out.contains(image) && left_out.contains("read-only"),
            &left_out,
        );
    }
}

/// Trap 1: a loop device without direct I/O serves `O_DIRECT` from the host's cache.
#[test]
fn a_loop_device_that_serves_direct_reads_from_memory_is_no_plain_win() {
    if !needs_root() {
        return;
    }
    let args = [
        "file",
        "--op",
        "rand-read",
        "--record",
        "4K",
        "--file-size",
        "8M",
        "--direct",
    ];
    let layer = "loop:ext4,direct-io=off";
    let m = measure(&args, &[layer]);
    let remarks = m.remarks(layer);
    let plain =
        m.verdict(layer) == "faster" && !remarks.contains("memory") && !remarks.contains("cache");
    m.check(!plain, &format!("a win without its reason: {remarks}"));
    m.check(
        m.row(layer)["served_by"] != "device",
        "it was not read from the device",
    );
    m.check(m.row("native")["served_by"] == "device", "native was");
}

#[test]
fn a_file_system_that_drops_o_direct_is_found_out() {
    let args = [
        "file",
        "--op",
        "rand-read",
        "--record",
        "4K",
        "--file-size",
        "4M",
        "--direct",
    ];
    let m = measure(&args, &["fuse:direct=drop"]);
    let remarks = m.remarks("fuse:direct=drop");
    m.check(
        remarks.contains("O_DIRECT was accepted and ignored"),
        &remarks,
    );
    m.check(m.text.to_lowercase().contains("o_direct"), "said in words");
    m.check(
        m.verdict("fuse:direct=drop") == "untrusted",
        "such a number is not trusted",
    );
}

#[test]
fn memory_cannot_be_cold_and_that_is_said() {
    let args = [
        "file",
        "--op",
        "read",
        "--cache",
        "cold",
        "--record",
        "64K",
        "--file-size",
        "4M",
    ];
    let m = measure(&args, &["tmpfs", "overlay:upper"]);
    let left_out = m.report["left_out"].to_string();
    m.check(
        left_out.contains("tmpfs") && left_out.contains("memory cannot be cold"),
        &left_out,
    );
    m.check(m.text.contains("memory cannot be cold"), "also in words");
    let native = m.row("native");
    m.check(native["served_by"] != "host memory", "native was cold");
}

#[test]
fn a_run_in_which_nothing_can_be_measured_says_so() {
    let _quiet = quiet();
    let cold = [
        "file",
        "--op",
        "read",
        "--cache",
        "cold",
        "--file-size",
        "1M",
    ];
    let said = Lm::new().work_with(&cold, &["tmpfs"]).run();
    said.fails(1, &["nothing was measured"])
        .prints("Left out")
        .left_nothing();
}

#[test]
fn data_is_verified_on_request() {
    let args = [
        "file",
        "--op",
        "write",
        "--op",
        "read",
        "--record",
        "4K",
        "--file-size",
        "256K",
        "--verify",
    ];
    let m = measure(&args, &["overlay:upper", "fuse"]);
    let trust = m.report["trust"].as_array().expect("trust");
    let verified = trust
        .iter()
        .find(|t| t["id"] == "verified")
        .expect("verified");
    m.check(verified["state"] == "ok", &verified.to_string());
    m.check(m.text.contains("ok Data verified"), "said in words");
}

#[test]
fn the_control_shows_that_native_equals_itself() {
    let _quiet = quiet();
    let lm = Lm::new();
    let work = lm.work();
    let args = [
        "file",
        "--op",
        "read",
        "--record",
        "64K",
        "--file-size",
        "1M",
        "-l",
        "tmpfs",
        // Fewer than changes are looked for in: there is one ratio.
        "--blocks",
        "12",
        "--json",
        "--dir",
    ];
    let said = lm.args(args).args([work]).run().left_nothing();
    let report = said.json();
    let control = &report["control"];
    assert!(
        control["points"] == 1 && control["text"].is_string(),
        "{control:#}"
    );
    let ratio = control["results"][0]["ratio"]["estimate"]
        .as_f64()
        .expect("a ratio");
    assert!(
        (0.5..2.0).contains(&ratio),
        "native against itself: {ratio}"
    );
    result(&report, "read 64K of 1M, warm", "tmpfs");
    assert!(matches!(said.code, Some(0 | 4)), "{}", said.stderr);
}
