//! README's questions: the command beside each one runs, and answers it.

use std::{fs, process::Command};

use crate::common::{Lm, Said, five_runs, is_root, root, skipped};

/// A question of the table, its command, and a test of the answer.
struct Question {
    /// How its command begins.
    command: &'static str,
    /// What is made before it, in the test's directory.
    before: fn(&Lm),
    /// What is added, so that it takes a moment.
    small: &'static str,
    /// Exit codes that are an answer.
    codes: &'static [i32],
    /// What the answer names.
    says: &'static [&'static str],
}

const SMALL: &str = "--blocks 1 --sessions 1 --no-control --dir work --scale 0.01";

const QUESTIONS: &[Question] = &[
    Question {
        command: "layermark why",
        before: |lm| shell(lm, PROJECT),
        small: "--blocks 1 --dir work",
        codes: &[0, 4],
        says: &["npm ci", "overlay:upper", "bind:rw"],
    },
    Question {
        command: "layermark safe",
        before: |_| {},
        small: "",
        codes: &[0, 1, 4],
        says: &["flock locks", "fsync", "names after a cut"],
    },
    Question {
        command: "layermark run -l vm:",
        before: |_| {},
        small: "--blocks 1 --sessions 1 --no-control --dir work --scale 0.001",
        codes: &[0, 4],
        says: &["vm:", "SQLite commit"],
    },
    Question {
        command: "layermark file --op rand-write",
        before: |_| {},
        small: SMALL,
        codes: &[0, 4],
        says: &["loop:ext4", "loop:xfs"],
    },
    Question {
        command: "layermark file --op read",
        before: |_| {},
        small: SMALL,
        codes: &[0, 4],
        says: &["nas-noatime"],
    },
    Question {
        command: "layermark compare last~1",
        before: |_| {},
        small: "",
        codes: &[0, 4],
        says: &["share is slower than in the old run"],
    },
    Question {
        command: "layermark run job.fio",
        before: |lm| {
            let job = "[a]\nrw=randread\nbs=4k\nsize=4m\n";
            fs::write(lm.dir.path().join("job.fio"), job).expect("a job");
        },
        small: "--blocks 1 --sessions 1 --no-control --dir work",
        codes: &[0, 4],
        says: &["overlay:upper"],
    },
    Question {
        command: "layermark replay",
        before: |lm| {
            let dir = lm.dir.path();
            let record = ["record", "-o", "app.lmrec", "--", "ls", "-l", "mnt"];
            Lm::with(dir).args(record).run().code(0);
        },
        small: "--blocks 1 --sessions 1 --no-control --dir work",
        codes: &[0, 4],
        says: &["fuse"],
    },
    Question {
        command: "layermark report last",
        before: |_| {},
        small: "",
        codes: &[0],
        says: &[],
    },
    Question {
        command: "layermark compare a.lm",
        before: |lm| five_runs(lm.dir.path()),
        small: "",
        codes: &[0],
        says: &["c.lm is the odd one", "a.lm: "],
    },
    Question {
        command: "layermark run daily",
        before: |_| {},
        small: "-l overlay:upper --blocks 1 --sessions 1 --no-control --dir work --scale 0.01",
        codes: &[0, 4],
        says: &["overlay:upper"],
    },
    Question {
        command: "layermark durability",
        before: |_| {},
        small: "--cuts 2 --blocks 2 --sessions 1 --records 4 --no-control --dir work",
        codes: &[0, 1, 4],
        says: &["overlay:upper"],
    },
    Question {
        command: "layermark plans",
        before: |_| {},
        small: "",
        codes: &[0],
        says: &["card", "daily", "share"],
    },
];

/// A project with a package that is beside it, so that nothing is downloaded.
const PROJECT: &str = r#"
mkdir left
echo '{"name":"left","version":"1.0.0"}' > left/package.json
echo 'module.exports = 1' > left/index.js
(cd left && npm pack --silent --cache ../cache)
echo '{"name":"app","version":"1.0.0","dependencies":{"left":"file:left/left-1.0.0.tgz"}}' > package.json
npm install --package-lock-only --offline --silent --cache cache
rm -r cache
"#;

fn shell(lm: &Lm, line: &str) {
    let mut sh = Command::new("sh");
    let sh = sh.args(["-ec", line]).current_dir(lm.dir.path());
    assert!(sh.status().expect("a shell").success(), "{line}");
}

/// Commands of README's table of questions.
fn table() -> Vec<String> {
    let readme = fs::read_to_string(root().join("README.md")).expect("README");
    let (_, rest) = readme.split_once("## Questions\n").expect("questions");
    let (table, _) = rest.split_once("\n## ").expect("their end");
    let rows = table.lines().filter(|line| line.starts_with('|')).skip(2);
    rows.map(|row| row.split('`').nth_back(1).expect("a command").to_owned())
        .collect()
}

/// A directory with what the commands name, and a store with two runs.
fn made() -> Lm {
    let lm = Lm::stored(&["compare-old", "compare-new"]);
    for name in ["mnt/nas", "mnt/nas-noatime"] {
        fs::create_dir_all(lm.dir.path().join(name)).expect("a directory");
    }
    lm
}

/// Runs a command of the table, made small. `None` if this machine cannot set the layer up.
fn answer(command: &str, question: &Question) -> Option<Said> {
    let lm = made();
    (question.before)(&lm);
    let dir = lm.dir.path().display().to_string();
    let words = shell_words::split(&command.replace("/mnt/", &format!("{dir}/mnt/")));
    let words = words.expect("words of a shell");
    let said = lm
        .args(&words[1..])
        .args(question.small.split_whitespace())
        .run();
    if said.code == Some(3) && (!is_root() || said.stderr.contains("not installed")) {
        skipped(&format!("{command}: {}", said.stderr));
        return None;
    }
    Some(said)
}

/// Runs the command of a question. Its answer, if this machine can give one.
fn asked(command: &str) -> Option<Said> {
    let question = QUESTIONS.iter().find(|q| command.starts_with(q.command));
    let question = question.unwrap_or_else(|| panic!("add a test of {command}"));
    let said = answer(command, question)?;
    let code = said.code.expect("it ended by itself");
    assert!(
        question.codes.contains(&code),
        "{command}: {code}: {}",
        said.stderr
    );
    for words in question.says {
        let told = said.stdout.contains(words);
        assert!(told, "{command}: `{words}` is not in {}", said.stdout);
    }
    if question.command.ends_with("report last") {
        for file in ["picture.png", "result.lm"] {
            let path = said.dir.path().join(file);
            let size = fs::metadata(&path).expect(file).len();
            assert!(size > 1000, "{file}: {size} bytes");
        }
    }
    Some(said)
}

/// The command of the table that begins so.
fn row(begins: &str) -> String {
    let found = table().into_iter().find(|row| row.starts_with(begins));
    found.unwrap_or_else(|| panic!("README has no question with {begins}"))
}

#[test]
fn each_question_of_the_readme_has_a_test_and_each_test_its_question() {
    let table = table();
    assert!(table.len() >= 10, "{table:?}");
    for command in &table {
        let tests = QUESTIONS.iter().filter(|q| command.starts_with(q.command));
        assert_eq!(tests.count(), 1, "{command}");
    }
    for question in QUESTIONS {
        row(question.command);
    }
}

#[test]
fn why_a_command_is_slow() {
    if !is_root() {
        return skipped("only root may mount an overlay here");
    }
    if Command::new("npm").arg("--version").output().is_err() {
        return skipped("npm installs the packages of a project: apt-get install npm");
    }
    asked(&row("layermark why"));
}

#[test]
fn whether_a_directory_is_safe() {
    asked(&row("layermark safe"));
}

/// On an emulated CPU most ratios are those of the emulation, so the answer says so first.
#[test]
fn what_a_virtual_machine_costs() {
    let Some(said) = asked(&row("layermark run -l vm:")) else {
        return;
    };
    let text = said.stdout.clone();
    let report = said.then().args(["report", "last", "--json"]).run().json();
    let layers = report["layers"].as_array().expect("layers");
    let mut guests = layers.iter().map(|l| &l["facts"]["guest"]);
    let emulated = guests.any(|guest| guest["emulated_cpu"] == true);
    let caveat = text.lines().find(|line| line.starts_with("!! "));
    let says = caveat.is_some_and(|line| line.contains("emulated CPU"));
    assert_eq!(says, emulated, "{text}");
}

#[test]
fn which_file_system_is_below_image_files() {
    asked(&row("layermark file --op rand-write"));
}

#[test]
fn what_a_mount_option_costs() {
    asked(&row("layermark file --op read"));
}

#[test]
fn what_is_slower_than_yesterday() {
    asked(&row("layermark compare last~1"));
}

#[test]
fn what_a_job_of_fio_costs_in_a_layer() {
    asked(&row("layermark run job.fio"));
}

#[test]
fn what_an_application_does_elsewhere() {
    asked(&row("layermark replay"));
}

#[test]
fn a_picture_and_a_file_to_repeat_it() {
    asked(&row("layermark report last"));
}

#[test]
fn which_of_five_machines_is_odd() {
    asked(&row("layermark compare a.lm"));
}

#[test]
fn where_code_and_databases_should_be() {
    asked(&row("layermark run daily"));
}

#[test]
fn what_a_power_cut_leaves() {
    asked(&row("layermark durability"));
}

#[test]
fn which_plan_answers_what() {
    asked(&row("layermark plans"));
}
