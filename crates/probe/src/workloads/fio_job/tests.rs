use serde_json::{Value, json};

use super::{
    sections::{LONGEST_NAME, MOST_OPTIONS, MOST_SECTIONS},
    *,
};
use crate::workloads;

fn one(text: &str) -> FioJob {
    let mut all = jobs(text).unwrap_or_else(|e| panic!("{text}: {e}"));
    assert_eq!(all.len(), 1);
    let job = all.remove(0);
    // What is made is what the workload takes.
    let workload = workloads::find(&job.settings.workload).unwrap();
    workload
        .points(&job.settings, 1.0)
        .unwrap_or_else(|e| panic!("{text}: {e}"));
    job
}

fn params(text: &str) -> Value {
    Value::Object(one(text).settings.params)
}

#[test]
fn a_job_becomes_an_operation_of_file() {
    let job = one("; a comment\n[global]\nsize=64m\nbs=8k\n\n[a]\nrw=randread\ndirect=1\n");
    assert_eq!(
        (
            job.settings.workload.as_str(),
            job.settings.label.as_deref()
        ),
        ("file", Some("a"))
    );
    assert_eq!(
        Value::Object(job.settings.params),
        json!({"op": "rand-read", "record": 8192, "file_size": 64 << 20, "direct": true})
    );
    assert!(job.notes.is_empty(), "{:?}", job.notes);
    let cold = params("[a]\nsize=1g\n");
    assert_eq!(
        (&cold["op"], &cold["cache"]),
        (&json!("read"), &json!("cold"))
    );
    assert_eq!(params("[a]\nsize=1g\ninvalidate=0\n").get("cache"), None);
}

#[test]
fn flushes_are_those_of_file() {
    for (options, word) in [
        ("fsync=1", "each"),
        ("fdatasync=1", "each-data"),
        ("fdatasync=1\nfsync=1", "each"),
        ("fdatasync=1\nioengine=mmap", "each"),
        ("end_fsync=1", "fsync"),
        ("sync=dsync", "odsync"),
        ("sync=1", "osync"),
    ] {
        assert_eq!(
            params(&format!("[a]\nrw=write\nsize=1m\n{options}\n"))["sync"],
            word,
            "{options}"
        );
    }
    for option in ["fsync=32", "fdatasync=32"] {
        let e = jobs(&format!("[a]\nrw=write\nsize=1m\n{option}\n"))
            .unwrap_err()
            .to_string();
        assert!(e.contains(&format!("[a] {option}")), "{e}");
    }
    let notes = |options: &str| one(&format!("[a]\nrw=write\nsize=1m\n{options}\n")).notes;
    assert!(notes("fdatasync=1").is_empty());
    let mapped = notes("fdatasync=1\nioengine=mmap").join("\n");
    assert!(mapped.contains("fdatasync=1: msync"), "{mapped}");
}

#[test]
fn a_rate_is_of_all_workers() {
    let job = one("[a]\nrw=randread\nrate_iops=1000\nnumjobs=4\nsize=64m\ndirect=1\n");
    assert_eq!(job.settings.params["rate"], 4000);
    let notes = job.notes.join("\n");
    assert!(
        notes.contains("rate_iops=1000") && notes.contains("4000"),
        "{notes}"
    );
    let alone = one("[a]\nrw=randread\nrate_iops=1000\nsize=64m\ndirect=1\n");
    assert!(alone.notes.is_empty(), "{:?}", alone.notes);
}

#[test]
fn what_is_only_partly_honoured_is_named() {
    for (options, words) in [
        (
            "size=64m\nthinktime=2500",
            "thinktime=2500: a delay here is of whole milliseconds: it is 2 ms",
        ),
        (
            "size=64m\nrw=randrw\nfsync_on_close=1",
            "fsync_on_close=1: `iops` flushes nothing",
        ),
        ("size=8m\nfilesize=64m", "size=8m: the file has `filesize`"),
        (
            "size=64m\nfadvise_hint=random",
            "fadvise_hint=random: the kernel is told",
        ),
    ] {
        let notes = one(&format!("[a]\n{options}\n")).notes.join("\n");
        assert!(notes.contains(words), "{options}: {notes}");
    }
    for options in [
        "size=64m\nfilesize=64m",
        "size=64m\nfadvise_hint=1",
        "size=64m\nfadvise_hint=0",
    ] {
        let notes = one(&format!("[a]\n{options}\n")).notes;
        assert!(notes.is_empty(), "{options}: {notes:?}");
    }
}

#[test]
fn the_last_value_of_an_option_counts() {
    let text = "[global]\nsize=1m\nruntime=60\nnrfiles=9\nzonemode=strided\n[a]\nruntime=5\nnrfiles=1\nzonemode=none\n";
    let notes = one(text).notes.join("\n");
    assert!(
        notes.contains("runtime=5 ") && !notes.contains("runtime=60"),
        "{notes}"
    );
    let e = jobs("[global]\nsize=1m\nzonemode=none\n[a]\nzonemode=strided\n").unwrap_err();
    assert!(e.to_string().contains("zonemode=strided"), "{e}");
}

#[test]
fn a_job_file_that_would_take_much_memory_is_refused() {
    let sections = |n: usize| format!("[global]\nsize=1m\n{}", "[a]\n".repeat(n));
    assert_eq!(jobs(&sections(MOST_SECTIONS)).unwrap().len(), MOST_SECTIONS);
    let options = |n: usize| format!("[a]\n{}", "size=1m\n".repeat(n));
    assert_eq!(
        one(&options(MOST_OPTIONS)).settings.params["file_size"],
        1_048_576
    );
    // Also where the options of [global] leave no place.
    let both = format!("[global]\n{}[a]\nbs=4k\n", "size=1m\n".repeat(MOST_OPTIONS));
    let long = format!("[a]\nsize=1m\n{}", "#\n".repeat(1 << 19));
    for (text, words) in [
        (
            sections(MOST_SECTIONS + 1),
            "line 1003: it has more than 1000 sections",
        ),
        (
            options(MOST_OPTIONS + 1),
            "line 502: it has more than 500 options",
        ),
        (both, "it has more than 500 options"),
        (long, "longer than 1 MiB"),
        (
            format!("[{}]\nsize=1m\n", "a".repeat(LONGEST_NAME + 1)),
            "line 1: the name of a section is longer",
        ),
    ] {
        let e = jobs(&text).unwrap_err();
        assert!(e.to_string().contains(words), "{words}: {e}");
        assert!(e.hint.contains(": layermark "), "{e}: {}", e.hint);
    }
    let note = &one(&format!("[a]\nsize=1m\ndescription={}\n", "é".repeat(5000))).notes[0];
    assert!(note.chars().count() < 200, "{note}");
}

#[test]
fn a_queue_a_mix_and_a_rate_are_of_iops() {
    let job = one(
        "[a]\nrw=randrw\nrwmixread=67\nioengine=libaio\niodepth=16\nsize=64m\nbs=4k\nnumjobs=2\ndirect=1\n",
    );
    assert_eq!(job.settings.workload, "iops");
    assert_eq!(
        Value::Object(job.settings.params),
        json!({"size": 4096, "read": 67, "random": 100, "iodepth": 16, "workers": 2, "file_size": 64 << 20, "direct": true})
    );
    let notes = job.notes.join("\n");
    assert!(
        notes.contains("io_uring is used instead") && notes.contains("share one file"),
        "{notes}"
    );
    assert_eq!(
        params("[a]\nrw=randread\nrate_iops=1000\nsize=64m\n")["rate"],
        1000
    );
    assert_eq!(
        params("[a]\nrw=randread\nthinktime=2000\nsize=64m\n")["delay"],
        "2ms"
    );
    assert_eq!(
        params("[a]\nrw=randread\npercentage_random=80\nsize=64m\n")["random"],
        80
    );
    // A synchronous engine has no queue, as in fio.
    assert_eq!(one("[a]\niodepth=16\nsize=64m\n").settings.workload, "file");
}

#[test]
fn every_option_that_is_not_honoured_is_named() {
    let job = one("[a]\nsize=1m\nramp_time=10s\nruntime=60\nfoo_bar=7\ndirectory=/x\n");
    for name in ["ramp_time=10s", "runtime=60", "foo_bar=7", "directory=/x"] {
        assert!(
            job.notes.iter().any(|n| n.contains(name)),
            "{name}: {:?}",
            job.notes
        );
    }
    let all = jobs("[global]\nsize=1m\n[a]\n[b]\n[c]\nstonewall\n").unwrap();
    assert!(all[1].notes[0].contains("[b] runs at the same time as [a]"));
    assert!(all[0].notes.is_empty() && all[2].notes.is_empty());
}

#[test]
fn what_is_no_job_here_is_refused_with_its_option() {
    for (text, words) in [
        ("", "the whole file: no section but [global]"),
        ("[global]\nsize=1m\n", "no job in it"),
        ("size=1m\n", "line 1: `size=1m` is in no section"),
        ("[a\n", "line 1: `[a` is not a section"),
        ("[a]\n=1\n", "line 2"),
        ("[a]\nsize=${SIZE}\n", "variables are not replaced"),
        ("[a]\nrw=read\n", "[a]: it has no `size`"),
        ("[a]\nsize=20%\n", "size=20%"),
        ("[a]\nsize=1m\nrw=trim\n", "rw=trim"),
        ("[a]\nsize=1m\nioengine=net\n", "ioengine=net"),
        ("[a]\nsize=1m\nbssplit=4k/60:64k/40\n", "iops --spec"),
        ("[a]\nsize=1m\nnrfiles=9\n", "nrfiles=9"),
        ("[a]\nsize=1m\nnumjobs=x\n", "numjobs=x"),
    ] {
        let e = jobs(text).unwrap_err();
        assert!(e.to_string().contains(words), "{text}: {e}");
        assert!(
            !e.place.is_empty() && e.hint.contains(": layermark docs from-fio"),
            "{e}: {}",
            e.hint
        );
    }
}

#[test]
fn a_command_line_that_is_no_job_is_refused_with_its_option() {
    for (text, words, hint) in [
        (
            "job.fio",
            "`job.fio`: it is not an option of fio",
            "layermark run FILE.fio",
        ),
        (
            "--name=a --name=b --size=1m",
            "--name=b: it begins a second job",
            "layermark run FILE.fio",
        ),
        (
            "--rw=read",
            "the command line: it has no `size`",
            "add --size=64m: layermark docs from-fio",
        ),
        (
            "--rw=trim --size=1m",
            "--rw=trim: ",
            "layermark docs from-fio",
        ),
    ] {
        let e = command(text).unwrap_err();
        assert!(e.to_string().starts_with(words), "{text}: {e}");
        assert!(e.hint.contains(hint), "{text}: {}", e.hint);
    }
}

#[test]
fn a_command_line_is_one_job() {
    let of =
        command("fio --name=a --rw=randwrite --bs 4k --size=64m --end_fsync=1 --direct").unwrap();
    assert_eq!(of.settings.params["direct"], true);
    assert_eq!(of.settings.params["sync"], "fsync");
    let job = command("--rw=read --size=64m --ramp_time=10").unwrap();
    assert!(
        job.notes[0].contains("ramp_time=10 has no effect here"),
        "{:?}",
        job.notes
    );
}
