//! `layermark http`: a web server behind a path, and at a URL of the user's; and what cannot be asked for.

use std::{
    io::{Read, Write},
    net::TcpListener,
    thread,
};

use crate::common::{Lm, figures, result, skipped};

#[test]
fn a_server_behind_a_namespace_is_set_beside_the_loopback() {
    let args = [
        "http",
        "--concurrency",
        "4",
        "--connection",
        "keep-alive,close",
        "--body",
        "1K,100K",
        "--blocks",
        "3",
        "--json",
    ];
    let report = Lm::new()
        .work_with(&args, &["netns"])
        .run()
        .left_nothing()
        .json();
    // Absent where nothing is.
    let mut left_out = report["left_out"].as_array().into_iter().flatten();
    if let Some(why) = left_out.find(|l| l["layer"] == "netns") {
        return skipped(&format!("no network namespace: {}", why["reason"]));
    }
    for label in ["1K body, 4 at once", "100K body, 4 at once, close"] {
        let through = result(&report, label, "netns");
        assert_eq!(through["unit"], "trans/s", "{through:#}");
        assert!(
            through["ratio"]["estimate"].as_f64() > Some(0.0),
            "{through:#}"
        );
        for layer in ["native", "netns"] {
            let row = figures(&report, label, layer);
            for figure in [
                "requests_s",
                "request_us",
                "across_us",
                "body_mb_s",
                "near_cpu_us",
                "far_cpu_us",
                "ceiling_percent",
            ] {
                assert!(row[figure].as_f64() > Some(0.0), "{figure}: {row:#}");
            }
            for percent in [50, 66, 75, 80, 90, 95, 98, 99, 100] {
                let within = &row[format!("within_{percent}_us")];
                assert!(within.as_f64() > Some(0.0), "{percent}: {row:#}");
            }
            assert_eq!((&row["one_host"], &row["checked"]), (&1.into(), &1.into()));
            assert_eq!(row["concurrency"], 4);
            let server = row["server"].as_str().unwrap();
            assert!(
                server.starts_with("nginx/") || server.starts_with("layermark/"),
                "{server}"
            );
            let made = row["connections"].as_u64().unwrap();
            assert_eq!(made > 0, label.ends_with("close"), "{row:#}");
        }
    }
}

#[test]
fn each_server_answers_at_a_rate() {
    for server in ["own", "nginx", "apache"] {
        let args = [
            "http",
            "--server",
            server,
            "--rate",
            "500",
            "--concurrency",
            "4",
            "--blocks",
            "2",
            "--json",
        ];
        let run = Lm::new().work_with(&args, &["native"]).run().left_nothing();
        let report = run.json();
        let rows = report["figures"][0]["rows"].as_array();
        let Some([row]) = rows.map(Vec::as_slice) else {
            let error = &report["trials"][0]["error"];
            let error = error.as_str().unwrap_or_default();
            assert!(
                error.contains("was not found in") || error.contains("does not serve as root"),
                "{report:#}"
            );
            skipped(error);
            continue;
        };
        let row = &row["values"];
        assert_eq!(row["rate"], 500, "{row:#}");
        assert!(
            row["requests_s"].as_f64().is_some_and(|rate| rate <= 520.0),
            "{row:#}"
        );
        let name = if server == "own" { "layermark" } else { server };
        let said = row["server"].as_str().unwrap().to_lowercase();
        assert!(said.starts_with(name), "{row:#}");
    }
}

/// A web server of the user's. Returns its port.
fn page() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || {
                let mut request = [0; 4096];
                while stream.read(&mut request).is_ok_and(|length| length > 0) {
                    let answer =
                        b"HTTP/1.1 200 OK\r\nServer: mine/7\r\nContent-Length: 5\r\n\r\nhello";
                    if stream.write_all(answer).is_err() {
                        return;
                    }
                }
            });
        }
    });
    port
}

#[test]
fn a_url_of_the_users_has_one_end() {
    let url = format!("http://localhost:{}/x?y=1", page());
    let args = [
        "http",
        &url,
        "--concurrency",
        "2",
        "--blocks",
        "3",
        "--json",
    ];
    let report = Lm::new().work_with(&args, &[]).run().code(0).json();
    let row = figures(&report, &format!("{url}, 2 at once"), "native");
    assert_eq!(
        (&row["server"], &row["checked"]),
        (&"mine/7".into(), &1.into())
    );
    assert!(
        row["far_cpu_us"].is_null() && row["requests_s"].as_f64() > Some(0.0),
        "{row:#}"
    );
    assert_eq!(
        report["layers"].as_array().unwrap().len(),
        1,
        "nothing to compare it with"
    );
}

/// A port that podman publishes by slirp4netns, by pasta or by a proxy is a URL each: they take turns in each block.
#[test]
fn several_urls_take_turns_and_are_compared_with_the_first() {
    let urls = [page(), page(), page()].map(|port| format!("http://127.0.0.1:{port}/"));
    let [first, second, third] = urls.each_ref().map(String::as_str);
    let args = ["http", first, second, third, "--concurrency", "1"];
    let more = ["--blocks", "3", "--sessions", "1", "--json"];
    let args = [&args[..], &more].concat();
    let report = Lm::new().work_with(&args, &[]).run().code(0).json();
    let all = report["alternatives"].as_array().expect("alternatives");
    assert_eq!(all.len(), 2, "{all:#?}");
    for row in all {
        assert_eq!(row["blocks"], 3, "{row:#}");
        assert!(row["ratio"]["estimate"].as_f64() > Some(0.0), "{row:#}");
    }
    let points = |block: u64| -> Vec<&serde_json::Value> {
        let trials = report["trials"].as_array().expect("trials").iter();
        trials
            .filter(|t| t["block"] == block)
            .map(|t| &t["point"])
            .collect()
    };
    assert_eq!(points(0).len(), 3, "each in each block: {:?}", points(0));
}

#[test]
fn what_cannot_be_asked_for_is_a_usage_error() {
    for (args, words) in [
        (&["https://localhost/"][..], &["https is not supported"][..]),
        (&["localhost:80"], &["must begin with http://"]),
        (
            &["http://localhost/", "-l", "netns"],
            &["layer netns", "from this host"],
        ),
        (
            &["http://localhost/", "--body", "1K"],
            &["`--body` has no effect"],
        ),
        (&["--remote"], &["`--remote` has no effect without a URL"]),
        (&["--concurrency", "0"], &["`--concurrency` = 0"]),
        (&["--server", "iis"], &["iis", "nginx"]),
        (
            &["--time", "1s"],
            &["`--time` has no effect without a `--rate`"],
        ),
    ] {
        let args = [&["http"], args].concat();
        Lm::new().work_with(&args, &[]).run().fails(2, words);
    }
}

#[test]
fn another_machine_is_not_asked_by_accident() {
    // TEST-NET-1, which nobody has (RFC 5737).
    let args = ["http", "http://192.0.2.1/", "--blocks", "1"];
    let run = Lm::new().work_with(&args, &[]).run();
    run.fails(1, &["192.0.2.1", "another machine"]);
}
