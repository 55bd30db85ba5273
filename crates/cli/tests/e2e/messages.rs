//! Every message that a wrong command line gets, and every warning of a run, in one file: a change of
//! wording is seen in review.

use std::{fmt::Write as _, fs};

use crate::common::{Lm, READ};

/// What goes wrong while a run goes on: a scripted layer between two that are well, and options.
const RUNS: &[&str] = &[
    "mock:fail-open=on --blocks 9",
    "mock:fail-mount=on --blocks 9",
    "mock:fail-start=on --blocks 9",
    "mock:fail-facts=on --blocks 9",
    "mock:protocol=9 --blocks 9",
    "mock:die-after=5 --blocks 9 --sessions 1",
    "mock:die-after=0 --blocks 9",
    "mock:rubbish-after=0 --blocks 9",
    "mock:silent-after=0 --blocks 9 --silence 1s",
    "mock:error-after=0 --blocks 9",
];

/// What the user types, after `layermark`.
const LINES: &[&str] = &[
    // Commands and options.
    "frobnicate",
    "reprot",
    "hist",
    "docs fio",
    "fleet check",
    "file --size 4K",
    "file --nonsense",
    "file --op raed",
    "file --op",
    "file stray",
    "run --precision 0",
    "run --delta 200%",
    "run --silence soon",
    "run --silence 10ms",
    "run --seed many",
    "run --blocks 0",
    "run --scale 0",
    "run --budget soon",
    "run --budget -5s",
    "run --profile slow",
    "run --resume last --replay last",
    "run --resume last --delta 1%",
    "run --resume last --dir .",
    "run --env =x",
    "schema nothing",
    "completions tcsh",
    "import",
    "import absent.json",
    "import --format nothing plan.toml",
    "import plan.toml",
    "report nothing",
    "run --resume nothing",
    // Runs compared, and gates.
    "compare",
    "compare nothing",
    "compare absent.json",
    "compare plan.toml",
    "compare last --delta 0",
    "compare last --fail-undecided",
    "compare last --fail-if faster",
    "compare last --fail-if slower=0",
    "compare last -o report.xlsx",
    "run -l fuse --fail-if 'fuze slower'",
    "run -l fuse --fail-if 'fuse slower at \"smal read, warm\"'",
    "launch --fail-if slower ls",
    "history --since yesterday",
    "history --limit many",
    "history --trend 'small read, warm'",
    "history --trend 'small read, warm' fuse",
    // Plans.
    "run crad",
    "run absent.toml",
    "run .",
    "run plan.toml",
    // Layers and directories.
    "layers ovrlay",
    "file -l docker",
    "file -l nfs",
    "file -l xfs",
    "file -l ovrlay",
    "file -l teleport",
    "file -l overlay:uper",
    "file -l fuse,cahe=none",
    "file -l fuse,cache=nine",
    "file -l fuse,delay=zz",
    "file -l fuse,fast",
    "file -l :x",
    "file -l dir",
    "file -l dir:/nowhere",
    "file -l loop:zfs",
    "net -l fuse",
    "file -l tmpfs -l tmpfs",
    "file -l netns..vm..vm",
    "file -l native..netns",
    "file --dir /nowhere",
    "file --store nowhere/x.db -l mock",
    // Where reports go.
    "file -o report.pdf",
    "file -o absent/report.html",
    "file -o - --json",
    "file -o svg:-",
    // Where to listen.
    "serve nonsense",
    "run --serve=example.org:80",
    // Values of a workload.
    "file --record 8K --file-size 4K",
    "file --record --file-size 4K",
    "file --record -4K",
    "file --record 4Q",
    "file --file-size 99999999T",
    "file --threads 0",
    "file --stride 2",
    "iops --iodepth x",
    "iops --spec 4k-rand-raed",
    "http ftp://localhost/",
    "http --url foo",
    "http -l fuse http://localhost/",
    // Launches.
    "launch",
    "launch 'ls | wc'",
    "launch \"ls 'a\"",
    "launch ls --colour",
    "launch --reference 3 'ls /' 'ls /usr'",
    "launch -P n 3 1 'sleep {n}'",
    "launch -L n '' 'sleep {n}'",
    "launch --ready prot=1 ls",
    "launch --restart ls",
    "launch --env 'a b=1' ls",
    "launch --screen big ls",
    "launch --user root ls",
    "launch --timeout 2h ls",
    "launch --cmd ls ls",
];

/// The file with what they are told.
const EXPECTED: &str = include_str!("messages.txt");

/// All of them, as a terminal shows them.
fn transcript() -> String {
    let mut all = String::new();
    for line in LINES {
        let words = shell_words::split(line).expect("words");
        let said = Lm::new()
            .file("plan.toml", "name = \"x\"\nbudgte = \"2m\"\nwork = []\n")
            .args(&words)
            .run()
            .left_nothing();
        assert_eq!(said.stdout.is_empty(), !line.contains("--json"), "{line}");
        let dir = said.dir.path().to_string_lossy().into_owned();
        let stderr = said.stderr.replace(&dir, "DIR");
        let code = said.code.expect("an exit code");
        let _ = write!(all, "$ layermark {line}\n{stderr}exit code {code}\n\n");
    }
    for line in RUNS {
        let _ = write!(
            all,
            "$ layermark file -l mock -l {line} -l mock:ns=1500\n{}\n",
            warnings(line)
        );
    }
    all
}

/// What a run with such a layer warns of, as a terminal shows it.
fn warnings(line: &str) -> String {
    let mut words = line.split(' ');
    let bad = words.next().expect("a layer");
    let lm = Lm::new().work_with(READ, &["mock", bad, "mock:ns=1500"]);
    let work = lm.work().to_string_lossy().into_owned();
    let said = lm.args(words).args(["--json"]).run().left_nothing();
    let dir = said.dir.path().to_string_lossy().into_owned();
    let id = said.json()["run"].as_str().expect("an id").to_owned();
    let stderr = said.stderr.replace(&work, "WORK").replace(&dir, "DIR");
    let stderr = stderr.replace(&id, "RUN");
    // The work directory has a random name.
    let (mut told, mut rest) = (String::new(), stderr.as_str());
    while let Some((before, after)) = rest.split_once("/layermark-") {
        told.extend([before, "/layermark-*"]);
        rest = after.trim_start_matches(|c: char| c.is_ascii_hexdigit());
    }
    told.extend([rest]);
    told
}

#[test]
fn wrong_command_lines_are_told_so_in_these_words() {
    let said = transcript();
    if said != EXPECTED {
        let new = crate::common::disk_dir().keep().join("messages.txt");
        fs::write(&new, &said).expect("written");
        let pairs = said.lines().zip(EXPECTED.lines());
        let first = pairs.clone().find(|(new, old)| new != old);
        panic!(
            "a message is another one (found and expected): {first:?}\n\
             to accept all: cp {} crates/cli/tests/e2e/messages.txt",
            new.display()
        );
    }
}

/// Begins in lower case, and has no full stop.
fn in_form(text: &str) -> bool {
    let begins = text.chars().next().expect("a text");
    !begins.is_uppercase() && !text.trim_end_matches("...").ends_with('.')
}

/// `error: ` in lower case without a full stop, then `hint: ` with something to do; warnings likewise.
#[test]
fn messages_have_one_form() {
    let all: Vec<&str> = EXPECTED.split_terminator("\n\n").collect();
    assert_eq!(all.len(), LINES.len() + RUNS.len());
    for run in &all[LINES.len()..] {
        let warnings = run.lines().filter_map(|l| l.strip_prefix("warning: "));
        assert!(warnings.clone().all(in_form), "{run}");
        assert!(run.contains("error-after") || warnings.count() > 0, "{run}");
    }
    for message in &all[..LINES.len()] {
        let lines: Vec<&str> = message.lines().collect();
        let error = lines[1].strip_prefix("error: ").expect(message);
        assert!(in_form(error), "{message}");
        assert!(
            lines[2]
                .strip_prefix("hint: ")
                .is_some_and(|h| !h.is_empty()),
            "{message}"
        );
        assert_eq!(lines[3..], ["exit code 2"], "{message}");
    }
}
