//! README and the book: every command runs, every plan can be built, and code shown is the code's.

mod pages;

use std::{collections::BTreeSet, fs, path::Path, process::Command, sync::Mutex, thread};

use tempfile::TempDir;

use crate::common::{Lm, Said, disk_dir, five_runs, listed_commands, root, skipped};
use pages::{Line, blocks, commands};

/// Lines that are not run here, by how they begin, and why.
const NOT_RUN: &[(&str, &str)] = &[
    (
        "layermark run wsl-mnt",
        "its layer is a drive of Windows; plans.rs runs it small elsewhere",
    ),
    (
        "make ",
        "it installs packages and builds; setup.rs runs `make run`",
    ),
    ("sudo make ", "the same"),
    ("cargo ", "it builds"),
    ("RUSTFLAGS=", "it builds"),
    (
        "tar ",
        "it unpacks a package; scripts/test-dist.sh does that",
    ),
    (
        "layermark-0.1.0-x86_64-linux/",
        "the program of a package; scripts/test-dist.sh runs it",
    ),
    ("cd ", "a directory of the reader's"),
    (
        "layermark serve",
        "it serves until Ctrl-C; serve.rs ends it",
    ),
    ("layermark run --serve", "the same"),
    (
        "layermark durability",
        "it cuts the power of layers for a minute; power_cut.rs has fewer cuts",
    ),
    (
        "layermark selftest durability",
        "it does so for minutes; power_cut.rs has fewer layers",
    ),
    (
        "layermark fleet check",
        "hosts of the reader's; fleet.rs has some",
    ),
    ("layermark fleet run", "the same"),
    (
        "layermark safe",
        "a directory of the reader's; safe.rs asks about some",
    ),
    (
        "layermark why 'npm ci'",
        "a project of the reader's; questions.rs makes one",
    ),
    (
        "layermark replay app.lmrec --check",
        "a repository of the reader's; replay.rs checks a program",
    ),
    (
        "sudo layermark record --pid",
        "a program of the reader's; attached.rs records one",
    ),
    ("git add ", "a repository of the reader's"),
    ("sudo mount ", "a mount of the reader's"),
    ("createdb ", "a server of the reader's; team.rs starts one"),
    ("postgres://", "the same"),
    ("ssh ", "another machine"),
    ("fio ", "another program; a fixture is its result"),
];

/// Commands whose plan is built here and that are not run whole, by a part of them, and why.
const PLANNED: &[(&str, &str)] = &[
    (
        "vm:",
        "a guest takes seconds to boot; vm layers have tests of their own",
    ),
    (" vm,", "the same"),
    (
        "exec:",
        "a container of the reader's; places.rs enters some",
    ),
    ("ssh:host:", "another machine; ssh.rs has one"),
    ("http URL", "a server of the reader's; http.rs starts one"),
    ("http http:", "the same"),
    (" ./", "a program of the reader's"),
    (
        "--ready window",
        "it needs a screen; launch_layers.rs has one",
    ),
    (
        "--resume",
        "the run has ended; kill_matrix.rs resumes some that have not",
    ),
    (
        "--replay",
        "it takes no smaller size; store.rs replays runs",
    ),
    (
        "--matrix",
        "hundreds of points; matrix.rs runs a smaller one",
    ),
    ("--like", "the same"),
    ("run daily", "minutes; plans.rs runs it small"),
    (
        "run container-mounts",
        "minutes; plans.rs runs it small, places.rs its layers",
    ),
    ("run share", "minutes, and guests; plans.rs runs it small"),
    ("run overlay-copy-up", "minutes; plans.rs runs it small"),
    ("run fuse-fast17", "minutes; plans.rs runs it small"),
    ("run gvisor-rootfs", "minutes; plans.rs runs it small"),
    ("run virtiofs-9p", "minutes; plans.rs runs it small"),
    ("run flush-cost", "minutes; plans.rs runs it small"),
    ("run sqlite-blobs", "minutes; plans.rs runs it small"),
    ("run fileio-appvirt", "minutes; studies.rs runs it"),
    ("run iozone-vm", "minutes; studies.rs runs it"),
    ("run buffer-size", "minutes; studies.rs runs it"),
    ("run launch-share", "minutes; studies.rs runs it"),
    ("run virtual-io-stack", "minutes; studies.rs runs it"),
    ("--record 1..4K", "thirteen sizes; another line has fewer"),
    (
        "--concurrency 1,4,16,64",
        "eight points; another line has fewer",
    ),
    ("--users 1,2,4", "20 s; README has a smaller one"),
    (
        "--wait 30s",
        "it waits for what never comes; coherence.rs waits less",
    ),
];

/// What stands for a word that the reader replaces.
const PLACEHOLDERS: &[(&str, &str)] = &[
    ("RUN", "last"),
    ("IMPORT", "last"),
    ("LAYER", "netns"),
    ("NAME", "overlay"),
    ("COMMAND", "file"),
    ("PROGRAM", "ls"),
    ("FILE", "again.html"),
    ("URL", "http://127.0.0.1:9/"),
];

/// Commands that measure; the others run as they are.
const MEASURE: &[&str] = &[
    "run",
    "file",
    "meta",
    "mmap-fault",
    "lock",
    "db",
    "coherence",
    "iops",
    "launch",
    "steps",
    "replay",
    "net",
    "ftp",
    "http",
    "devload",
    "why",
];

/// A plan whose point and layers the pages name.
const SEED: &str = r#"
name = "card"
layers = ["fuse", "overlay:writecopy"]
blocks = 2
sessions = 1
control = false
[[work]]
label = "small read, warm"
workload = "meta"
op = "small-read"
files = 50
cache = "warm"
"#;

/// A command made small: one block of one session, a thousandth of the sizes, in one layer if none is named.
fn small(words: &[String]) -> Vec<String> {
    const REPLACED: &[&str] = &[
        "--budget",
        "--blocks",
        "--runs",
        "-r",
        "--sessions",
        "--scale",
        "-w",
    ];
    let name = words[0].as_str();
    let mut made = vec![name.to_owned()];
    made.extend(
        "--blocks 1 --sessions 1 --scale 0.001 --no-control --force --dir work --store measured.db"
            .split(' ')
            .map(str::to_owned),
    );
    let plan_has_layers =
        name == "launch" || name == "run" && words.get(1).is_some_and(|w| w.contains(".toml"));
    if !plan_has_layers && !words.iter().any(|w| w == "-l") {
        let network = ["net", "http", "ftp"].contains(&name);
        made.extend(["-l", if network { "netns" } else { "overlay:upper" }].map(str::to_owned));
    }
    let mut rest = words[1..].iter();
    while let Some(word) = rest.next() {
        match word.as_str() {
            "--" => {
                made.push(word.clone());
                made.extend(rest.by_ref().cloned());
            }
            "--no-control" | "--force" => {}
            flag if REPLACED.contains(&flag) => drop(rest.next()),
            _ => made.push(word.clone()),
        }
    }
    made
}

/// Where the commands run: the files that they name, and a store with three small runs and an import.
/// What they measure goes to another store, so that `last` stays what it is.
struct Scratch(TempDir);

impl Scratch {
    fn new() -> Self {
        let dir = disk_dir();
        for name in [
            "work",
            "mnt/nas",
            "mnt/nas-noatime",
            "mnt/share",
            "mnt/ext4",
            "mnt/xfs",
            "srv/project",
            "perf",
            "plans",
        ] {
            fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        let scratch = Self(dir);
        scratch.copy("plans/card.toml", "plans/card.toml");
        for (fixture, name) in [
            ("fio-3.33.json", "fio.json"),
            ("iozone-3.489-R.txt", "iozone.txt"),
            ("hyperfine-1.15.json", "hyperfine.json"),
        ] {
            scratch.copy(&format!("crates/import/tests/fixtures/{fixture}"), name);
        }
        fs::write(scratch.path().join("seed.toml"), SEED).unwrap();
        fs::write(
            scratch.path().join("job.fio"),
            "[a]\nrw=randread\nsize=64m\n",
        )
        .unwrap();
        // A run of somebody else's store, before ours: `last` is one of ours, also when this one has been imported.
        let sent = [
            "run",
            "seed.toml",
            "--dir",
            "work",
            "-o",
            "x.lm",
            "--store",
            "their.db",
        ];
        let said = scratch.run(&sent, &[]);
        assert!(matches!(said.code, Some(0 | 3 | 4)), "{}", said.stderr);
        for report in [
            "baseline.json",
            "perf/baseline.json",
            "new.json",
            "ext4.lm",
            "xfs.lm",
        ] {
            let said = scratch.run(&["run", "seed.toml", "--dir", "work", "-o", report], &[]);
            assert!(matches!(said.code, Some(0 | 3 | 4)), "{}", said.stderr);
        }
        scratch.run(&["import", "fio.json"], &[]).code(0);
        // A recording, and a log of strace.
        let recorded = ["record", "-o", "app.lmrec", "--", "ls", "-l", "mnt"];
        scratch.run(&recorded, &[]).code(0);
        five_runs(scratch.path());
        scratch.write_log();
        scratch
    }

    /// Another directory with the same.
    fn again(&self) -> Self {
        let again = Self(disk_dir());
        let copied = Command::new("cp")
            .args(["-a", "."])
            .arg(again.path())
            .current_dir(self.path())
            .status();
        assert!(copied.expect("cp").success());
        again.write_log();
        again
    }

    /// A log of strace has whole paths.
    fn write_log(&self) {
        let project = self.path().join("mnt/share");
        let log = format!("1 mkdir(\"{}/d\", 0755) = 0\n", project.display());
        fs::write(self.path().join("trace.log"), log).unwrap();
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn copy(&self, from: &str, to: &str) {
        fs::copy(root().join(from), self.path().join(to)).expect(from);
    }

    /// Keeps the plans that a page shows whole, under their names.
    fn keep_plans(&self, page: &str, text: &str) -> Vec<Line> {
        let mut found = Vec::new();
        for block in blocks(page, text).iter().filter(|b| b.language == "toml") {
            let Some(rest) = block.text.strip_prefix("name = \"") else {
                continue;
            };
            let (name, _) = rest.split_once('"').expect("a name");
            fs::write(
                self.path().join(format!("{name}.toml")),
                self.filled(&block.text),
            )
            .unwrap();
            found.push(Line {
                at: format!("{page}:{}", block.at),
                text: format!("layermark run {name}.toml"),
                to_type: false,
            });
        }
        found
    }

    /// With directories of the test's in place of the reader's.
    fn filled(&self, text: &str) -> String {
        let dir = self.path().display();
        text.replace("/mnt/", &format!("{dir}/mnt/"))
            .replace("\"/srv/", &format!("\"{dir}/srv/"))
            .replace("~/", &format!("{dir}/"))
    }

    fn run<S: AsRef<str>>(&self, words: &[S], env: &[(String, String)]) -> Said {
        let lm = Lm::with(self.path()).args(words.iter().map(AsRef::as_ref));
        env.iter()
            .fold(lm, |lm, (name, value)| lm.env(name, value))
            .run()
    }

    /// The variables of a command, and its words after `layermark`, up to where the shell would take over.
    fn words(&self, line: &Line) -> (Vec<(String, String)>, Vec<String>) {
        let words = shell_words::split(&self.filled(&line.text));
        let mut words = words
            .expect(&line.at)
            .into_iter()
            .skip_while(|w| w == "sudo")
            .peekable();
        let mut env = Vec::new();
        while let Some((name, value)) = words.peek().and_then(|w| w.split_once('=')) {
            env.push((name.to_owned(), value.to_owned()));
            words.next();
        }
        assert_eq!(
            words.next().as_deref(),
            Some("layermark"),
            "{}: {}",
            line.at,
            line.text
        );
        let ours = words
            .take_while(|w| w != "|" && !w.starts_with('>'))
            .filter(|w| w != "...");
        let fill = |word: String| {
            let known = PLACEHOLDERS.iter().find(|(name, _)| *name == word);
            known.map_or(word, |(_, value)| (*value).to_owned())
        };
        (env, ours.map(fill).collect())
    }

    /// Builds the plan of a command that measures, as it stands. A gate at a point that no plan has
    /// is refused when all the rest has been understood, and before anything is set up.
    fn plan(&self, words: &[String], env: &[(String, String)]) -> Result<(), String> {
        let mut words = words.to_vec();
        words.splice(
            1..1,
            ["--force", "--fail-if", "slower at \"no such point\""].map(str::to_owned),
        );
        let said = self.run(&words, env);
        let refused = [
            "no point `no such point` is compared",
            "there is no layer to compare",
        ];
        let understood = refused.iter().any(|why| said.stderr.contains(why));
        if said.code == Some(2) && understood {
            Ok(())
        } else {
            Err(format!("{words:?}: {:?}: {}", said.code, said.stderr))
        }
    }

    /// Runs a command whole. A gate may fail, this machine may lack what a layer needs, and what one block
    /// says may not be trusted.
    fn whole(&self, words: &[String], env: &[(String, String)]) -> Result<(), String> {
        let said = self.run(words, env);
        let gated = words.iter().any(|w| w == "--fail-if") && said.stderr.contains("gates: ");
        match said.code {
            Some(0 | 4) => Ok(()),
            Some(1) if gated => Ok(()),
            // A trend of runs that other programs disturbed.
            Some(2) if said.stderr.contains("is complete and trusted") => Ok(()),
            Some(3) => {
                skipped(&format!("{words:?}: {}", said.stderr));
                Ok(())
            }
            code => Err(format!("{words:?}: {code:?}: {}", said.stderr)),
        }
    }

    /// A command of the shell, between ours.
    fn shell(&self, line: &str) -> Result<(), String> {
        let mut sh = Command::new("sh");
        let sh = sh
            .args(["-ec", line])
            .current_dir(self.path())
            .env("HOME", self.path());
        let said = sh.output().expect("a shell");
        if said.status.success() {
            Ok(())
        } else {
            Err(format!("{said:?}"))
        }
    }
}

/// What has been found so far.
#[derive(Default)]
struct Found {
    /// Entries of the lists above that a line has.
    used: BTreeSet<&'static str>,
    /// Lines whose plan was built, so that none is built twice.
    planned: BTreeSet<String>,
    /// Commands that ran, so that none runs twice.
    done: BTreeSet<Vec<String>>,
    wrong: Vec<String>,
}

/// Whether commands of this page measure here: those of README and the tutorial, with
/// `LAYERMARK_PAGES=all` (`make soak`) those of every page. Of the others, plans are built.
fn measures(page: &str) -> bool {
    std::env::var_os("LAYERMARK_PAGES").is_some_and(|pages| pages == "all")
        || page.starts_with("README.md")
        || page.starts_with("docs/src/tutorial.md")
}

/// Checks a line of a page.
fn check(found: &Mutex<Found>, scratch: &Scratch, line: &Line) -> Result<(), String> {
    let text = line.text.as_str();
    let listed = |list: &[(&'static str, &str)], holds: &dyn Fn(&str) -> bool| {
        let parts = list.iter().map(|(part, _)| *part);
        let parts: Vec<_> = parts.filter(|part| holds(part)).collect();
        found.lock().unwrap().used.extend(&parts);
        !parts.is_empty()
    };
    // An address stands anywhere in a line.
    let holds = |part: &str| text.starts_with(part) || part.contains("://") && text.contains(part);
    if listed(NOT_RUN, &holds) {
        return Ok(());
    }
    if !text.contains("layermark ") {
        return scratch.shell(text);
    }
    let (env, mut words) = scratch.words(line);
    if !line.to_type && words.len() == 1 {
        // The name of a command.
        words.push("--help".into());
    }
    if !MEASURE.contains(&words[0].as_str()) || words.iter().any(|w| w == "--help") {
        return scratch.whole(&words, &env);
    }
    // The plan of one name may be another one on another page.
    if text.contains(".toml") || found.lock().unwrap().planned.insert(text.to_owned()) {
        scratch.plan(&words, &env)?;
    }
    if listed(PLANNED, &|part| text.contains(part)) || !line.to_type || !measures(&line.at) {
        return Ok(());
    }
    let words = small(&words);
    let mut key = words.clone();
    // Plans are long, and run once wherever the report goes and whatever it is held to.
    while let Some(at) = key.iter().position(|w| w == "-o" || w == "--fail-if")
        && key[0] == "run"
    {
        key.drain(at..at + 2);
    }
    if found.lock().unwrap().done.insert(key) {
        scratch.whole(&words, &env)?;
    }
    Ok(())
}

/// Checks pages until none is left.
fn check_pages(pages: &Mutex<Vec<(String, String)>>, found: &Mutex<Found>, scratch: &Scratch) {
    let next = || pages.lock().unwrap().pop();
    while let Some((page, text)) = next() {
        let mut lines = scratch.keep_plans(&page, &text);
        lines.extend(commands(&page, &text));
        for line in lines {
            if let Err(why) = check(found, scratch, &line) {
                let wrong = format!("{}: {}\n  {why}", line.at, line.text);
                found.lock().unwrap().wrong.push(wrong);
            }
        }
    }
}

/// Most of a small run is waiting: three take as long as one.
#[test]
fn commands_of_the_pages_run() {
    let fuse = Lm::new().measure(&["fuse"]).run();
    if fuse.code == Some(3) {
        return skipped(&format!("the pages compare with fuse: {}", fuse.stderr));
    }
    let (pages, found) = (Mutex::new(pages::all()), Mutex::default());
    let first = Scratch::new();
    let scratches = [first.again(), first.again(), first];
    thread::scope(|scope| {
        for scratch in &scratches {
            scope.spawn(|| check_pages(&pages, &found, scratch));
        }
    });
    let Found {
        used, done, wrong, ..
    } = found.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let listed = NOT_RUN.iter().chain(PLANNED).map(|(part, _)| *part);
    let unused: Vec<&str> = listed.filter(|part| !used.contains(part)).collect();
    assert!(unused.is_empty(), "no page has a line with {unused:?}");
    let least = if measures("all") { 40 } else { 10 };
    assert!(done.len() > least, "only {} commands measured", done.len());
}

/// The page of all commands lists each one that `--help` shows, and no other.
#[test]
fn the_reference_lists_every_command() {
    let page = fs::read_to_string(root().join("docs/src/reference.md")).unwrap();
    let block = &blocks("reference.md", &page)[0];
    let name = |line: &str| line.split_whitespace().nth(1).map(str::to_owned);
    let listed: BTreeSet<String> = block.text.lines().filter_map(name).collect();
    let said = Lm::new().args(["--help"]).run().code(0);
    let mut shown: BTreeSet<String> = listed_commands(&said.stdout).into_iter().collect();
    shown.remove("help");
    assert_eq!(listed, shown);
}

/// The table of what a plan can reach has each option that does, and no other.
#[test]
fn the_page_on_security_names_all_that_a_plan_can_reach() {
    let page = fs::read_to_string(root().join("docs/src/security.md")).unwrap();
    let (_, rest) = page
        .split_once("### What a plan can reach")
        .expect("a table");
    let (table, _) = rest.split_once("\n#").expect("its end");
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let named = cells.get(2).is_some_and(|cell| cell.starts_with('`'));
        named.then(|| cells[1..4].join(" "))
    };
    let listed: BTreeSet<String> = table.lines().filter_map(row).collect();
    let layers = layermark_layers::ALL.iter().flat_map(|layer| {
        let reaching = layer
            .options()
            .iter()
            .filter_map(|o| Some((o.name, o.reach?.0)));
        reaching.map(|(name, what)| format!("`{}` `{name}` {what}", layer.id()))
    });
    let works = layermark_probe::workloads::ALL.iter().flat_map(|work| {
        let reaching = work
            .params()
            .into_iter()
            .filter_map(|p| Some((p.name, p.reach?)));
        reaching.map(|(name, what)| format!("`{}` `{name}` {what}", work.id()))
    });
    let known: BTreeSet<String> = layers.chain(works).collect();
    assert_eq!(listed, known);
}

/// Each test that the page on security names is there.
#[test]
fn the_page_on_security_names_tests_that_exist() {
    fn sources(dir: &Path, text: &mut String) {
        for entry in fs::read_dir(dir).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                sources(&path, text);
            } else if path.extension().is_some_and(|e| e == "rs") {
                *text += &fs::read_to_string(&path).expect("a source");
            }
        }
    }
    let mut code = String::new();
    sources(&root().join("crates"), &mut code);
    let page = fs::read_to_string(root().join("docs/src/security.md")).unwrap();
    let rows = page.lines().filter(|line| line.starts_with("| "));
    let tests = rows.filter_map(|line| line.trim_end_matches(" |").rsplit(" | ").next());
    let names = tests.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    let names: Vec<&str> = names
        .map(|name| name.rsplit("::").next().unwrap_or(name))
        .filter(|name| name.matches('_').count() > 2)
        .collect();
    assert!(names.len() > 40, "{names:?}");
    for name in names {
        assert!(code.contains(&format!("fn {name}()")), "no test {name}");
    }
}

#[test]
fn code_in_the_pages_is_the_codes() {
    for page in ["add-a-layer", "add-an-exporter", "add-a-workload"] {
        let text = fs::read_to_string(root().join(format!("docs/src/{page}.md"))).unwrap();
        let mut shown = 0;
        for block in text.split("```rust\n").skip(1) {
            let (code, _) = block.split_once("```").expect("an end");
            let (file, code) = code.split_once('\n').expect("code");
            let path = file.strip_prefix("// ").expect("a path");
            let source = fs::read_to_string(root().join(path)).expect(path);
            let known: Vec<&str> = source.lines().map(str::trim).collect();
            let lines = code.lines().map(str::trim);
            for line in lines.filter(|l| !l.is_empty() && *l != "...") {
                assert!(
                    known.contains(&line),
                    "{page}.md shows what {path} has not: {line}"
                );
                shown += 1;
            }
        }
        assert!((10..60).contains(&shown), "{page}.md shows {shown} lines");
    }
}
