use serde_json::{Value, json};

use crate::workloads::file::tests::points;
use layermark_model::Point;

/// File and record in kB, with operation and engine.
fn cells(points: &[Point]) -> Vec<(u64, u64, &str, &str)> {
    points
        .iter()
        .map(|p| {
            let kb = |name| p.number(name) >> 10;
            (
                kb("file_size"),
                kb("record"),
                p.text("op"),
                p.text("engine"),
            )
        })
        .collect()
}

fn like(letters: &str) -> Vec<Point> {
    points(&json!({ "like": letters })).unwrap_or_else(|e| panic!("{letters}: {e}"))
}

#[test]
fn the_whole_matrix_is_iozones() {
    let all = points(&json!({"matrix": "iozone"})).unwrap();
    assert_eq!(all.len(), 126 * 13, "rows times columns");
    let to_64m = points(&json!({"matrix": "iozone", "max_file_size": "64M"})).unwrap();
    assert_eq!(to_64m.len(), 99 * 13);
    let first: Vec<_> = cells(&all).into_iter().take(13).collect();
    let row = [
        ("write", "sync"),
        ("rewrite", "sync"),
        ("read", "sync"),
        ("reread", "sync"),
        ("rand-read", "sync"),
        ("rand-write", "sync"),
        ("backward-read", "sync"),
        ("record-rewrite", "sync"),
        ("stride-read", "sync"),
        ("write", "stdio"),
        ("rewrite", "stdio"),
        ("read", "stdio"),
        ("reread", "stdio"),
    ];
    let expected: Vec<_> = row
        .iter()
        .map(|(op, engine)| (64, 4, *op, *engine))
        .collect();
    assert_eq!(first, expected);
    let least = |file: u64| {
        let records = cells(&all).into_iter().filter(|c| c.0 == file).map(|c| c.1);
        records.min().unwrap()
    };
    assert_eq!(
        (least(16 << 10), least(32 << 10), least(512 << 10)),
        (4, 64, 64)
    );
    assert!(all.iter().all(|p| p.number("min_ms") == 1));
}

#[test]
fn iozones_letters_mean_the_same_as_the_fields() {
    for (letters, fields) in [
        ("-Racb", json!({"matrix": "iozone", "sync": "close"})),
        (
            "-a -g 64M -e",
            json!({"matrix": "iozone", "max_file_size": "64M", "sync": "fsync"}),
        ),
        (
            "-a -g 64M -c -e",
            json!({"matrix": "iozone", "max_file_size": "64M", "sync": "fsync-close"}),
        ),
        (
            "-ec -a -g 64M -c",
            json!({"matrix": "iozone", "max_file_size": "64M", "sync": "fsync-close"}),
        ),
        (
            "-ag 65536 -z",
            json!({"matrix": "iozone", "max_file_size": "64M", "no_cut_off": true}),
        ),
        (
            "-az -n 1m -g 2m -y 4 -q 8k",
            json!({"matrix": "iozone", "min_file_size": "1M",
            "max_file_size": "2M", "record": "4K,8K"}),
        ),
        (
            "-i 0 -i1 -r 4k -s 1m",
            json!({"matrix": "iozone", "tests": "write,read",
            "record": "4K", "file_size": "1M"}),
        ),
        (
            "-t 2 -i 8 -+p 50",
            json!({"matrix": "iozone", "threads": 2, "tests": "mix",
            "read_share": 50, "record": "4K", "file_size": "512K"}),
        ),
        (
            "-I -O -N -b x.xls -f /tmp/x",
            json!({"matrix": "iozone", "direct": true,
            "record": "4K", "file_size": "512K"}),
        ),
        (
            "-B -U /mnt -+n -i 0 -i 1",
            json!({"matrix": "iozone", "engine": "mmap", "cache": "cold",
            "no_retest": true, "tests": "write,read", "record": "4K", "file_size": "512K"}),
        ),
        (
            "-E -+D -V 5 -r 64",
            json!({"matrix": "iozone", "tests": "usual,pwrite,pread,pwritev,preadv",
            "sync": "odsync", "verify": true, "record": "64K", "file_size": "512K"}),
        ),
        (
            "-j 5 -i 5 -s 128k",
            json!({"matrix": "iozone", "tests": "stride", "stride": 5,
            "record": "4K", "file_size": "128K"}),
        ),
    ] {
        assert_eq!(like(letters), points(&fields).unwrap(), "{letters}");
    }
    assert_eq!(like("-a -i 2").len(), 2 * 126);
    assert_eq!(like("-aE").len(), 126 * (13 + 8));
    assert_eq!(like("-i 0 -+n").len(), 1);
}

#[test]
fn writers_owe_with_the_largest_record_and_files_gone_over_are_kept() {
    let all = points(&json!({"matrix": "iozone", "max_file_size": "64M"})).unwrap();
    let is = |p: &Point, name: &str| p.params[name] == Value::Bool(true);
    for p in &all {
        let (file, record) = (p.number("file_size"), p.number("record"));
        let (op, largest) = (p.text("op"), file.min(16 << 20) == record);
        let over = ["rewrite", "rand-write", "record-rewrite"].contains(&op);
        let writes = over || op == "write";
        assert_eq!(is(p, "no_debt"), writes && !largest, "{}", p.label);
        assert_eq!(is(p, "keep"), over, "{}", p.label);
        // As iozone, which gives none.
        let no_advice = !["backward-read", "stride-read", "record-rewrite"].contains(&op);
        assert_eq!(is(p, "no_advice"), no_advice, "{}", p.label);
    }
    let asked =
        json!({"matrix": "iozone", "max_file_size": "64K", "no_debt": false, "keep": false});
    let all = points(&asked).unwrap();
    assert!(all.iter().all(|p| !is(p, "no_debt") && !is(p, "keep")));
}

#[test]
fn what_is_written_out_beside_the_letters_wins() {
    let all =
        points(&json!({"like": "-Racb -g 64M", "max_file_size": "64K", "sync": "fsync"})).unwrap();
    assert_eq!(all.len(), 5 * 13);
    assert!(all.iter().any(|p| p.text("sync") == "fsync"));
    assert!(all.iter().all(|p| p.text("sync") != "close"));
}

#[test]
fn the_stdio_tests_of_a_direct_matrix_are_not_direct() {
    for p in like("-I -i 0 -i 6") {
        assert_eq!(p.flag("direct"), p.text("engine") != "stdio", "{}", p.label);
    }
}

#[test]
fn letters_that_cannot_be_honoured_are_errors_that_say_so() {
    for (letters, says) in [
        ("-x", "-x is not among"),
        ("-aX", "-X is not among"),
        ("-+d", "-+d is not among"),
        ("-+p x", "-+p x: it takes percent"),
        ("-S 512", "-S is not among"),
        ("a", "`a` is not an option"),
        ("-", "`-` is not an option"),
        ("-i", "-i needs a value"),
        ("-i 13", "tests are 0 to 12"),
        ("-i x", "a whole number"),
        ("-r", "-r needs a value"),
        ("-r -a", "-r needs a value"),
        ("-r 4q", "takes a size"),
        ("-co", "-c and -o together"),
        ("-g 64M", "belong to -a"),
        ("-a -y 64 -q 4", "-y is above -q"),
        ("-a -i 8", "at least 2 threads"),
        ("-a -n 64M -g 1M", "is above `max_file_size`"),
        ("-B -I", "O_DIRECT"),
        ("-Bo", "through a mapping"),
        ("-r 16m", "larger than every file"),
    ] {
        let e = points(&json!({ "like": letters })).expect_err(letters);
        assert!(e.message.contains(says), "{letters}: {e}");
        assert!(e.hint.is_some(), "{letters}");
    }
    for (params, says) in [
        (json!({"tests": "read"}), "without `matrix`"),
        (json!({"no_retest": true}), "without `matrix`"),
        (
            json!({"matrix": "iozone", "op": "read"}),
            "`op` has no effect",
        ),
        (json!({"matrix": "iozone", "tests": "raed"}), "not known"),
        (json!({"matrix": "bonnie"}), "not known"),
        (json!({"like": 7}), "must be text"),
        (json!({"like": ["-a"]}), "must be text"),
    ] {
        let e = points(&params).expect_err(&params.to_string());
        assert!(e.message.contains(says), "{params}: {e}");
    }
}

#[test]
fn a_scaled_matrix_has_each_cell_once() {
    let params = json!({"matrix": "iozone", "max_file_size": "1M"});
    let Value::Object(params) = params else {
        panic!("no table")
    };
    let settings = layermark_model::Settings {
        workload: "file".into(),
        label: Some("m".into()),
        params,
    };
    let all = crate::workloads::file::points::points(&settings, 0.1).unwrap();
    let mut labels: Vec<&str> = all.iter().map(|p| p.label.as_str()).collect();
    labels.sort_unstable();
    labels.dedup();
    assert_eq!(labels.len(), all.len());
}

proptest::proptest! {
    #[test]
    fn no_letters_panic(letters in "[-+a-zA-Z0-9 ]{0,24}") {
        let _ = points(&json!({ "like": letters }));
    }
}
