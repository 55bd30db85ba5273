//! `layermark net`: what a path between two ends costs, as netperf tells it; and what cannot be asked for.

use serde_json::Value;

use crate::common::{Lm, figures, result, skipped};

/// A run over the loopback and through a network namespace; `None` where none can be made.
fn beside_a_namespace(args: &[&str]) -> Option<Value> {
    let args = [args, &["--blocks", "3", "--json"]].concat();
    let report = Lm::new()
        .work_with(&args, &["netns"])
        .run()
        .left_nothing()
        .json();
    // Absent where nothing is.
    let mut left_out = report["left_out"].as_array().into_iter().flatten();
    if let Some(why) = left_out.find(|l| l["layer"] == "netns") {
        skipped(&format!("no network namespace: {}", why["reason"]));
        return None;
    }
    Some(report)
}

#[test]
fn transactions_through_a_namespace_are_set_beside_the_loopback() {
    let Some(report) = beside_a_namespace(&["net", "--op", "rr,crr,udp-rr"]) else {
        return;
    };
    for label in ["rr, 1/1 bytes", "crr, 1/1 bytes", "udp-rr, 1/1 bytes"] {
        let through = result(&report, label, "netns");
        assert_eq!(through["unit"], "trans/s", "{through:#}");
        assert!(
            through["ratio"]["estimate"].as_f64() > Some(0.0),
            "{through:#}"
        );
        for layer in ["native", "netns"] {
            let row = figures(&report, label, layer);
            for figure in ["trans_s", "p50_us", "near_cpu_us", "ceiling_percent"] {
                assert!(row[figure].as_f64() > Some(0.0), "{figure}: {row:#}");
            }
            assert_eq!(row["one_host"], 1, "{row:#}");
            // On a busy machine an answer over UDP may be late.
            let (sent, lost) = (&row["sent"], &row["lost"]);
            assert!(
                lost.as_u64() == Some(0) || lost.as_u64() < sent.as_u64(),
                "{row:#}"
            );
            assert!(row["mbit_s"].is_null(), "{row:#}");
        }
    }
}

#[test]
fn streams_say_what_their_buffers_became() {
    let args = [
        "net",
        "--op",
        "stream,maerts",
        "--socket-buffer",
        "32K,auto",
    ];
    let Some(report) = beside_a_namespace(&args) else {
        return;
    };
    for op in ["stream", "maerts"] {
        let small = format!("{op}, 128K messages, 32K socket buffers");
        for layer in ["native", "netns"] {
            let row = figures(&report, &small, layer);
            assert_eq!(row["socket_buffer"], 32768, "{row:#}");
            for end in ["near", "far"] {
                // Linux doubles what it is asked for.
                let buffer = &row[format!("{end}.send_buffer")];
                assert_eq!(*buffer, 65536, "{row:#}");
            }
            assert!(row["mbit_s"].as_f64() > Some(0.0), "{row:#}");
            assert!(
                row["trans_s"].is_null() && row["p50_us"].is_null(),
                "{row:#}"
            );
        }
        let free = figures(&report, &format!("{op}, 128K messages"), "netns");
        assert!(free["socket_buffer"].is_null(), "{free:#}");
    }
}

#[test]
fn what_cannot_be_asked_for_is_a_usage_error() {
    for (args, words) in [
        (&["--op", "tcp-rr"][..], &["tcp-rr", "udp-rr"][..]),
        (&["--op", "rr", "--request", "0"], &["`--request` = 0"]),
        (&["--op", "rr", "--request", "huge"], &["huge"]),
        (&["--op", "udp-rr", "--request", "64K"], &["65507"]),
        (
            &["--op", "stream", "--socket-buffer", "2T"],
            &["socket-buffer"],
        ),
        (
            &["--op", "rr", "--message", "1K"],
            &["`--message` has no effect"],
        ),
    ] {
        let args = [&["net"], args].concat();
        Lm::new()
            .work_with(&args, &["native"])
            .run()
            .fails(2, words);
    }
}
