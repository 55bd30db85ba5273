//! Results of more programs. Files in `fixtures/` are what the program itself printed here; of programs
//! that could not be run here the tests have texts of the same form with made-up numbers.

use std::path::Path;

use layermark_import::read;
use layermark_model::{Import, ImportedPoint};

fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    std::fs::read_to_string(path.join(name)).unwrap()
}

fn import_text(text: &str) -> Result<Import, String> {
    let temp = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(temp.path(), text).unwrap();
    read(temp.path(), None).map_err(|e| format!("{e}\nhint: {}", e.hint()))
}

#[track_caller]
fn import(name: &str, format: &str) -> Import {
    let found = import_text(&fixture(name)).unwrap();
    assert_eq!(found.format, format, "{name}");
    found
}

#[track_caller]
fn made_up(text: &str, format: &str) -> Import {
    let found = import_text(text).unwrap();
    assert_eq!(found.format, format);
    found
}

#[track_caller]
fn only(found: &Import) -> &ImportedPoint {
    assert_eq!(found.points.len(), 1, "{:?}", found.points);
    &found.points[0]
}

#[track_caller]
fn noted(found: &Import, words: &str) {
    let notes = found.notes.join("\n");
    assert!(notes.contains(words), "{words}: {notes}");
}

#[track_caller]
fn near(value: Option<f64>, expected: f64) {
    assert!(
        value.is_some_and(|v| (v / expected - 1.0).abs() < 1e-6),
        "{value:?}, not {expected}"
    );
}

fn op(point: &ImportedPoint) -> &str {
    point.op.as_deref().unwrap_or("none")
}

#[test]
fn fio_text_has_exact_rates_and_the_options_that_it_prints() {
    let found = import("fio-3.33-text.txt", "fio");
    let point = only(&found);
    assert_eq!(found.tool, "fio-3.33");
    assert_eq!(found.measured.as_deref(), Some("Sat Nov 28 08:47:42 2026"));
    assert_eq!((op(point), point.record), ("rand-read", Some(4096)));
    assert_eq!(
        (point.file_size, point.queue_depth),
        (Some(8 << 20), Some(1))
    );
    assert_eq!(point.engine.as_deref(), Some("pread"));
    // 2048 I/Os in 152 ms: printed as 13.5k.
    near(point.ops_per_s, 2048.0 / 0.152);
    near(point.op_us, 73.23);
    near(point.p99_us, 112.0);
    near(point.max_us, 11865.0);
    assert_eq!((point.direct, &point.sync), (None, &None));
    noted(&found, "O_DIRECT");
}

#[test]
fn fio_text_of_a_group_is_the_total_of_its_threads() {
    let found = import("fio-3.33-text-group.txt", "fio");
    let point = only(&found);
    assert_eq!((point.threads, point.one_of), (Some(4), None));
    near(point.ops_per_s, 8192.0 / 0.210);
}

#[test]
fn fio_text_of_several_jobs_has_a_point_each() {
    let found = import("fio-3.33-text-jobs.txt", "fio");
    let [write, read] = &found.points[..] else {
        panic!("{:?}", found.points);
    };
    assert_eq!(
        (op(write), write.record, write.one_of),
        ("write", Some(128 << 10), None)
    );
    assert_eq!(
        (op(read), read.queue_depth, read.one_of),
        ("rand-read", Some(8), None)
    );
    assert_eq!(read.engine.as_deref(), Some("libaio"));
    // Its longest completion is printed as 4389.7k ns, the longest whole operation as 4436 us.
    near(read.max_us, 4436.0);
}

#[test]
fn fio_text_counts_flushes_into_an_operation() {
    let found = import("fio-3.33-text-fsync.txt", "fio");
    let point = only(&found);
    assert_eq!(point.sync.as_deref(), Some("each"));
    near(point.op_us, 21.737 + 2789.47 * 31.0 / 32.0);
    assert_eq!((point.p99_us, point.max_us), (None, None));
}

#[test]
fn fio_text_of_a_mix_is_not_compared_as_its_share_is_not_in_it() {
    let found = import("fio-3.33-text-mix.txt", "fio");
    let point = only(&found);
    assert_eq!((op(point), point.record), ("none", Some(8192)));
    near(point.ops_per_s, 1024.0 / 0.040);
}

/// fio 3.0 to 3.5 count no flushes, and progress lines go over each other.
#[test]
fn fio_text_of_older_versions_and_with_progress() {
    let text = fixture("fio-3.33-text-fsync.txt")
        .replace(
            "issued rwts: total=0,32,0,31 short=0,0,0,0",
            "issued rwt: total=0,32,0, short=0,0,0,",
        )
        .replace(
            "\nsy: (groupid",
            &format!(
                "{}\nsy: (groupid",
                "Jobs: 1 (f=1): [W(1)][eta 00m:05s]\r".repeat(4000)
            ),
        );
    let found = made_up(&text, "fio");
    let point = only(&found);
    near(point.ops_per_s, 32.0 / 0.088);
    assert_eq!((point.op_us, &point.sync), (None, &None));
}

#[test]
fn fio_text_that_is_cut_off_and_that_of_fio_2_are_refused() {
    let text = fixture("fio-3.33-text.txt");
    let at = text.find("issued rwts").unwrap();
    assert!(import_text(&text[..at]).unwrap_err().contains("cut off"));
    let old = text.replace("\nfio-3.33", "\nfio-2.2.10");
    let e = import_text(&old).unwrap_err();
    assert!(
        e.contains("fio-2.2.10") && e.contains("--output-format=json"),
        "{e}"
    );
}

#[test]
fn fio_terse_lines_are_read_in_every_version_and_not_compared() {
    for (name, ops, us, p99) in [
        ("fio-3.33-terse3.txt", 24380.0, 39.724_386, 62.0),
        ("fio-3.33-terse5.txt", 51200.0, 4.977_311, 13.0),
    ] {
        let found = import(name, "fio");
        let point = only(&found);
        near(point.ops_per_s, ops);
        near(point.op_us, us);
        near(point.p99_us, p99);
        assert_eq!(op(point), "none", "{name}");
        noted(&found, "the file does not have its options");
    }
    let found = import("fio-3.33-terse4.txt", "fio");
    near(only(&found).ops_per_s, 15531.0 + 16468.0);
    let text = fixture("fio-3.33-terse3.txt");
    let e = import_text(&text[..400]).unwrap_err();
    assert!(e.contains("line 1: it is cut off"), "{e}");
    // Beside the ordinary text, which says more.
    let both = import("fio-3.33-both.txt", "fio");
    assert_eq!(op(only(&both)), "rand-read");
}

/// `cat A B`: groups are counted from 0 in each run.
#[test]
fn fio_text_of_several_runs_has_the_options_of_each() {
    let first = fixture("fio-3.33-text.txt");
    let second = fixture("fio-3.33-text-fsync.txt");
    let third = first
        .replace("rw=randread", "rw=read")
        .replace("4096B", "16.0KiB")
        .replace("ioengine=psync", "ioengine=sync")
        .replace("total=2048", "total=512");
    let found = made_up(&format!("{first}{second}{third}"), "fio");
    let [random, synced, read] = &found.points[..] else {
        panic!("{:?}", found.points);
    };
    assert_eq!((op(random), random.record), ("rand-read", Some(4096)));
    assert_eq!(random.engine.as_deref(), Some("pread"));
    assert_eq!(synced.sync.as_deref(), Some("each"));
    assert_eq!((op(read), read.record), ("read", Some(16 << 10)));
    assert_eq!(read.engine.as_deref(), Some("sync"));
    assert!(found.points.iter().all(|p| p.one_of.is_none()));
    // The first one ends within its job.
    let at = first.find("issued rwts").unwrap();
    let e = import_text(&format!("{}{third}", &first[..at])).unwrap_err();
    assert!(e.contains("cut off within the job `rr`"), "{e}");
}

#[test]
fn fio_text_without_one_definition_of_a_job_has_no_options_of_it() {
    let text = fixture("fio-3.33-text.txt");
    let other = text.replace("rr: (g=0)", "other: (g=0)");
    let twice = text.replacen(
        "\nfio-3.33",
        &format!(
            "\n{}\nfio-3.33",
            text.lines().next().unwrap().replace("4096B", "8192B")
        ),
        1,
    );
    for text in [&other, &twice] {
        let found = made_up(text, "fio");
        let point = only(&found);
        assert_eq!(
            (op(point), point.record, &point.engine),
            ("none", None, &None)
        );
        near(point.ops_per_s, 2048.0 / 0.152);
        noted(&found, "the file does not have its options");
    }
}

/// With `kb_base=1000` the figure behind the first slash of a rate is in kB, and rounded.
#[test]
fn fio_text_in_powers_of_1000() {
    let text = fixture("fio-3.33-text.txt").replace("(8192KiB/152msec)", "(8389kB/152msec)");
    let found = made_up(&text, "fio");
    near(only(&found).bytes_per_s, 8_389_000.0 / 0.152);
    assert_eq!(only(&found).record, Some(4096));
    let rounded = text.replace("4096B", "131kB");
    assert_eq!(only(&made_up(&rounded, "fio")).record, None);
}

#[test]
fn fio_terse_lines_of_several_runs_stand_for_what_is_not_told() {
    let line = fixture("fio-3.33-terse3.txt");
    let found = made_up(&format!("{line}{line}"), "fio");
    assert_eq!(found.points.len(), 2);
    for point in &found.points {
        assert_eq!((point.threads, point.one_of), (None, None));
        assert_eq!(point.name, found.points[0].name);
    }
    assert!(
        !found.notes.join("").contains("at the same time"),
        "{:?}",
        found.notes
    );
}

#[test]
fn texts_of_too_many_lines_are_refused() {
    let blank = "\n".repeat(2_000_001);
    for name in ["fio-3.33-text.txt", "sysbench-1.0.20-cpu.txt", "dd-9.1.txt"] {
        let text = fixture(name);
        let e = import_text(&format!("{text}{blank}")).unwrap_err();
        assert!(e.contains("more than 2000000 lines"), "{name}: {e}");
    }
}

#[test]
fn pgbench_scripts_scale_and_clients_make_a_point() {
    let found = import("pgbench-15.18.txt", "pgbench");
    let point = only(&found);
    assert_eq!(found.tool, "pgbench 15.18");
    assert_eq!(point.name, "TPC-B (sort of), scale 1, simple queries");
    assert_eq!((op(point), point.queue_depth), ("transaction", Some(2)));
    near(point.ops_per_s, 727.327_297);
    near(point.op_us, 2750.0);
    let found = import("pgbench-15.18-select.txt", "pgbench");
    assert_eq!(only(&found).name, "select only, scale 1, simple queries");
    let found = import("pgbench-15.18-scripts.txt", "pgbench");
    let name = &only(&found).name;
    assert!(
        name.starts_with("TPC-B (sort of) x 1 and select only x 3, scale 1"),
        "{name}"
    );
    near(only(&found).ops_per_s, 1_007.484_743);
}

#[test]
fn pgbench_at_a_rate_is_not_compared() {
    let found = import("pgbench-15.18-rate.txt", "pgbench");
    assert_eq!(op(only(&found)), "none");
    noted(&found, "--rate limits its rate");
    let cut = fixture("pgbench-15.18.txt");
    let e = import_text(&cut.replace("tps = 7", "x tps = 7")).unwrap_err();
    assert!(e.contains("cut off"), "{e}");
}

#[test]
fn pgbench_before_14_has_other_words() {
    let text = "transaction type: TPC-B (sort of)\nscaling factor: 10\nquery mode: simple\nnumber of clients: 8\n\
                number of threads: 1\nduration: 60 s\nlatency average: 5.634 ms\n\
                tps = 1419.000000 (including connections establishing)\ntps = 1420.500000 (excluding connections establishing)\n";
    let found = made_up(text, "pgbench");
    near(only(&found).ops_per_s, 1420.5);
    near(only(&found).op_us, 5634.0);
}

#[test]
fn sysbench_fileio_is_compared_where_it_has_a_file_and_a_thread() {
    let found = import("sysbench-1.0.20-fileio-seqwr.txt", "sysbench");
    let point = only(&found);
    assert_eq!(found.tool, "sysbench 1.0.20");
    assert_eq!(
        (op(point), point.record, point.file_size),
        ("write", Some(16 << 10), Some(8 << 20))
    );
    assert_eq!(
        (point.sync.as_deref(), point.direct),
        (Some("each"), Some(false))
    );
    near(point.ops_per_s, 266.70);
    // Its own average is rounded to 3.74 ms.
    near(point.op_us, 1_007_000.0 / 269.0);
    let found = import("sysbench-1.0.20-fileio.txt", "sysbench");
    let point = only(&found);
    assert_eq!(
        (op(point), point.name.as_str()),
        ("none", "random r/w, 4 files")
    );
    near(point.ops_per_s, 4074.03 + 2716.02);
    assert_eq!(
        (point.op_us, point.sync.as_deref()),
        (None, Some("every 100"))
    );
    noted(&found, "4 files");
    let found = import("sysbench-1.0.20-fileio-rndrd.txt", "sysbench");
    assert_eq!((only(&found).threads, &only(&found).sync), (Some(2), &None));
}

#[test]
fn sysbench_prepares_and_cleans_up_without_a_result() {
    let first = "sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)\n\n";
    let run = fixture("sysbench-1.0.20-fileio-seqwr.txt").replace("8MiB each", "1.1719GiB each");
    let text = format!(
        "{first}1 files, 1228800Kb each, 1200Mb total\nCreating files for the test...\n{run}{first}Removing test files...\n"
    );
    let found = made_up(&text, "sysbench");
    let point = only(&found);
    assert_eq!(found.tool, "sysbench 1.0.20");
    // It is rounded.
    assert_eq!((op(point), point.file_size), ("write", None));
    near(point.ops_per_s, 266.70);
}

#[test]
fn sysbench_has_other_tests() {
    for (name, work, ops) in [
        (
            "sysbench-1.0.20-cpu.txt",
            "cpu, primes up to 10000",
            3662.34,
        ),
        (
            "sysbench-1.0.20-memory.txt",
            "memory write, global scope",
            4_742_829.47,
        ),
        ("sysbench-1.0.20-threads.txt", "events", 1737.0 / 1.0005),
        (
            "sysbench-1.0.20-oltp.txt",
            "transactions of 20 queries",
            146.90,
        ),
    ] {
        let found = import(name, "sysbench");
        assert_eq!(only(&found).name, work);
        near(only(&found).ops_per_s, ops);
    }
    let memory = import("sysbench-1.0.20-memory.txt", "sysbench");
    near(only(&memory).bytes_per_s, 4631.67 * 1_048_576.0);
    let text = fixture("sysbench-1.0.20-cpu.txt");
    let at = text.find("total number").unwrap();
    assert!(import_text(&text[..at]).unwrap_err().contains("cut off"));
}

#[test]
fn ab_counts_bodies_and_times_a_connection() {
    let found = import("ab-2.3.txt", "ab");
    let point = only(&found);
    assert_eq!(
        (found.tool.as_str(), point.name.as_str()),
        ("ab 2.3", "GET /f, 1000 bytes")
    );
    assert_eq!((op(point), point.queue_depth), ("GET", Some(2)));
    near(point.ops_per_s, 1140.24);
    near(point.op_us, 1754.0);
    near(point.bytes_per_s, 200_000.0 / 0.175);
    near(point.p99_us, 8000.0);
    near(point.max_us, 9000.0);
    let found = import("ab-2.3-404.txt", "ab");
    assert_eq!(op(only(&found)), "none");
    noted(&found, "200 answers have another status than 2xx");
}

#[test]
fn wrk_has_percentiles_only_with_latency() {
    let found = import("wrk-4.1.txt", "wrk");
    let point = only(&found);
    assert_eq!(
        (point.name.as_str(), point.queue_depth),
        ("GET /f", Some(4))
    );
    near(point.ops_per_s, 1032.70);
    near(point.op_us, 4040.0);
    near(point.p99_us, 12920.0);
    near(point.max_us, 16190.0);
    let found = import("wrk-4.1-404.txt", "wrk");
    assert_eq!((op(only(&found)), only(&found).p99_us), ("none", None));
    noted(&found, "1240 answers");
}

#[test]
fn iperf3_counts_what_arrived_in_each_direction() {
    for (name, word, threads, bits) in [
        ("iperf3-3.12-tcp.json", "stream", 1, 20_074_989_571.664_56),
        ("iperf3-3.12-tcp-R.json", "maerts", 2, 20_761_534_900.046_3),
        (
            "iperf3-3.12-udp.json",
            "udp-stream",
            1,
            7_881_361_773.945_524,
        ),
        (
            "iperf3-3.12-bidir.json",
            "bidir",
            1,
            10_675_646_760.698_065 + 9_329_309_937.046_78,
        ),
    ] {
        let found = import(name, "iperf3");
        let point = only(&found);
        assert_eq!((op(point), point.threads), (word, Some(threads)), "{name}");
        near(point.bytes_per_s, bits / 8.0);
    }
    let udp = import("iperf3-3.12-udp.json", "iperf3");
    assert_eq!(
        (udp.tool.as_str(), only(&udp).record),
        ("iperf3 3.12", Some(32768))
    );
    assert!(udp.measured.is_some());
}

#[test]
fn iperf3_that_failed_or_was_limited_says_so() {
    let e = import_text(
        "{\"start\": {\"version\": \"iperf 3.12\"}, \"end\": {}, \"error\": \"unable to connect\"}",
    );
    assert!(e.unwrap_err().contains("unable to connect"));
    let limited = fixture("iperf3-3.12-udp.json")
        .replace("\"target_bitrate\": 0", "\"target_bitrate\": 1048576");
    let found = made_up(&limited, "iperf3");
    assert_eq!(op(only(&found)), "none");
    noted(&found, "1048576 bit/s");
    // Before 3.9 the limit is not written, and a datagram's sum is of those sent.
    let old = limited
        .replace("\"target_bitrate\"", "\"x\"")
        .replace("\"sum_sent\"", "\"y\"")
        .replace("\"sum_received\"", "\"z\"");
    let found = made_up(&old, "iperf3");
    near(
        only(&found).bytes_per_s,
        24_585_886_448.875_2 * (1.0 - 0.679_424_307_036_247_4) / 8.0,
    );
    assert!(
        import_text("{\"event\":\"start\",\"data\":{\"version\":\"iperf 3.17\"}}")
            .unwrap_err()
            .contains("--json-stream")
    );
}

#[test]
fn netperf_tables_and_keys() {
    let found = made_up(
        "MIGRATED TCP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 10.0.0.1 () port 0 AF_INET : demo\n\
         Recv   Send    Send\nSocket Socket  Message  Elapsed\nSize   Size    Size     Time     Throughput\n\
         bytes  bytes   bytes    secs.    10^6bits/sec\n\n131072  16384  16384    10.00    8000.00\n\
         MIGRATED TCP REQUEST/RESPONSE TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to x () port 0 AF_INET : first burst 0\n\
         Local /Remote\nSocket Size   Request  Resp.   Elapsed  Trans.\nSend   Recv   Size     Size    Time     Rate\n\
         bytes  Bytes  bytes    bytes   secs.    per sec\n\n16384  87380  32       1024    10.00    5000.00\n16384  87380\n\
         MIGRATED UDP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to x () port 0 AF_INET\n\
         Socket  Message  Elapsed      Messages\nSize    Size     Time         Okay Errors   Throughput\n\
         bytes   bytes    secs            #      #   10^6bits/sec\n\n212992    1024   10.00      492775      0     403.67\n\
         212992           10.00      492201            400.00\n\
         MIGRATED TCP Connect/Request/Response TEST from ::0 (::) port 0 AF_INET6 to x () port 0 AF_INET6\n\
         x\n\n16384  87380  1       1    10.00    2500.00\n16384  87380\n\
         SCTP STREAM TEST from a to b\n",
        "netperf",
    );
    let [stream, rr, udp, crr] = &found.points[..] else {
        panic!("{:?}", found.points);
    };
    assert_eq!((op(stream), stream.record), ("stream", Some(16384)));
    near(stream.bytes_per_s, 1e9);
    assert_eq!(
        (op(rr), rr.name.as_str(), rr.record),
        ("rr", "rr, 32 bytes there, 1024 back", None)
    );
    near(rr.ops_per_s, 5000.0);
    near(rr.op_us, 200.0);
    assert_eq!((op(udp), udp.record), ("udp-stream", Some(1024)));
    near(udp.bytes_per_s, 5e7);
    assert_eq!(op(crr), "crr");
    noted(&found, "`SCTP STREAM TEST` is not known");
    let keyed = "MIGRATED TCP REQUEST/RESPONSE TEST from a to b : first burst 16\nTHROUGHPUT=55555.94\nTHROUGHPUT_UNITS=Trans/s\n";
    let found = made_up(keyed, "netperf");
    assert_eq!((op(only(&found)), only(&found).op_us), ("none", None));
    noted(&found, "its burst is 16");
    let cut = "MIGRATED TCP STREAM TEST from a to b\nRecv   Send\n";
    assert!(import_text(cut).unwrap_err().contains("cut off"));
}

/// A run of IOR, whose summary is replaced.
fn ior(access: &str, command: &str, row: &str) -> String {
    format!(
        "IOR-4.1.0: MPI Coordinated Test of Parallel I/O\nBegan               : Fri Jul 18 16:11:05 2025\n\
         Command line        : {command}\n\nOptions: \napi                 : POSIX\naccess              : {access}\n\
         ordering in a file  : sequential\nordering inter file : no tasks offsets\n\nResults: \n\n\
         Summary of all tests:\nOperation   Max(MiB)   Min(MiB)  Mean(MiB)     StdDev   Max(OPs)   Min(OPs)  Mean(OPs)     \
         StdDev    Mean(s) Stonewall(s) Stonewall(MiB) Test# #Tasks tPN reps fPP reord reordoff reordrand seed segcnt   \
         blksiz    xsize aggs(MiB)   API RefNum\n{row}\nFinished            : x\n"
    )
}

#[test]
fn ior_has_the_mean_of_its_repetitions() {
    let row = "write         300.00     100.00     200.00       0.00     300.00     100.00     200.00       0.00    \
               0.35190         NA            NA     0     4   4    2   1     0        1         0    0      2 10485760  \
               1048576     100.0 POSIX      0\nremove - - -";
    let found = made_up(&ior("file-per-process", "ior -F -e -B -t 1m", row), "ior");
    let point = only(&found);
    assert_eq!(found.tool, "IOR 4.1.0");
    assert_eq!(
        (op(point), point.record, point.file_size),
        ("write", Some(1 << 20), Some(20 << 20))
    );
    assert_eq!(
        (point.threads, point.direct, point.sync.as_deref()),
        (Some(4), Some(true), Some("fsync"))
    );
    near(point.bytes_per_s, 200.0 * 1_048_576.0);
    near(point.op_us, 4e6 / 200.0);
    let each = ior("file-per-process", "ior -F -e -Y -t 1m", row);
    assert_eq!(only(&made_up(&each, "ior")).sync.as_deref(), Some("each"));
    let shared = row.replace("2   1     0", "2   0     0");
    let found = made_up(&ior("single-shared-file", "ior", &shared), "ior");
    assert_eq!(
        (op(only(&found)), only(&found).file_size),
        ("none", Some(80 << 20))
    );
    noted(&found, "4 tasks share a file");
    let text = ior("x", "ior", row);
    let e = import_text(text.split("Summary").next().unwrap()).unwrap_err();
    assert!(e.contains("cut off") && e.contains("hint: mpirun"), "{e}");
    let e = import_text(&text.replace("POSIX      0\n", "POSIX\n")).unwrap_err();
    assert!(e.contains("26 cells under 27 names"), "{e}");
}

#[test]
fn mdtest_rates_are_means_and_zeros_were_not_run() {
    for (head, colon) in [
        ("SUMMARY rate (in ops/sec): (of 2 iterations)", ""),
        ("SUMMARY: (of 2 iterations)", ":"),
    ] {
        let found = made_up(
            &format!(
                "-- started at 07/18/2025 16:11:20 --\n\nmdtest-4.1.0 was launched with 4 total task(s) on 1 node(s)\n\
                 Command line used: mdtest '-F' '-w' '4096' '-d' '/x/'\n4 tasks, 400 files\n\n{head}\n\
                 Operation                     Max            Min           Mean        Std Dev\n\
                 ---------                     ---            ---           ----        -------\n\
                 File creation {colon}               1200.016       1000.000       1100.000          0.000\n\
                 File stat {colon}                      0.000          0.000          0.000          0.000\n\
                 -- finished at 07/18/2025 16:11:49 --\n"
            ),
            "mdtest",
        );
        let point = only(&found);
        assert_eq!(
            (point.name.as_str(), point.threads),
            ("File creation, 4096 bytes", Some(4))
        );
        near(point.ops_per_s, 1100.0);
        near(point.op_us, 4e6 / 1100.0);
    }
    let cut = "mdtest-4.1.0 was launched with 4 total task(s) on 1 node(s)\n";
    assert!(import_text(cut).unwrap_err().contains("cut off"));
    let times = format!("{cut}SUMMARY time: (of 2 iterations)\n");
    assert!(
        import_text(&times)
            .unwrap_err()
            .contains("it has times only")
    );
}

/// Threads, operations a second and the time of one, of a row of mdtest with four tasks and the mean 100.
fn mdtest_row(options: &str, operation: &str) -> (Option<u64>, Option<f64>, Option<f64>) {
    let found = made_up(
        &format!(
            "mdtest-4.1.0 was launched with 4 total task(s) on 1 node(s)\n{options}\n\
             SUMMARY rate: (of 1 iterations)\n   Operation    Max   Min   Mean   Std Dev\n   ---------\n   \
             {operation}      :     NA      NA      100.000        NA\n-- finished at 07/18/2025 16:11:49 --\n"
        ),
        "mdtest",
    );
    let point = only(&found);
    assert_eq!(point.name, operation);
    (point.threads, point.ops_per_s, point.op_us)
}

/// What each row counts, from mdtest's source (`mdtest_iteration`, `directory_test`, `file_test`).
#[test]
fn mdtest_counts_what_one_task_does() {
    let row = |options: &str, operation: &str| {
        mdtest_row(&format!("Command line used: mdtest {options}"), operation)
    };
    for tree in ["Tree creation", "Tree removal"] {
        // The first task makes the only tree.
        let alone = (Some(1), Some(100.0), Some(1e4));
        assert_eq!(row("'-F' '-n' '8' '-d' '/u'", tree), alone);
        assert_eq!(row("-n 8 -dou", tree), alone);
        // Each makes its own; the rate counts one of them.
        let each = (Some(4), Some(400.0), Some(1e4));
        assert_eq!(row("'-F' '-u' '-n' '8'", tree), each);
        assert_eq!(row("-Fun 8", tree), each);
        // The first task makes all four.
        let (threads, rate) = (Some(1), Some(400.0));
        assert_eq!(row("'-c' '-u'", tree), (threads, rate, Some(2500.0)));
        // A tree for every eight items.
        assert_eq!(
            row("-n 16 -I 8", tree),
            (Some(1), Some(200.0), Some(5000.0))
        );
        // Nothing says who made it.
        assert_eq!(mdtest_row("", tree), (None, Some(100.0), None));
    }
    let all = (Some(4), Some(100.0), Some(4e4));
    for operation in ["Directory creation", "Directory removal", "File removal"] {
        assert_eq!(row("-u", operation), all);
        assert_eq!(row("-c", operation), (Some(1), Some(100.0), Some(1e4)));
    }
    assert_eq!(row("-c", "File creation"), (None, Some(100.0), None));
    assert_eq!(row("-c", "File stat"), all);
    // One file that the rate counts four times.
    let shared = (Some(1), Some(25.0), Some(4e4));
    assert_eq!(row("-S", "File removal"), shared);
    assert_eq!(row("-W 3", "File create (stonewall)"), all);
}

fn diskspd(performs: &str, targets: &str) -> String {
    format!(
        "Command Line: diskspd.exe -c10M -d30 -r -t4 -o32 -b4k -Sh -L x.dat\n\nInput parameters:\n\n\ttimespan:   1\n\
         \t-------------\n\tduration: 30s\n\tmeasuring latency\n{targets}\t\tthink time: 0ms\n\t\tsoftware cache disabled\n\
         \t\thardware write cache disabled, writethrough on\n\t\tperforming {performs}\n\t\tblock size: 4KiB\n\
         \t\tusing random I/O (alignment: 4KiB)\n\t\tnumber of outstanding I/O operations per thread: 32\n\
         \t\tthreads per file: 4\n\nSystem information:\n\n\tstart time: 2024/09/09 02:02:42 UTC\n\n\
         Results for timespan 1:\n****\n\nactual test time:\t30.00s\nthread count:\t\t4\n\nTotal IO\n\
         thread |       bytes     |     I/Os     |    MiB/s   |  I/O per s |  AvgLat  | LatStdDev |  file\n\
         -----\n     0 |     409600 |      100 |     418.20 |  1000.00 |    0.066 |     0.086 | x.dat (10MiB)\n-----\n\
         total:       409600 |     100 |    1648.35 |  1000.00 |    0.066 |     0.086\n\nRead IO\nx\n\n\
         \x20 %-ile |  Read (ms) | Write (ms) | Total (ms)\n----\n   99th |      0.219 |      0.058 |      0.205\n\
         \x20   max |      4.460 |      1.773 |      4.461\n"
    )
}

#[test]
fn diskspd_totals() {
    let one = "\tpath: 'x.dat'\n";
    let found = made_up(
        &diskspd("mix test (read/write ratio: 60/40)", one),
        "diskspd",
    );
    let point = only(&found);
    assert_eq!(op(point), "mix 60 % read 100 % random");
    assert_eq!(
        (point.record, point.file_size),
        (Some(4096), Some(10 << 20))
    );
    assert_eq!((point.queue_depth, point.threads), (Some(32), Some(4)));
    assert_eq!(
        (point.direct, point.sync.as_deref()),
        (Some(true), Some("osync"))
    );
    near(point.bytes_per_s, 4_096_000.0);
    near(point.op_us, 66.0);
    near(point.p99_us, 205.0);
    near(point.max_us, 4461.0);
    let found = made_up(
        &diskspd("read test", &format!("{one}\tpath: 'y.dat'\n")),
        "diskspd",
    );
    assert_eq!(op(only(&found)), "none");
    noted(&found, "2 files");
    for limit in [
        "throughput rate-limited to 1024 B/ms",
        "throughput rate-limited to 100 IOPS",
    ] {
        let found = made_up(
            &diskspd("read test", &format!("{one}\t\t{limit}\n")),
            "diskspd",
        );
        assert_eq!(op(only(&found)), "none");
        noted(&found, "its rate is limited");
    }
    let text = diskspd("read test", one);
    let at = text.find("total:").unwrap();
    assert!(import_text(&text[..at]).unwrap_err().contains("cut off"));
}

#[test]
fn crystaldiskmark_of_three_ages() {
    let found = made_up(
        "------\nCrystalDiskMark 8.0.4 x64 (C) 2007-2021 hiyohiyo\n------\n* MB/s = 1,000,000 bytes/s [SATA/600 = 600,000,000 bytes/s]\n\n\
         [Read]\n  SEQ    1MiB (Q=  8, T= 1):  1048.576 MB/s [   1000.0 IOPS] <   987.81 us>\n\n[Write]\n\
         \x20 RND    4KiB (Q= 32, T=16):  4.096 MB/s [ 1000.0 IOPS] <  1021.30 us>\n\n[Mix] Read 70%/Write 30%\n\
         \x20 RND    4KiB (Q=  1, T= 1):    4.096 MB/s [  1000.0 IOPS] <    58.03 us>\n\nProfile: Default\n\
         \x20  Test: 1 GiB (x5) [C: 4% (79/1862GiB)]\n   Date: 2024/01/06 5:41:48\n",
        "crystaldiskmark",
    );
    let [seq, random, mix] = &found.points[..] else {
        panic!("{:?}", found.points);
    };
    assert_eq!(
        (op(seq), seq.record, seq.queue_depth),
        ("read", Some(1 << 20), Some(8))
    );
    assert_eq!(
        (op(random), random.threads, random.file_size),
        ("rand-write", Some(16), Some(1 << 30))
    );
    near(random.op_us, 1021.3);
    assert_eq!(op(mix), "mix 70 % read 100 % random");
    noted(&found, "best of 5 runs");
    assert_eq!(found.measured.as_deref(), Some("2024/01/06 5:41:48"));
    let found = made_up(
        "CrystalDiskMark 3.0.3 x64 (C) 2007-2013 hiyohiyo\n* MB/s = 1,000,000 byte/s [SATA/300 = 300,000,000 byte/s]\n\n\
         Sequential Read : 179.874 MB/s\nRandom Write 4KB (QD=32) : 4.096 MB/s [ 1000.0 IOPS]\n\nTest : 1000 MB [F: 0.1%] (x1)\n",
        "crystaldiskmark",
    );
    assert_eq!(
        (op(&found.points[0]), found.points[0].record),
        ("read", None)
    );
    assert_eq!(
        (found.points[1].record, found.points[1].queue_depth),
        (Some(4096), Some(32))
    );
    assert_eq!(found.points[1].file_size, None);
    let found = made_up(
        "CrystalDiskMark 6.0.0 x64 (C) 2007-2017 hiyohiyo\n   Sequential Read (Q= 32,T= 1) :    91.559 MB/s\n\
         \x20 Random Read 4KiB (Q=  8,T= 8) :     4.096 MB/s [   1000.0 IOPS]\n  Test : 1024 MiB [I: 1% (1/2 GiB)] (x5)  [Interval=5 sec]\n",
        "crystaldiskmark",
    );
    assert_eq!(
        (found.points[1].threads, found.points[1].file_size),
        (Some(8), Some(1 << 30))
    );
    let e = import_text("CrystalDiskMark 8.0.4 x64 (C) 2007-2021 hiyohiyo\n[Read]\n").unwrap_err();
    assert!(e.contains("no values"), "{e}");
}

#[test]
fn elbencho_phases_are_those_of_the_last_thread() {
    const HEAD: &str = "ISO date,label,path type,paths,hosts,threads,dirs,files,file size,block size,direct IO,random,\
                        random aligned,IO depth,shared paths,truncate,operation,time ms [first],time ms [last],\
                        entries/s [first],entries/s [last],IOPS [first],IOPS [last],MiB/s [first],MiB/s [last],\
                        CPU% [first],CPU% [last],entries [first],entries [last],MiB [first],MiB [last],\
                        Ent lat us [min],Ent lat us [avg],Ent lat us [max],IO lat us [min],IO lat us [avg],IO lat us [max]\n";
    let rows = "2026-05-22T16:09:38,,dir,1,2,4,1,1,4194304,4096,1,1,,4,1,0,MKDIRS,2,5,3277,1466,,,,,8,7,8,8,,,812,1068,1378,,,\n\
                2026-05-22T16:09:38,,dir,1,2,4,1,1,4194304,4096,1,1,,4,1,0,READ,10,20,11,11,3000,2000,30,20,10,9,25,32,1,2,1,2,3,4,50,600\n\
                2026-05-22T16:09:38,,dir,1,2,4,1,9,4194304,4096,0,0,,1,1,0,WRITE,10,20,11,11,3000,2000,30,20,10,9,25,32,1,2,1,2,3,4,50,600\n";
    let found = made_up(&format!("{HEAD}{rows}"), "elbencho");
    let [dirs, read, write] = &found.points[..] else {
        panic!("{:?}", found.points);
    };
    assert_eq!((op(dirs), dirs.name.as_str()), ("none", "MKDIRS"));
    near(dirs.ops_per_s, 1466.0);
    near(dirs.op_us, 1068.0);
    assert_eq!(
        (op(read), read.record, read.threads),
        ("rand-read", Some(4096), Some(8))
    );
    assert_eq!((read.queue_depth, read.direct), (Some(4), Some(true)));
    near(read.ops_per_s, 2000.0);
    near(read.bytes_per_s, 20.0 * 1_048_576.0);
    near(read.op_us, 50.0);
    assert_eq!(op(write), "none");
    noted(&found, "several files");
    let cut = format!("{HEAD}{}", &rows[..60]);
    assert!(import_text(&cut).unwrap_err().contains("cut off"));
}

#[test]
fn dd_says_what_it_did_only_on_its_command_line() {
    let found = import("dd-9.1.txt", "dd");
    let [write, read] = &found.points[..] else {
        panic!("{:?}", found.points);
    };
    assert_eq!(
        (op(write), write.record, write.file_size),
        ("write", Some(4096), Some(4_096_000))
    );
    assert_eq!(
        (write.sync.as_deref(), write.direct),
        (Some("fsync"), Some(false))
    );
    near(write.bytes_per_s, 4_096_000.0 / 0.010_964_1);
    near(write.op_us, 10.9641);
    // Its last record is a part of one.
    assert_eq!((op(read), read.record), ("read", None));
    let bare = "3+0 records in\n3+0 records out\n3145728 bytes (3.1 MB, 3.0 MiB) copied, 6.5e-05 s, 48 GB/s\n";
    let found = made_up(bare, "dd");
    assert_eq!(
        (op(only(&found)), only(&found).record),
        ("none", Some(1 << 20))
    );
    near(only(&found).bytes_per_s, 3_145_728.0 / 6.5e-5);
    noted(&found, "command line");
    for other in [
        "3+0 records in\n3+0 records out\n3145728 bytes transferred in 0.5 secs (6291456 bytes/sec)\n",
        "3+0 records in\n3+0 records out\n3145728 bytes (3.0MB) copied, 0.5 seconds, 6.0MB/s\n",
    ] {
        near(only(&made_up(other, "dd")).bytes_per_s, 6_291_456.0);
    }
}

#[test]
fn dd_progress_is_not_a_result_and_a_comma_may_be_a_point() {
    let command = "+ dd if=/dev/zero of=x bs=1M count=500 status=progress\n";
    let progress = "104857600 bytes (105 MB, 100 MiB) copied, 1 s, 105 MB/s\r\
                    419430400 bytes (419 MB, 400 MiB) copied, 2 s, 210 MB/s";
    // More of it than a line may have.
    let progress = [progress; 1000].join("\r");
    let end = "500+0 records in\n500+0 records out\n524288000 bytes (524 MB, 500 MiB) copied, 1,75 s, 300 MB/s\n";
    for between in ["\n", "\r\n"] {
        let found = made_up(&format!("{command}\r{progress}{between}{end}"), "dd");
        let point = only(&found);
        assert_eq!((op(point), point.record), ("write", Some(1 << 20)));
        near(point.bytes_per_s, 524_288_000.0 / 1.75);
    }
}

/// Every line of every file may be the last one: nothing panics, and nothing that is cut off within a
/// result gives numbers other than the whole file.
#[test]
fn files_that_end_anywhere_are_read_or_refused() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut tried = 0;
    for entry in std::fs::read_dir(dir).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        // `files.rs` has those of the formats below, whose results stand line by line.
        if ["iozone", "iometer"]
            .iter()
            .any(|format| name.starts_with(format))
        {
            continue;
        }
        let text = fixture(&name);
        let whole = import_text(&text).unwrap();
        let ends = text.match_indices('\n').map(|(at, _)| at + 1);
        for end in ends.step_by(1 + text.len() / 4000) {
            let Ok(found) = import_text(&text[..end]) else {
                continue;
            };
            tried += 1;
            for point in &found.points {
                let same = whole
                    .points
                    .iter()
                    .any(|p| p.ops_per_s == point.ops_per_s && p.name == point.name);
                assert!(
                    same || name.contains("jobs") || name.contains("json"),
                    "{name} at {end}: {point:?}"
                );
            }
        }
    }
    assert!(tried > 20, "{tried}");
}
