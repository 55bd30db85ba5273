//! The user's own program on a disk that loses power: whose loss is it, and what is not proved.

use serde_json::Value;

use crate::common::{Lm, Said, needs_root, skipped};

/// Writes, flushes and names an item, then acknowledges it. Slowly, so that each is read at once on a busy machine too.
const HONEST: &str = "i=0; while i=$((i+1)); do
    echo $i > item-$i; sync item-$i .; echo ack $i; sleep 0.03
done";
/// The same without a flush. Not as fast as it can: each item costs the check a process.
const CARELESS: &str = "i=0; while i=$((i+1)); do echo $i > item-$i; echo ack $i; sleep 0.01; done";
const CHECK: &str = "while read -r i; do [ \"$(cat item-$i 2>&1)\" = $i ] || echo lost $i; done";

/// Cuts the power of these layers, in which only flushes were measured before.
fn durability(program: &[&str], layers: &[&str]) -> Said {
    let lm = Lm::new();
    let work = lm.work();
    let small = "--records 4 --seed 3 --blocks 8 --sessions 1 --no-control --json --dir";
    lm.args(["durability"])
        .args(program)
        .args(layers.iter().flat_map(|layer| ["-l", layer]))
        .args(small.split(' '))
        .args([work])
        .run()
        .left_nothing()
}

fn cut(run: &str, check: &str, layers: &[&str]) -> Said {
    let six = ["--time", "600ms", "--cuts", "6"];
    durability(
        &[&["--run", run, "--check", check], &six[..]].concat(),
        layers,
    )
}

fn of<'a>(report: &'a Value, layer: &str) -> &'a Value {
    let cuts = report["program_cuts"].as_array().expect("cuts of programs");
    let found = cuts.iter().find(|c| c["layer"] == layer);
    found.unwrap_or_else(|| panic!("{layer}: {report:#}"))
}

fn number(cut: &Value, key: &str) -> u64 {
    cut[key]
        .as_u64()
        .unwrap_or_else(|| panic!("{key}: {cut:#}"))
}

/// What the report says of the program, in one line.
fn answer(said: Said) -> String {
    let report = said.then().args(["report", "last"]).run().stdout;
    let words: Vec<&str> = report.split_whitespace().collect();
    words.join(" ")
}

#[test]
fn an_honest_program_is_kept_by_honest_layers_and_a_liar_is_caught() {
    if !needs_root() {
        return;
    }
    let said = cut(HONEST, CHECK, &["overlay:upper", "overlay:volatile"]).code(1);
    let report = said.json();
    for layer in ["native", "overlay:upper"] {
        let cut = of(&report, layer);
        assert!(number(cut, "items") > 3, "{cut:#}");
        let seen = ["cuts", "losing", "lost_when_killed", "unchecked"].map(|key| number(cut, key));
        assert_eq!(seen, [6, 0, 0, 0], "{cut:#}");
    }
    assert!(
        number(of(&report, "overlay:volatile"), "losing") > 0,
        "{report:#}"
    );
    let told = answer(said);
    assert!(
        told.contains("in overlay:volatile, and natively none"),
        "{told}"
    );
    assert!(
        told.contains("it kept all in native and overlay:upper"),
        "{told}"
    );
}

#[test]
fn a_program_that_flushes_nothing_is_no_fault_of_the_layer() {
    if !needs_root() {
        return;
    }
    let said = cut(CARELESS, CHECK, &["overlay:upper"]).code(1);
    let report = said.json();
    for layer in ["native", "overlay:upper"] {
        assert!(number(of(&report, layer), "losing") > 0, "{report:#}");
    }
    let told = answer(said);
    assert!(
        told.contains("natively too, so the program does not flush"),
        "{told}"
    );
    let trials = report["power_cuts"].as_array().expect("power cuts");
    let ours = trials.iter().filter(|t| t["layer"] == "overlay:upper");
    assert!(
        ours.clone().count() > 4 && ours.clone().all(|t| t["losing"] == 0),
        "{trials:#?}"
    );
}

/// Each says nothing, and why.
#[test]
fn what_cannot_be_believed_is_not_proved() {
    if !needs_root() {
        return;
    }
    let said = cut(HONEST, "cat > /dev/null", &["overlay:upper"]);
    let blind = said.json();
    assert!(
        of(&blind, "overlay:upper")["blind"]
            .as_bool()
            .unwrap_or(false),
        "{blind:#}"
    );
    let told = answer(said);
    assert!(
        told.contains("not proved") && told.contains("empty directory"),
        "{told}"
    );
    let crash = cut(HONEST, "kill -SEGV $$", &["overlay:upper"]).json();
    let why = of(&crash, "overlay:upper")["uncut"].to_string();
    assert!(
        why.contains("its check failed before any power cut"),
        "{why}"
    );
    let silent = cut("echo starting; exit 3", CHECK, &["overlay:upper"]).json();
    let why = of(&silent, "native")["uncut"].to_string();
    assert!(
        why.contains("it acknowledged nothing: it ended with exit code 3"),
        "{why}"
    );
    let said = cut(HONEST, "echo lost 1; cat > /dev/null", &["overlay:upper"]);
    let liar = said.json();
    assert!(
        number(of(&liar, "native"), "lost_when_killed") > 0,
        "{liar:#}"
    );
    let told = answer(said);
    assert!(
        told.contains("acknowledges before it writes, or its check is wrong"),
        "{told}"
    );
}

#[test]
fn what_is_asked_for_wrongly_is_refused() {
    let refused = |args: &[&str]| {
        let said = Lm::new()
            .args([&["durability", "-l", "overlay:upper"], args].concat())
            .run();
        said.code(2).stderr
    };
    assert!(refused(&["--run", "true"]).contains("--check"));
    assert!(refused(&["--run", " ", "--check", "x"]).contains("need a command"));
    let ack = refused(&["--run", "x", "--check", "x", "--ack", "("]);
    assert!(
        ack.contains("`--ack` = (") && ack.contains("hint:"),
        "{ack}"
    );
    assert!(refused(&["--time", "1s"]).contains("`--time` is for a program"));
    assert!(refused(&["--preset", "nothing"]).contains("sqlite"));
    let only = refused(&["--preset", "rename", "--only", "rename, directory"]);
    assert!(
        only.contains("`--only` = rename, directory: not a program of the presets")
            && only.contains("hint: did you mean `rename, directory flushed`?"),
        "{only}"
    );
    assert!(refused(&["--only", "x"]).contains("`--preset` is missing"));
    let both = refused(&["--run", "x", "--check", "x", "--only", "x"]);
    assert!(
        both.contains("`--run`") && both.contains("`--only`"),
        "{both}"
    );
    let none = refused(&["--cuts", "0", "--run", "x", "--check", "x"]);
    assert!(none.contains("`--cuts 0`"), "{none}");
}

/// Runs a preset in an honest layer and, as its control, a lying one.
fn preset(names: &[&str]) {
    if !needs_root() {
        return;
    }
    let flags = names.iter().flat_map(|name| ["--preset", name]);
    let four = ["--time", "600ms", "--cuts", "4"];
    let program: Vec<&str> = flags.chain(four).collect();
    let said = durability(&program, &["overlay:upper"]);
    if said.code == Some(2) && said.stderr.contains("is not installed") {
        return skipped(&said.stderr);
    }
    let report = said.code(0).json();
    let cuts = report["program_cuts"].as_array().expect("cuts of programs");
    assert!(cuts.len() >= 6, "{cuts:#?}");
    for cut in cuts {
        assert!(
            number(cut, "items") > 1 && number(cut, "cuts") == 4,
            "{cut:#}"
        );
        if cut["promises"] == "kept" {
            assert_eq!(number(cut, "lost_when_killed"), 0, "{cut:#}");
        }
        let is_liar = cut["layer"] == "overlay:volatile";
        if is_liar || cut["promises"] == "kept" {
            assert_eq!(number(cut, "losing") > 0, is_liar, "{cut:#}");
        }
    }
}

#[test]
fn sqlite_keeps_what_its_makers_promise() {
    preset(&["sqlite"]);
}

#[test]
fn postgres_keeps_what_its_makers_promise() {
    preset(&["postgres"]);
}

#[test]
fn redis_keeps_what_its_makers_promise() {
    preset(&["redis"]);
}

#[test]
fn files_are_kept_where_they_are_flushed() {
    preset(&["git", "rename", "copy", "dpkg"]);
}

/// Long enough for what ends by itself, however busy the machine is.
const PATIENT: u32 = 60_000;
/// For what never ends.
const SHORT: u32 = 500;

/// Cuts programs of a plan natively, and in the layer that is known to lie. Each has its time, ms.
fn planned(programs: &[(&str, &str, &str, u32)], cuts: u32) -> Said {
    let table = |(name, run, check, time): &(&str, &str, &str, u32)| {
        format!(
            "[[power_cuts.programs]]\nname = '{name}'\nrun = '''\n{run}'''\ncheck = '''\n{check}'''\ntime_ms = {time}\n\n"
        )
    };
    let tables: Vec<String> = programs.iter().map(table).collect();
    let plan = format!(
        "name = \"programs\"\nlayers = [\"native\"]\nblocks = 8\nsessions = 1\nseed = 3\n\n[power_cuts]\ncuts = {cuts}\n\
         records = 1\n\n{}[[work]]\nworkload = \"file\"\nop = \"append\"\nrecord = \"4K\"\nsync = \"each\"\n",
        tables.concat()
    );
    let lm = Lm::new();
    let file = lm.dir.path().join("programs.toml");
    std::fs::write(&file, plan).expect("a plan");
    let work = lm.work();
    lm.args(["run", "--no-control", "--allow-programs", "--json"])
        .args([&file])
        .args(["--dir"])
        .args([work])
        .run()
        .left_nothing()
}

/// Of the patterns of bugs that `LazyFS` (VLDB 2024) has reproduced: a program that loses what it acknowledged natively, and the
/// same mended, which loses nothing. Each ends by itself, in the state that shows the loss: a cut there is certain.
#[test]
fn known_patterns_of_bugs_lose_natively_and_their_mended_programs_do_not() {
    if !needs_root() {
        return;
    }
    let exists = r#"while read -r i; do [ "$(cat item-$i 2>&1)" = $i ] || echo lost $i; done"#;
    let item = |body: &str| {
        format!(
            "i=0; while [ $i -lt 8 ]; do i=$((i+1)); {body} && echo ack $i && sleep 0.02 || exit 2; done"
        )
    };
    let unnamed = item("echo $i > new && sync new && mv new item-$i");
    let named = item("echo $i > new && sync new && mv new item-$i && sync .");
    let unflushed = item("echo $i > new && mv new item-$i && sync .");
    let log = r#"while read -r i; do grep -qx "item $i" log || echo lost $i; done"#;
    let appended = item(r#"echo "item $i" >> log"#);
    let flushed = item(r#"echo "item $i" >> log && sync log"#);
    // One file with the last number: what is there may be later than what was acknowledged last, and not older.
    let last = r#"while read -r i; do n=$i; done; have=$(cat state 2> /dev/null); [ "${have:-0}" -ge "${n:-0}" ] || echo lost $n"#;
    let truncated = item(
        ": > state && sync state && { [ $i -lt 8 ] || exit 0; } && echo $i > state && sync state",
    );
    let renamed = item("echo $i > new && sync new && mv new state && sync .");
    // Two pages that have the same number in each line of eight bytes; the second is written after a flush, as by a writer that splits.
    let pages = r#"while read -r i; do n=$i; done; [ $(sort -u pair | wc -l) = 1 ] && [ "$(head -n 1 pair)" -ge "$n" ] || echo torn $n"#;
    let page = |flags: &str| {
        format!(
            "yes $i | head -c 4096 | dd of=pair bs=4096 {flags} conv=notrunc status=none && sync pair"
        )
    };
    let split = format!(
        "i=1000000; while i=$((i+1)); do {} && {{ [ $i -lt 1000008 ] || exit 0; }} && {} && echo ack $i && sleep 0.02 || exit 2; done",
        page(""),
        page("seek=1")
    );
    let whole = "i=1000000; while [ $i -lt 1000008 ]; do i=$((i+1)); yes $i | head -c 8192 > new && sync new && mv new pair && sync . && echo ack $i && sleep 0.02 || exit 2; done";
    let pairs = [
        ("no fsync of the directory", unnamed.as_str(), exists),
        ("rename without fsync", &unflushed, exists),
        ("append without fsync", &appended, log),
        ("truncate, then write", &truncated, last),
        ("write split over pages", &split, pages),
        ("mended: rename", &named, exists),
        ("mended: append", &flushed, log),
        ("mended: truncate", &renamed, last),
        ("mended: pages", whole, pages),
    ];
    let pairs = pairs.map(|(name, run, check)| (name, run, check, PATIENT));
    let report = planned(&pairs, 12).json();
    let cuts = report["program_cuts"].as_array().expect("cuts of programs");
    for cut in cuts.iter().filter(|c| c["layer"] == "native") {
        let program = cut["program"].as_str().expect("a name");
        // Two of them end before the last.
        assert!(
            number(cut, "items") >= 7 && number(cut, "cuts") == 12,
            "{cut:#}"
        );
        let is_mended = program.starts_with("mended");
        assert!(
            !is_mended || number(cut, "lost_when_killed") == 0,
            "{cut:#}"
        );
        assert_eq!(number(cut, "losing") > 0, !is_mended, "{program}: {cut:#}");
    }
}

/// Bad programs, most of which have half a second: what is said of it, and nothing hangs.
#[test]
fn bad_programs_end_with_the_reason() {
    if !needs_root() {
        return;
    }
    let keeps = r#"while read -r i; do [ "$(cat item-$i 2>&1)" = $i ] || echo lost $i; done"#;
    let bad = [
        (
            "hangs",
            "echo 1 > item-1; sync item-1 .; echo ack 1; sleep 1000",
            keeps,
            SHORT,
        ),
        (
            "forks",
            "echo 1 > item-1; sync item-1 .; (while :; do date > beat; sleep 0.01; done) & echo ack 1; wait",
            keeps,
            SHORT,
        ),
        ("never stops", "yes 'ack x' | head -c 1G", "exit 0", SHORT),
        (
            "acknowledges first",
            "echo ack 1; sleep 1000; echo 1 > item-1; sync item-1 .",
            keeps,
            SHORT,
        ),
        (
            "needs a terminal",
            "tty -s || { echo 'not a terminal'; exit 7; }; echo ack 1",
            keeps,
            SHORT,
        ),
        (
            "fills the disk",
            "fallocate -l 400M room; i=0; while i=$((i+1)); do fallocate -l 40M big-$i || exit 5; echo $i > item-$i; sync item-$i . && echo ack $i; done",
            keeps,
            PATIENT,
        ),
        (
            "has no check",
            "echo 1 > item-1; sync item-1 .; echo ack 1; sleep 1000",
            "nowhere",
            SHORT,
        ),
    ];
    let report = planned(&bad, 2).json();
    let cuts = report["program_cuts"].as_array().expect("cuts of programs");
    let of = |program: &str| {
        let own = |c: &&Value| c["layer"] == "native" && c["program"] == program;
        cuts.iter()
            .find(own)
            .unwrap_or_else(|| panic!("{program}: {cuts:#?}"))
    };
    for program in ["hangs", "forks"] {
        let counts = ["items", "cuts", "losing"].map(|key| number(of(program), key));
        assert_eq!(counts, [1, 2, 0], "{:#}", of(program));
    }
    assert!(
        number(of("never stops"), "items") > 1,
        "{:#}",
        of("never stops")
    );
    assert!(
        of("never stops")["blind"] == true,
        "{:#}",
        of("never stops")
    );
    assert!(
        number(of("acknowledges first"), "lost_when_killed") > 0,
        "{cuts:#?}"
    );
    let why = of("needs a terminal")["uncut"].to_string();
    assert!(
        why.contains("it acknowledged nothing: it ended with exit code 7")
            && why.contains("not a terminal"),
        "{why}"
    );
    let full = of("fills the disk");
    let ended = full["ended"].to_string();
    assert!(
        ended.contains("exit code 5") && number(full, "items") > 0,
        "{full:#}"
    );
    assert_eq!(number(full, "losing"), 0, "{full:#}");
    let why = of("has no check")["uncut"].to_string();
    assert!(
        why.contains("its check failed before any power cut") && why.contains("127"),
        "{why}"
    );
}
