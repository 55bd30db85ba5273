//! The engine `uring`: queue depth, proof, and what happens where `io_uring` is forbidden.

use crate::common::{Lab, disk, point};
use layermark_model::{DirectIo, Settings, protocol::FromProbe};
use serde_json::{Value, json};

fn file(params: Value) -> layermark_model::Point {
    point("file", params)
}

#[test]
fn every_depth_moves_every_byte() {
    let mut lab = Lab::new();
    for op in [
        "write",
        "rewrite",
        "read",
        "reread",
        "rand-read",
        "rand-write",
    ] {
        for depth in [1, 3, 64] {
            for threads in [1, 2] {
                let p = file(json!({
                    "op": op, "file_size": "1M", "record": "8K", "engine": "uring",
                    "iodepth": depth, "threads": threads, "passes": 2,
                }));
                let trial = lab.trial(&p);
                let expected = (2, 256 * threads, threads * (2 << 20));
                let found = (trial.passes.len(), trial.ops(), trial.bytes());
                assert_eq!(found, expected, "{}", p.label);
                assert!(trial.latency.is_some() && trial.ns_per_op().unwrap() > 0.0);
            }
        }
    }
    lab.end();
}

#[test]
fn what_is_written_one_by_one_is_right_and_what_is_read_is_looked_at() {
    let mut lab = Lab::new();
    for op in ["write", "rand-write", "read", "rand-read"] {
        for sync in ["none", "each"] {
            if sync == "each" && op.contains("read") {
                continue;
            }
            let mut params = json!({
                "op": op, "file_size": "512K", "record": "4K", "engine": "uring", "verify": true, "passes": 1,
            });
            if sync == "each" {
                params["sync"] = sync.into();
            }
            let trial = lab.trial(&file(params));
            let verified = trial.verified.unwrap();
            assert_eq!(verified.bad, 0, "{op} {sync}");
            assert_eq!(
                verified.records,
                if op.contains("read") { 256 } else { 128 }
            );
            assert_eq!(trial.syncs, if sync == "each" { 128 } else { 0 });
        }
    }
    lab.end();
}

/// Little's law: with `depth` under way, each takes `depth` times what the whole takes for one.
#[test]
fn an_operation_takes_from_its_submission_to_its_end() {
    let mut lab = Lab::new();
    lab.min_ms = 30;
    let trial = lab.trial(&file(
        json!({"op": "rand-read", "file_size": "4M", "record": "4K", "engine": "uring", "iodepth": 32}),
    ));
    let latency = trial.latency.clone().unwrap();
    // Over all passes: the median leaves out what a busy machine adds to a few of them.
    let share = latency.mean / (trial.elapsed_ns() as f64 / trial.ops() as f64);
    assert!(share > 8.0 && share < 32.1, "{share}");
    let silent = lab.trial(&file(
        json!({"op": "rand-read", "file_size": "4M", "engine": "uring", "iodepth": 32, "latency": false}),
    ));
    assert!(silent.latency.is_none() && silent.ops() > 0);
    lab.end();
}

#[test]
fn direct_transfers_of_a_deep_queue_are_proved() {
    let mut lab = Lab::new();
    if !disk(&lab) {
        return;
    }
    for op in ["rand-read", "rand-write"] {
        let p = file(json!({
            "op": op, "file_size": "4M", "record": "4K", "engine": "uring", "iodepth": 16,
            "direct": true, "passes": 1,
        }));
        let trial = lab.trial(&p);
        assert_eq!(trial.direct, Some(DirectIo::Honoured), "{op}: {trial:?}");
    }
    lab.end();
}

#[test]
fn a_depth_that_means_nothing_is_refused() {
    let refused = |params: Value| {
        let Value::Object(params) = params else {
            panic!("not a table")
        };
        let settings = Settings {
            workload: "file".into(),
            label: None,
            params,
        };
        let file = layermark_probe::workloads::find("file").unwrap();
        file.points(&settings, 1.0).expect_err("an error")
    };
    let e = refused(json!({"op": "read", "iodepth": 8}));
    assert!(e.message.contains("engine pread has one operation"), "{e}");
    assert!(e.hint.unwrap().contains("uring"));
    for bad in [
        json!({"op": "read", "engine": "uring", "iodepth": 0}),
        json!({"op": "read", "engine": "uring", "iodepth": 1025}),
        json!({"op": "write", "engine": "uring", "iodepth": 2, "sync": "each"}),
        json!({"op": "read", "engine": "uring", "iodepth": 2, "verify": true}),
        json!({"op": "first-write", "engine": "uring", "iodepth": 2}),
        json!({"op": "read", "engine": "uring", "iodepth": 1024, "record": "4M"}),
    ] {
        assert!(refused(bad.clone()).message.starts_with("file: "), "{bad}");
    }
}

/// As in a container whose seccomp filter knows no `io_uring`: the point fails, the probe lives.
#[test]
fn where_it_is_forbidden_the_point_says_so_and_others_go_on() {
    std::thread::spawn(|| {
        forbid::io_uring().unwrap();
        // The probe's threads inherit the filter.
        let mut lab = Lab::new();
        let settings = json!({"op": "read", "file_size": "64K", "engine": "uring"});
        match lab.prepare(&file(settings)) {
            FromProbe::Error {
                message,
                hint,
                errno,
                ..
            } => {
                assert!(message.contains("io_uring is refused"), "{message}");
                let hint = hint.unwrap();
                assert!(
                    hint.contains("seccomp") && hint.contains("engine pread"),
                    "{hint}"
                );
                assert_eq!(errno, Some(libc::EPERM));
            }
            other => panic!("{other:?}"),
        }
        let trial = lab.trial(&file(json!({"op": "read", "file_size": "64K"})));
        assert!(trial.ops() > 0);
        lab.end();
    })
    .join()
    .unwrap();
}

mod forbid {
    //! A seccomp filter for the calling thread and those that it starts.
    #![allow(unsafe_code)] // prctl(2)

    use std::io;

    /// `io_uring_setup` fails with EPERM from now on; all else goes through.
    pub fn io_uring() -> io::Result<()> {
        let step = |code: u32, k, jt, jf| libc::sock_filter {
            code: code as u16,
            jt,
            jf,
            k,
        };
        let mut steps = [
            // The number of the call is the first word of `struct seccomp_data`.
            step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
            step(
                libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
                libc::SYS_io_uring_setup as u32,
                0,
                1,
            ),
            step(
                libc::BPF_RET | libc::BPF_K,
                libc::SECCOMP_RET_ERRNO | libc::EPERM as u32,
                0,
                0,
            ),
            step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0),
        ];
        let program = libc::sock_fprog {
            len: steps.len() as u16,
            filter: steps.as_mut_ptr(),
        };
        // SAFETY: `program` and its steps live through both calls, which only read them.
        let result = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                &raw const program,
            )
        };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}
