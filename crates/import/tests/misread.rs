//! Files whose numbers mean something else than they seem to, and files in another dress.

use layermark_import::read;
use layermark_model::{Import, ImportedPoint};
use serde_json::{Value, json};

/// A direction of a fio job: a thousand operations of 4 KiB in a second, each of a millisecond.
fn side() -> Value {
    json!({
        "io_bytes": 4_096_000, "total_ios": 1000, "bw_bytes": 4_096_000, "bw": 4000, "iops": 1000.0, "runtime": 1000,
        "clat_ns": {"max": 5e6, "mean": 9e5, "percentile": {"99.000000": 2e6}},
        "lat_ns": {"max": 5e6, "mean": 1e6},
    })
}

/// The output of fio with one job that reads at random, with more options.
#[allow(clippy::needless_pass_by_value)] // as `json!` gives them
fn output(options: Value) -> Value {
    let mut all = json!({"rw": "randread", "bs": "4k", "size": "64m", "ioengine": "psync"});
    let more = options.as_object().unwrap().clone();
    all.as_object_mut().unwrap().extend(more);
    json!({
        "fio version": "fio-3.36",
        "time": "Tue Nov 14 22:13:20 2023",
        "jobs": [{"jobname": "a", "job options": all, "job_runtime": 1000, "read": side()}],
    })
}

fn import_bytes(bytes: &[u8]) -> Result<Import, String> {
    let temp = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(temp.path(), bytes).unwrap();
    read(temp.path(), None).map_err(|e| format!("{e}\nhint: {}", e.hint()))
}

#[track_caller]
fn import(value: &Value) -> Import {
    import_bytes(serde_json::to_string_pretty(value).unwrap().as_bytes()).unwrap()
}

#[track_caller]
fn only(found: &Import) -> &ImportedPoint {
    assert_eq!(found.points.len(), 1, "{:?}", found.points);
    &found.points[0]
}

#[track_caller]
fn notes(found: &Import, words: &str) {
    let notes = found.notes.join("\n");
    assert!(notes.contains(words), "{words}: {notes}");
}

#[test]
fn an_entry_alone_of_several_threads_is_their_total() {
    let mut group = output(json!({"numjobs": "4"}));
    group["jobs"][0]["job_runtime"] = json!(4000);
    for found in [import(&group), import(&output(json!({"numjobs": "4"})))] {
        let point = only(&found);
        assert_eq!((point.threads, point.one_of), (Some(4), None));
        assert_eq!(point.name, "a");
        assert!(found.notes.is_empty(), "{:?}", found.notes);
    }
}

#[test]
fn the_sum_of_two_jobs_has_the_options_of_neither() {
    let mut sections = output(json!({}));
    sections["jobs"][0]["job_runtime"] = json!(2000);
    let found = import(&sections);
    let point = only(&found);
    assert_eq!((&point.op, point.record), (&None, None));
    assert_eq!((point.threads, point.queue_depth), (Some(2), None));
    notes(&found, "it is the sum of several jobs");
}

#[test]
fn times_that_do_not_fit_the_rate_are_dropped() {
    let mut value = output(json!({"rw": "write", "fsync": "1", "ramp_time": "10s"}));
    let job = &mut value["jobs"][0];
    job["write"] = job["read"].take();
    job["sync"] = json!({"total_ios": 1000, "lat_ns": {"mean": 147e9}});
    let found = import(&value);
    assert_eq!(only(&found).op_us, None);
    assert_eq!(only(&found).ops_per_s, Some(1000.0));
    notes(&found, "do not fit 1000 operations a second");
    // With a queue so many may be in flight.
    let deep = |depth: &str| {
        let mut value = output(json!({"ioengine": "libaio", "iodepth": depth}));
        value["jobs"][0]["read"]["lat_ns"]["mean"] = json!(32e6);
        only(&import(&value)).op_us
    };
    assert_eq!((deep("32"), deep("4")), (Some(32e3), None));
}

#[test]
fn a_time_of_zero_is_none() {
    let mut value = output(json!({"gtod_reduce": "1"}));
    for times in ["lat_ns", "clat_ns"] {
        value["jobs"][0]["read"][times] =
            json!({"max": 0, "mean": 0.0, "percentile": {"99.000000": 0}});
    }
    let point = only(&import(&value)).clone();
    assert_eq!(
        (point.op_us, point.p99_us, point.max_us),
        (None, None, None)
    );
    assert_eq!(point.ops_per_s, Some(1000.0));
    let timed = json!({"results": [
        {"command": "true", "mean": 0.0, "median": 0.0, "times": [0.0], "exit_codes": [0]},
    ]});
    assert_eq!(only(&import(&timed)).op_us, None);
}

#[test]
fn records_of_several_sizes_are_no_record() {
    for more in [
        json!({"bsrange": "4k-64k"}),
        json!({"bssplit": "4k/50:64k/50"}),
        json!({"bs": "16k"}),
    ] {
        let found = import(&output(more));
        assert_eq!(only(&found).record, None, "{:?}", found.points);
        notes(&found, "no single record size");
    }
    // A list has one for each direction.
    assert_eq!(
        only(&import(&output(json!({"bs": "4k,64k"})))).record,
        Some(4096)
    );
}

#[test]
fn what_no_point_of_ours_does_is_named_and_not_compared() {
    for (more, words) in [
        (
            json!({"nrfiles": "10000"}),
            "nrfiles=10000: it works on several files",
        ),
        (
            json!({"rate_iops": "200"}),
            "rate_iops=200: its rate is limited",
        ),
        (json!({"thinktime": "50"}), "thinktime=50: it waits"),
        (
            json!({"random_distribution": "zipf:1.2"}),
            "not evenly distributed",
        ),
    ] {
        let found = import(&output(more));
        assert_eq!(only(&found).op, None);
        notes(&found, words);
    }
    let found = import(&output(json!({"nrfiles": "1", "thinktime": "0"})));
    assert_eq!(only(&found).op.as_deref(), Some("rand-read"));
}

#[test]
fn mixes_and_queues_are_parts_of_the_point() {
    let half = only(&import(&output(
        json!({"rw": "randrw", "rwmixread": "100", "percentage_random": "50"}),
    )))
    .clone();
    assert_eq!(half.op.as_deref(), Some("mix 100 % read 50 % random"));
    for engine in ["rbd", "xnvme", "libblkio", "windowsaio", "libaio"] {
        let deep = only(&import(&output(
            json!({"ioengine": engine, "iodepth": "32"}),
        )))
        .clone();
        assert_eq!(deep.queue_depth, Some(32), "{engine}");
    }
    let mut mixed = output(json!({"rw": "randrw", "rwmixread": "75"}));
    mixed["jobs"][0]["write"] = side();
    mixed["jobs"][0]["write"]["lat_ns"]["mean"] = json!(3e6);
    let found = import(&mixed);
    let point = only(&found);
    assert_eq!(point.op.as_deref(), Some("mix 75 % read 100 % random"));
    assert_eq!(
        (point.ops_per_s, point.op_us),
        (Some(2000.0), None),
        "2 ms do not fit 2000 a second"
    );
    mixed["jobs"][0]["read"]["iops"] = json!(200);
    mixed["jobs"][0]["write"]["iops"] = json!(200);
    let point = only(&import(&mixed)).clone();
    assert_eq!(
        (point.ops_per_s, point.op_us, point.p99_us),
        (Some(400.0), Some(2000.0), None)
    );
    let mut unified = output(json!({"rw": "randrw", "unified_rw_reporting": "1"}));
    let job = unified["jobs"][0].as_object_mut().unwrap();
    let read = job.remove("read").unwrap();
    job.insert("mixed".into(), read);
    let point = only(&import(&unified)).clone();
    assert_eq!(point.op.as_deref(), Some("mix 50 % read 100 % random"));
    let mut trim = output(json!({"rw": "randtrim"}));
    let job = trim["jobs"][0].as_object_mut().unwrap();
    let read = job.remove("read").unwrap();
    job.insert("trim".into(), read);
    assert_eq!(only(&import(&trim)).op, None);
}

#[test]
fn percentiles_of_whole_operations_are_read_too() {
    let mut value = output(json!({"lat_percentiles": "1", "clat_percentiles": "0"}));
    let read = &mut value["jobs"][0]["read"];
    read["clat_ns"]
        .as_object_mut()
        .unwrap()
        .remove("percentile");
    read["lat_ns"]["percentile"] = json!({"99.000000": 3e6});
    assert_eq!(only(&import(&value)).p99_us, Some(3000.0));
}

#[test]
fn older_versions_have_other_units() {
    let mut old = output(json!({}));
    old["fio version"] = json!("fio-3.1");
    old["jobs"][0]["read"]
        .as_object_mut()
        .unwrap()
        .remove("bw_bytes");
    assert_eq!(only(&import(&old)).bytes_per_s, Some(4000.0 * 1024.0));
    let mut older = old.clone();
    older["fio version"] = json!("fio-2.2.10");
    let read = older["jobs"][0]["read"].as_object_mut().unwrap();
    for (new, old) in [("lat_ns", "lat"), ("clat_ns", "clat")] {
        read.remove(new);
        read.insert(
            old.into(),
            json!({"max": 5000, "mean": 1000.0, "percentile": {"99.000000": 2000}}),
        );
    }
    // KiB there.
    read.insert("io_bytes".into(), json!(4000));
    let point = only(&import(&older)).clone();
    assert_eq!(
        (point.op_us, point.p99_us, point.record),
        (Some(1000.0), Some(2000.0), Some(4096))
    );
    older["fio version"] = json!("fio-1.59");
    let error = import_bytes(older.to_string().as_bytes()).unwrap_err();
    assert!(
        error.contains("fio-1.59: only the output of fio 2 and 3"),
        "{error}"
    );
}

#[test]
fn the_same_in_another_dress() {
    let plain = output(json!({}));
    let text = serde_json::to_string_pretty(&plain).unwrap();
    let expected = only(&import(&plain)).clone();
    let mut client = plain.clone();
    let all = client.as_object_mut().unwrap();
    let jobs = all.remove("jobs").unwrap();
    all.insert("client_stats".into(), jobs);
    let wrapped = json!({"host": "x", "fio": plain});
    assert_eq!(only(&import(&client)), &expected);
    // Of two servers, each is one of two, and the sum is of both.
    let one = client["client_stats"][0].clone();
    let mut sum = one.clone();
    sum["jobname"] = json!("All clients");
    client["client_stats"] = json!([one, one, sum]);
    let both = import(&client);
    let told = both.points.iter().map(|p| (p.threads, p.one_of));
    let one = (Some(2), Some(2));
    assert_eq!(told.collect::<Vec<_>>(), [one, one, (Some(2), None)]);
    assert_eq!(only(&import(&wrapped)), &expected);
    let log = format!("bench-1  | {}\n", text.replace('\n', "\nbench-1  | "));
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packed, text.as_bytes()).unwrap();
    for bytes in [
        log.into_bytes(),
        format!("> {text}\n> ").into_bytes(),
        format!("Jobs: 1 (f=1): [r(1)][100.0%][eta 00m:00s]{text}").into_bytes(),
        packed.finish().unwrap(),
    ] {
        assert_eq!(only(&import_bytes(&bytes).unwrap()), &expected);
    }
    let numbers = import(&output(json!({"iodepth": 1, "numjobs": 1, "direct": true})));
    assert_eq!(only(&numbers).direct, Some(true));
}

#[test]
fn what_is_not_utf_8_says_what_to_do() {
    let text = output(json!({"description": "measure"})).to_string();
    let latin: Vec<u8> = text
        .bytes()
        .map(|b| if b == b'u' { 0xfc } else { b })
        .collect();
    let error = import_bytes(&latin).unwrap_err();
    assert!(error.contains("hint: iconv -f LATIN1"), "{error}");
    let wide = [0xfeff].into_iter().chain(text.encode_utf16());
    let wide: Vec<u8> = wide.flat_map(u16::to_le_bytes).collect();
    let error = import_bytes(&wide).unwrap_err();
    assert!(error.contains("hint: iconv -f UTF-16"), "{error}");
    let error = import_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1").unwrap_err();
    assert!(error.contains("spreadsheet"), "{error}");
}

#[test]
fn a_bomb_is_refused() {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let zeros = vec![b' '; 1 << 20];
    for _ in 0..65 {
        std::io::Write::write_all(&mut packed, &zeros).unwrap();
    }
    let error = import_bytes(&packed.finish().unwrap()).unwrap_err();
    assert!(error.contains("more than 64 MiB"), "{error}");
}

#[test]
fn reports_of_different_work_are_all_read() {
    let [mut first, second] = [output(json!({"rw": "read"})), output(json!({}))];
    let text = format!("{first}\n{second}\n");
    let found = import_bytes(text.as_bytes()).unwrap();
    let ops: Vec<_> = found
        .points
        .iter()
        .map(|p| p.op.as_deref().unwrap())
        .collect();
    assert_eq!(ops, ["read", "rand-read"]);
    notes(&found, "2 reports of different work were read");
    // Of the same work the last, with what it says.
    first["jobs"][0]["read"]["iops"] = json!(900);
    let text = format!("{}\n{first}\n", output(json!({"rw": "read"})));
    let found = import_bytes(text.as_bytes()).unwrap();
    assert_eq!(only(&found).ops_per_s, Some(900.0));
    let timed =
        |command: &str| json!({"results": [{"command": command, "mean": 0.01, "median": 0.01}]});
    let text = format!("{}\n{}\n", timed("true"), timed("false"));
    let found = import_bytes(text.as_bytes()).unwrap();
    assert_eq!(found.points.len(), 2);
}

/// What iozone prints at the start of a run.
fn iozone(more: &str) -> String {
    format!(
        "\tIozone: Performance Test of File I/O\n\t        Version $Revision: 3.489 $\n\n\tRun began: Tue Jul 11 06:28:22 2023\n\n{more}"
    )
}

const WRITER: &str = "\n\"Writer report\"\n        \"4\"  \"8\"\n\"64\"   1000  2000 \n";

#[test]
fn each_run_of_iozone_has_its_own_unit_and_modes() {
    let direct = iozone(&format!(
        "\tO_DIRECT feature enabled\n\tOutput is in kBytes/sec\n{WRITER}"
    ));
    let plain = iozone(&format!("\tOutput is in kBytes/sec\n{WRITER}"));
    let ops = iozone(&format!(
        "\tOPS Mode. Output is in operations per second.\n{WRITER}"
    ));
    let found = import_bytes([direct, plain, ops].concat().as_bytes()).unwrap();
    let seen: Vec<_> = found
        .points
        .iter()
        .map(|p| (p.direct, p.ops_per_s.unwrap()))
        .collect();
    assert_eq!(
        seen,
        [
            (Some(true), 250.0),
            (Some(true), 250.0),
            (Some(false), 250.0),
            (Some(false), 250.0),
            (Some(false), 1000.0),
            (Some(false), 2000.0),
        ]
    );
}

#[test]
fn an_interrupted_iozone_keeps_what_it_measured() {
    let text = iozone(&format!(
        "\tOutput is in kBytes/sec\n{WRITER}\n\"Reader report\"\n        \"4\"  \"8\"\n\"64\"   0 \nexiting iozone\n"
    ));
    let found = import_bytes(text.as_bytes()).unwrap();
    assert_eq!(found.points.len(), 2);
    notes(&found, "the table `reader` has no values");
}

#[test]
fn iozones_ordinary_table_is_read_by_its_columns() {
    let header = "\
        \x20                                                             random    random\n\
        \x20             kB  reclen    write  rewrite    read    reread    read     write\n";
    let whole = iozone(&format!(
        "\tOutput is in kBytes/sec\n{header}              64       4     1000     1100    3000     3100    2000      900\n\niozone test complete.\n"
    ));
    let found = import_bytes(whole.as_bytes()).unwrap();
    let ops: Vec<_> = found
        .points
        .iter()
        .map(|p| p.op.as_deref().unwrap())
        .collect();
    assert_eq!(
        ops,
        [
            "write",
            "rewrite",
            "read",
            "reread",
            "rand-read",
            "rand-write"
        ]
    );
    let first = &found.points[0];
    assert_eq!((first.file_size, first.record), (Some(65536), Some(4096)));
    assert_eq!(first.bytes_per_s, Some(1000.0 * 1024.0));
    // Tests that were not run are blank.
    let some = iozone(&format!(
        "\tOutput is in kBytes/sec\n{header}              64       4     1000     1100                    2000      900\n"
    ));
    let found = import_bytes(some.as_bytes()).unwrap();
    let ops: Vec<_> = found
        .points
        .iter()
        .map(|p| p.op.as_deref().unwrap())
        .collect();
    assert_eq!(ops, ["write", "rewrite", "rand-read", "rand-write"]);
    let cut = whole.split("    900").next().unwrap();
    assert!(
        import_bytes(cut.as_bytes())
            .unwrap_err()
            .contains("ends within a line")
    );
}

#[test]
fn totals_of_iozones_processes_are_points_of_so_many_threads() {
    let text = iozone(
        "\tOutput is in kBytes/sec\n\tThroughput test with 4 processes\n\tEach process writes a 1024 kByte file in 4 kByte records\n\n\
        \tChildren see throughput for  4 initial writers \t=  4000.00 kB/sec\n\
        \tParent sees throughput for  4 initial writers \t=  3000.00 kB/sec\n\
        \tChildren see throughput for 4 mixed workload \t=  2000.00 kB/sec\n",
    );
    let found = import_bytes(text.as_bytes()).unwrap();
    let first = &found.points[0];
    assert_eq!(
        (first.op.as_deref(), first.threads),
        (Some("write"), Some(4))
    );
    assert_eq!((first.record, first.file_size), (Some(4096), Some(1 << 20)));
    assert_eq!((first.ops_per_s, first.op_us), (Some(1000.0), Some(4000.0)));
    assert_eq!(found.points[1].op, None);
    notes(&found, "mixed workload");
}
