//! Every message that a wrong command line gets, in one file: a change of wording is seen in review.

use std::{fmt::Write as _, fs};

use crate::common::Lm;

/// What the user types, after `layermark`.
const LINES: &[&str] = &[
    // Commands and options.
    "frobnicate",
    "reprot",
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
    "run --profile slow",
    "run --resume last --replay last",
    "run --resume last --delta 1%",
    "run --env =x",
    "schema nothing",
    "completions tcsh",
    "import",
    "import absent.json",
    "import --format nothing plan.toml",
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
    "file -l tmpfs -l tmpfs",
    "file -l netns..vm..vm",
    "file -l native..netns",
    "file --dir /nowhere",
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
    all
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

/// `error: ` in lower case without a full stop, then `hint: ` with something to do.
#[test]
fn messages_have_one_form() {
    let all: Vec<&str> = EXPECTED.split_terminator("\n\n").collect();
    assert_eq!(all.len(), LINES.len());
    for message in all {
        let lines: Vec<&str> = message.lines().collect();
        let error = lines[1].strip_prefix("error: ").expect(message);
        let begins = error.chars().next().expect(message);
        assert!(
            !begins.is_uppercase() && !error.trim_end_matches("...").ends_with('.'),
            "{message}"
        );
        assert!(
            lines[2]
                .strip_prefix("hint: ")
                .is_some_and(|h| !h.is_empty()),
            "{message}"
        );
        assert_eq!(lines[3..], ["exit code 2"], "{message}");
    }
}
