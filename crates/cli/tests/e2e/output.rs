//! What comes out: formats, JSON, quiet pipes, help for shells, and the same order again.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::Command,
};

use crate::common::{self, Lm, MOCK, READ, Said, result, root, skipped};
use serde_json::Value;

#[test]
fn every_format_is_written_where_it_was_asked_for() {
    let names = [
        "r.html",
        "r.htm",
        "r.json",
        "r.csv",
        "r.md",
        "r.markdown",
        "r.txt",
        "r.wide.csv",
        "r.trials.csv",
        "r.sections.csv",
        "iozone.txt",
        "r.xlsx",
        "c.svg",
        "c.charts.png",
        "result.png",
    ];
    let outputs = names.iter().flat_map(|n| ["-o", n]);
    let said = Lm::new()
        .charted()
        .args(outputs)
        .run()
        .code(4)
        .says("report: ");
    let read = |name: &str| fs::read_to_string(said.dir.path().join(name)).expect(name);
    for page in ["r.html", "r.htm"] {
        let page = read(page);
        assert!(page.starts_with("<!DOCTYPE html>") && page.contains("mock:ns=1500"));
        assert!(page.contains("Content-Security-Policy") && page.trim_end().ends_with("</html>"));
    }
    let json: Value = serde_json::from_str(&read("r.json")).expect("JSON");
    assert_eq!(json["schema"], "layermark.report/1");
    let csv = read("r.csv");
    let columns = csv.lines().next().expect("a head").split(',').count();
    assert!(
        columns > 5 && csv.lines().count() >= 3 && csv.contains("mock:ns=1500"),
        "{csv}"
    );
    for table in ["r.md", "r.markdown"] {
        assert!(read(table).contains("| mock:ns=1500 |"), "{}", read(table));
    }
    let book = fs::read(said.dir.path().join("r.xlsx")).expect("r.xlsx");
    assert!(book.starts_with(b"PK\x03\x04"), "a workbook is a ZIP file");
    let charts = |ending: &str| -> Vec<String> {
        let lines = said
            .stderr
            .lines()
            .filter_map(|l| l.strip_prefix("report: "));
        let own = |l: &&str| l.starts_with("c-") && l.ends_with(ending);
        lines.filter(own).map(str::to_owned).collect()
    };
    let picture = fs::read(said.dir.path().join("result.png")).expect("one picture");
    assert!(picture.starts_with(b"\x89PNG"), "the card");
    let (drawings, pictures) = (charts(".svg"), charts(".charts.png"));
    assert!(
        drawings.len() >= 2 && drawings.len() == pictures.len(),
        "{drawings:?}"
    );
    assert!(drawings.iter().all(|name| read(name).contains("</svg>")));
    assert!(read("r.wide.csv").contains("mock:ns=1500 ratio"));
    assert!(read("r.trials.csv").starts_with("seq,session,block"));
    assert!(read("r.sections.csv").starts_with("run,section,table"));
    let other = "iozone-mock-ns-1500.txt";
    for (name, layer) in [("iozone.txt", "mock"), (other, "mock:ns=1500")] {
        assert!(read(name).contains(&format!("Layer {layer}.")), "{name}");
        assert!(said.stderr.contains(name) && read(name).contains("\"Reader report\"\n"));
    }
    assert!(read("r.txt").contains("mock:ns=1500") && !read("r.txt").contains('\u{1b}'));
    // A format that has nothing to say of this run says so.
    let empty = |name: &str| said.stderr.contains(&format!("warning: {name} is empty"));
    let lines = read("r.sections.csv").lines().count();
    assert_eq!(empty("r.sections.csv"), lines == 1, "{}", said.stderr);
    assert!(!empty("r.csv") && !empty("r.trials.csv"), "{}", said.stderr);
    let of_launches = ["r.launches.csv", "r.hyperfine.json"];
    let report = Lm::with(said.dir.path()).args(["report"]);
    let report = report.args(of_launches.iter().flat_map(|name| ["-o", name]));
    let report = report.run().code(0);
    for name in of_launches {
        let warning = format!("warning: {name} is empty: run ");
        assert!(report.stderr.contains(&warning), "{}", report.stderr);
    }
    assert!(
        report
            .stderr
            .contains("has no launches\nhint: its results: layermark report ")
    );
    // With -o the page beside the store is not written as well.
    assert!(!said.dir.path().join("data/layermark/reports").exists());
    // The same from the store, byte for byte where nothing depends on the moment.
    let said = said
        .then()
        .args(["report", "last", "-o", "again.json", "-o", "again.csv"])
        .run()
        .code(0);
    let read = |name: &str| fs::read_to_string(said.dir.path().join(name)).expect(name);
    assert_eq!(
        (read("again.json"), read("again.csv")),
        (read("r.json"), read("r.csv"))
    );
}

#[test]
fn an_unknown_ending_is_refused_before_the_run() {
    for name in ["r.pdf", "r", ".html.bak", "r.html.zzz"] {
        let said = Lm::new()
            .mock()
            .args(["-o", name])
            .run()
            .fails(2, &[name, ".html"]);
        assert!(
            common::history(said.dir.path()).is_empty(),
            "it was measured all the same"
        );
    }
}

#[test]
fn where_no_file_can_be_made_is_known_before_the_run() {
    for (name, why) in [
        ("/proc/r.html", "no file can be made in /proc"),
        (".", "no format"),
    ] {
        let said = Lm::new()
            .mock()
            .args(["-o", name])
            .run()
            .fails(2, &[name, why]);
        assert!(common::history(said.dir.path()).is_empty());
    }
    let lm = Lm::new()
        .mock()
        .args(["-o", "d.html"])
        .around("mkdir d.html", "true");
    if let Some(lm) = lm {
        lm.run().fails(2, &["d.html", "is a directory"]);
    }
}

#[test]
fn an_old_report_is_kept_when_the_new_one_cannot_be_written() {
    let small = "mkdir s; mount -t tmpfs -o size=12k none s; echo old >s/r.html; cat /dev/zero >s/full 2>/dev/null || true";
    let lm = Lm::new().mock().args(["--force", "-o", "s/r.html"]);
    let Some(lm) = lm.around(small, "cat s/r.html; ls s") else {
        return;
    };
    let said = lm
        .run()
        .fails(1, &["s/r.html", "No space left", "layermark report"]);
    // What could be shown was, and then the old one.
    assert!(said.stdout.contains("Trust: "), "{}", said.stdout);
    assert!(
        said.stdout.ends_with("\nold\nfull\nr.html\n"),
        "{}",
        said.stdout
    );
}

#[test]
fn with_json_stdout_is_one_document_whatever_happens() {
    let json = |lm: Lm| lm.args(["--json"]).run().json();
    assert_eq!(json(Lm::new().mock())["schema"], "layermark.report/1");
    // Nothing was measured, and there is a report all the same.
    let nothing = json(Lm::new().measure(&["mock", "mock:fail-open=on"]));
    assert_eq!(nothing["schema"], "layermark.report/1");
    assert_eq!(
        json(Lm::new().args(["history"]))["schema"],
        "layermark.history/1"
    );
    assert_eq!(
        json(Lm::new().args(["layers"]))["schema"],
        "layermark.layers/1"
    );
    assert_eq!(
        json(Lm::new().args(["layers", "overlay"]))["layers"]
            .as_array()
            .map(Vec::len),
        Some(1)
    );
    for wrong in [
        vec!["layers", "ovrlay"],
        vec!["report", "ZZZZ"],
        vec!["run", "absent.toml"],
        vec!["run", "--resume", "last"],
        vec!["run", "--replay", "last"],
        vec!["file", "--nonsense"],
        vec!["file", "--op", "read", "--dir", "absent"],
        vec!["history", "--limit", "many"],
    ] {
        let error = json(Lm::new().args(&wrong));
        assert_eq!(
            (&error["schema"], &error["code"]),
            (&"layermark.error/1".into(), &2.into()),
            "{wrong:?}"
        );
        assert!(error["hint"].is_string(), "{wrong:?}: {error}");
    }
}

/// `layermark report | head -1`
#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let stored = Lm::stored(&["scripted"]);
    let dir = stored.dir.path();
    for args in [
        vec!["report"],
        vec!["report", "--json"],
        vec!["history"],
        vec!["layers"],
        vec!["schema", "report"],
        vec!["man"],
        vec!["completions", "bash"],
    ] {
        let (mut child, _) = Lm::with(dir).args(&args).start();
        drop(child.stdout.take());
        let ended = common::output(child);
        let err = String::from_utf8_lossy(&ended.stderr);
        assert!(
            ended.status.success() && err.is_empty(),
            "{args:?}: {}: {err}",
            ended.status
        );
    }
    let (mut child, _) = Lm::with(dir).args(["report"]).start();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut first)
        .unwrap();
    assert!(first.contains("ratio") && child.wait().unwrap().success());
    let (mut child, _home) = Lm::new().mock().start();
    drop(child.stdout.take());
    assert_eq!(
        child.wait().unwrap().code(),
        Some(4),
        "the run itself ends as it would"
    );
}

#[test]
fn a_piped_run_says_only_what_matters() {
    let said = Lm::new().mock().run().code(4);
    let lines: Vec<&str> = said.stderr.lines().collect();
    assert!(
        lines.len() == 1 && lines[0].starts_with("report: "),
        "{}",
        said.stderr
    );
    assert!(!said.stdout.contains('\u{1b}'), "colours in a pipe");
    let longest = said.stdout.lines().map(|l| l.chars().count()).max();
    assert!(longest <= Some(110), "{longest:?} columns");
}

#[test]
fn a_seed_gives_the_same_order_and_a_replay_repeats_it() {
    let order = |report: &Value| -> Vec<(String, String)> {
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        let trials = report["trials"].as_array().expect("trials").iter();
        trials
            .map(|t| (text(&t["layer"]), text(&t["point"])))
            .collect()
    };
    let run = |seed: &str| {
        let args = [
            "--op",
            "rand-read",
            "--op",
            "reread",
            "--seed",
            seed,
            "--json",
        ];
        Lm::new()
            .work_with(READ, &["mock", "mock:ns=1500", "mock:ns=2000"])
            .args(["--blocks", "4"])
            .args(args)
            .run()
            .code(4)
    };
    let (first, same, other) = (run("7"), run("7").json(), run("8").json());
    let report = first.json();
    assert!(order(&report).len() > 20, "{report:#}");
    assert!(
        order(&report)
            .iter()
            .any(|(_, label)| label != &order(&report)[0].1),
        "labels are told"
    );
    assert_eq!(order(&report), order(&same));
    assert_ne!(order(&report), order(&other));
    let again = first
        .then()
        .args(["run", "--replay", "last", "--json"])
        .run()
        .code(4)
        .json();
    assert_eq!((order(&again), &again["seed"]), (order(&report), &7.into()));
    assert_ne!(again["run"], report["run"]);
    // Without a seed one is drawn and recorded.
    let drawn = |_| {
        Lm::new().mock().args(["--json"]).run().json()["seed"]
            .as_u64()
            .expect("a seed")
    };
    assert_ne!(drawn(1), drawn(2));
}

#[test]
fn a_scripted_ratio_is_found_exactly() {
    let report = Lm::new().mock().args(["--json"]).run().json();
    let row = result(&report, "read 4K of 64K, warm", MOCK[1]);
    let ratio = row["ratio"]["estimate"].as_f64().expect("a ratio");
    assert!((ratio - 1.5).abs() < 0.01, "{ratio}");
    let extra = row["extra_us"]["estimate"].as_f64().expect("a difference");
    assert!((extra - 0.5).abs() < 0.01, "{extra}");
}

fn shell(program: &str, args: &[&str], said: &Said) -> Option<bool> {
    let script = said.dir.path().join("script");
    fs::write(&script, &said.stdout).expect("script");
    let status = Command::new(program).args(args).arg(&script).status();
    status.ok().map(|s| s.success())
}

#[test]
fn completions_are_good_scripts() {
    let good = |name: &str, args: &[&str], word: &str| {
        let said = Lm::new()
            .args(["completions", name])
            .run()
            .code(0)
            .prints(word);
        match shell(name, args, &said) {
            Some(good) => assert!(good, "{name} refuses its completions"),
            None => skipped(&format!(
                "{name} is not installed; its completions are not parsed"
            )),
        }
    };
    good("bash", &["-n"], "-F _layermark layermark");
    good("zsh", &["-n"], "#compdef layermark");
    good("fish", &["-n"], "--command layermark");
    Lm::new()
        .args(["completions", "cobol"])
        .run()
        .fails(2, &["cobol", "bash"]);
}

/// What bash offers for a line, as it is when Tab is pressed.
fn offered(dir: &Path, line: &str) -> Vec<String> {
    let script = r#"
        layermark() { "$LAYERMARK" "$@"; }; PATH=$BIN:$PATH
        eval "$(layermark completions bash)"
        COMP_LINE=$1 COMP_POINT=${#1}
        _layermark; printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let bin = dir.join("bin");
    if !bin.exists() {
        fs::create_dir(&bin).expect("a directory");
        std::os::unix::fs::symlink(common::binary(), bin.join("layermark")).expect("a link");
    }
    let output = Command::new("bash")
        .args(["-c", script, "bash", line])
        .env("LAYERMARK", common::binary())
        .env("BIN", &bin)
        .env("XDG_DATA_HOME", dir.join("data"))
        .current_dir(dir)
        .output()
        .expect("bash");
    assert!(
        output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines()
        .filter(|l| !l.is_empty())
        .map(str::to_owned)
        .collect()
}

#[test]
fn plans_layers_options_and_runs_are_completed() {
    let lm = Lm::stored(&["scripted"]);
    let run = common::history(lm.dir.path())[0]["run"]
        .as_str()
        .expect("a run")
        .to_owned();
    let said = lm
        .file("mine.toml", "")
        .file("base.json", "{}")
        .args(["--version"])
        .run()
        .code(0);
    let dir = said.dir.path();
    for (line, all) in [
        ("layermark run ca", &["card"][..]),
        ("layermark run m", &["mine.toml"]),
        ("layermark file --op rew", &["rewrite"]),
        ("layermark run -l tm", &["tmpfs"]),
        ("layermark run -l overlay:wr", &["writecopy"]),
        ("layermark run -l fuse,pass", &["fuse,passthrough="]),
        ("layermark run -l fuse,cache=n", &["none"]),
        ("layermark run -l vm:share=vir", &["virtiofs"]),
        ("layermark compare ba", &["base.json"]),
        ("layermark compare base.json la", &["last"]),
        ("layermark layers ov", &["overlay"]),
        ("layermark report la", &["last"]),
        ("layermark file --file-s", &["--file-size"]),
    ] {
        assert_eq!(offered(dir, line), all, "{line}");
    }
    for line in ["layermark report ", "layermark run --resume "] {
        assert!(offered(dir, line).contains(&run), "{line}");
    }
    let ready = offered(dir, "layermark run -l ");
    assert!(ready.contains(&"overlay:merged".to_owned()) && !ready.iter().any(|l| l == "mock"));
    // The other shells ask the same way.
    for shell in ["zsh", "fish"] {
        let said = Lm::with(dir)
            .env("LAYERMARK_COMPLETE", shell)
            .env("_CLAP_COMPLETE_INDEX", "3")
            .args(["--", "layermark", "run", "-l", "overlay:vol"])
            .run()
            .code(0);
        // zsh needs a backslash before its own separator.
        let text = said.stdout.replace('\\', "");
        assert!(text.starts_with("overlay:volatile"), "{shell}: {text}");
        let said = Lm::with(dir)
            .env("LAYERMARK_COMPLETE", shell)
            .env("_CLAP_COMPLETE_INDEX", "2")
            .args(["--", "layermark", "compare", "ba"])
            .run()
            .code(0);
        assert_eq!(said.stdout.trim(), "base.json", "{shell}");
    }
}

#[test]
fn the_book_is_in_the_binary() {
    let list = Lm::new().args(["docs"]).run().code(0);
    let list = list
        .prints("layermark COMMAND --help")
        .prints("howto/share");
    let page = list.then().args(["docs", "tutorial"]).run().code(0);
    let written =
        fs::read_to_string(common::root().join("docs/src/tutorial.md")).expect("the page");
    assert_eq!(page.stdout, written);
    let wrong = page.then().args(["docs", "tutorail"]).run();
    wrong.fails(2, &["did you mean `tutorial`", "layermark docs"]);
}

/// A terminal gets the page from man(1), here one that says so.
#[test]
fn the_manual_page_is_shown_on_a_terminal() {
    let lm = Lm::new().file("man", "#!/bin/sh\necho \"shown by man $*\"; grep -c TH\n");
    let dir = lm.dir.path().to_owned();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(dir.join("man"), mode).expect("mode");
    let shown = |path: &str| {
        let line = format!("{} man", common::binary().display());
        let output = Command::new("script")
            .args(["-qec", &line, "/dev/null"])
            .env("PATH", path)
            .output();
        String::from_utf8_lossy(&output.expect("script").stdout).into_owned()
    };
    let text = shown(&format!("{}:/usr/bin:/bin", dir.display()));
    assert!(text.contains("shown by man -l -\r\n1"), "{text}");
    assert!(!text.contains(".TH"), "{text}");
    fs::remove_file(dir.join("man")).expect("removed");
    fs::write(dir.join("man"), "#!/bin/sh\nexit 1\n").expect("a file");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(dir.join("man"), mode).expect("mode");
    let text = shown(&format!("{}:/usr/bin:/bin", dir.display()));
    assert!(text.contains(".TH layermark 1"), "{text}");
}

#[test]
fn manual_pages_are_printed_and_written() {
    let page = Lm::new()
        .args(["man"])
        .run()
        .code(0)
        .prints(".TH layermark 1");
    assert!(page.stdout.contains("completions"));
    let said = page
        .then()
        .args(["man", "absent"])
        .run()
        .fails(2, &["absent", "mkdir -p"]);
    fs::create_dir(said.dir.path().join("pages")).unwrap();
    let said = said.then().args(["man", "pages"]).run().code(0);
    let read =
        |name: &str| fs::read_to_string(said.dir.path().join("pages").join(name)).expect(name);
    assert!(read("layermark.1").contains(".TH") && read("layermark-run.1").contains("resume"));
    assert!(read("layermark-file.1").contains("file\\-size"));
}

#[test]
fn schemas_are_those_that_are_published() {
    for what in [
        "plan",
        "report",
        "events",
        "imports",
        "odd",
        "fleet",
        "fleet-check",
        "safe",
        "why",
    ] {
        let said = Lm::new().args(["schema", what]).run().code(0);
        let path = root().join(format!("docs/schema/{what}.json"));
        if std::env::var_os("UPDATE_SCHEMA").is_some() {
            fs::write(&path, &said.stdout).expect("schema");
        }
        let published: Value =
            serde_json::from_str(&fs::read_to_string(&path).expect("published")).expect("JSON");
        let same = published == said.json();
        assert!(
            same,
            "{} is old: UPDATE_SCHEMA=1 cargo test --workspace --test e2e output::",
            path.display()
        );
    }
}

#[test]
fn what_is_printed_keeps_to_the_published_schema() {
    let schema = Lm::new().args(["schema", "report"]).run().json();
    let schema = jsonschema::validator_for(&schema).expect("a good schema");
    // The report's own tests do the same with all fixtures.
    let fixtures = [
        "scripted",
        "nothing-measured",
        "failed-layers",
        "failed-trials",
    ];
    let stored = Lm::stored(&fixtures);
    let runs = common::history(stored.dir.path());
    assert_eq!(runs.len(), fixtures.len());
    for run in runs {
        let run = run["run"].as_str().expect("a run");
        let lm = Lm::with(stored.dir.path());
        let report = lm.args(["report", run, "--json"]).run().json();
        let wrong: Vec<String> = schema
            .iter_errors(&report)
            .map(|e| format!("{}: {e}", e.instance_path()))
            .collect();
        assert!(wrong.is_empty(), "{run}: {wrong:#?}");
    }
}

#[test]
fn one_file_that_cannot_be_written_keeps_no_other_from_it() {
    let long = format!("{}.json", "x".repeat(300));
    let said = Lm::new()
        .mock()
        .args(["-o", "a.csv", "-o", &long, "-o", "b.md"])
        .run()
        .fails(1, &["File name too long", "the run is kept"]);
    for name in ["a.csv", "b.md"] {
        let text = fs::read_to_string(said.dir.path().join(name)).expect(name);
        assert!(text.contains("mock:ns=1500"), "{name}: {text}");
        assert!(said.stderr.contains(&format!("report: {name}")));
    }
    assert!(said.stdout.contains("mock:ns=1500"), "{}", said.stdout);
}

#[test]
fn a_dumb_terminal_gets_no_colours() {
    let said = Lm::new().mock().run().code(4);
    let shown = |term: &str| {
        let line = format!("{} report last", common::binary().display());
        let output = Command::new("script")
            .args(["-qec", &line, "/dev/null"])
            .env("XDG_DATA_HOME", said.dir.path().join("data"))
            .env("TERM", term)
            .env_remove("NO_COLOR")
            .output();
        String::from_utf8_lossy(&output.expect("script").stdout).into_owned()
    };
    let (xterm, dumb) = (shown("xterm"), shown("dumb"));
    assert!(xterm.contains("\u{1b}["), "{xterm}");
    assert!(
        dumb.contains("mock:ns=1500") && !dumb.contains('\u{1b}'),
        "{dumb}"
    );
}

/// What was typed by mistake, such as a whole file, is not repeated as a whole.
#[test]
fn long_values_are_not_echoed_whole() {
    let long = "x".repeat(100_000);
    let label = format!("mock,label={long}");
    for words in [
        vec!["file", "-l", &label],
        vec!["layers", &long],
        vec!["run", &long],
        vec!["file", "--op", &long],
        vec!["history", "--trend", &long, "fuse"],
        vec!["report", "-o", &long],
        vec![&long],
    ] {
        let said = Lm::new().args(&words).args(["--json"]).run();
        assert_eq!(said.code, Some(2), "{}", words[0]);
        let all = format!("{}{}", said.stderr, said.stdout);
        assert!(
            all.contains("more characters]") && all.len() < 10_000,
            "{}: {}",
            words[0],
            all.len()
        );
    }
}

/// A program that has read this needs no manual page.
#[test]
fn help_for_programs_has_commands_options_values_and_examples() {
    let said = Lm::new().args(["help", "--json"]).run().code(0);
    let help = said.json();
    assert_eq!(help["schema"], "layermark.help/1");
    let all = help["commands"].as_array().expect("commands");
    let find = |name: &str| all.iter().find(|c| c["name"] == name).expect(name);
    for name in [
        "run", "file", "iops", "compare", "report", "import", "layers",
    ] {
        assert_eq!(
            find(name)["examples"].as_array().map(Vec::len),
            Some(2),
            "{name}"
        );
    }
    let options = find("file")["options"].as_array().expect("options");
    let option = |name: &str| options.iter().find(|o| o["long"] == name).expect(name);
    assert_eq!(option("--layer")["repeatable"], true);
    assert_eq!(option("--json")["takes_value"], false);
    let values = option("--profile")["values"].as_array().expect("values");
    assert!(values.contains(&"thorough".into()), "{values:?}");
    assert_eq!(find("import")["arguments"][0]["required"], true);
    let codes: Vec<u64> = help["exit_codes"]
        .as_array()
        .expect("codes")
        .iter()
        .filter_map(|c| c["code"].as_u64())
        .collect();
    assert_eq!(codes, [0, 1, 2, 3, 4, 130]);
    let imports = help["import_formats"].as_array().expect("formats");
    assert!(imports.iter().any(|f| f["id"] == "pgbench"));
    let one = said.then().args(["help", "--json", "import"]).run().code(0);
    assert_eq!(one.json()["commands"].as_array().map(Vec::len), Some(1));
    one.then()
        .args(["help", "--json", "nope"])
        .run()
        .code(2)
        .says("no command `nope`");
}

/// Events for programs: each line is JSON that keeps to the schema, and the last one ends the run.
#[test]
fn events_of_a_run_are_lines_of_json() {
    let schema = Lm::new().args(["schema", "events"]).run().json();
    let schema = jsonschema::validator_for(&schema).expect("a good schema");
    let said = Lm::new()
        .mock()
        .args(["--events", "jsonl:events.jsonl"])
        .run();
    let text = fs::read_to_string(said.dir.path().join("events.jsonl")).expect("events");
    let lines: Vec<Value> = text
        .lines()
        .map(|l| serde_json::from_str(l).expect("JSON"))
        .collect();
    for line in &lines {
        assert!(schema.is_valid(line), "{line}");
    }
    let names: Vec<&str> = lines.iter().filter_map(|l| l["event"].as_str()).collect();
    for name in ["started", "layer-ready", "trial", "matrix"] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    assert_eq!(names.last(), Some(&"done"));
    let matrix = lines
        .iter()
        .rfind(|l| l["event"] == "matrix")
        .expect("a matrix");
    assert!(matrix["cells"][0]["ratio"].as_f64() > Some(0.0), "{matrix}");
    let said = said
        .then()
        .mock()
        .args(["--events", "jsonl:events.jsonl"])
        .run();
    let said = said.fails(
        2,
        &["--events", "events.jsonl", "hint: events go to a new file"],
    );
    let said = said.then().mock().args(["--events", "jsonl"]).run();
    let events = said.stderr.lines().filter(|l| l.starts_with('{'));
    assert!(events.count() > 5, "{}", said.stderr);
}
