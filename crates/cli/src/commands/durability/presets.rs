//! Programs whose promises are known, each as a file in `presets/`: to add one, write it and its line in [`FILES`].

use std::collections::BTreeMap;

use layermark_model::witness::{CutProgram, Promise};
use layermark_probe::witness::program::is_installed;
use layermark_sys::packages;
use serde::Deserialize;

use crate::failure::Failure;

/// The presets, in the order of the help, each with what it does: the help of every command is made at each start, which
/// parses no file for it.
const FILES: [(&str, &str, &str); 7] = [
    (
        "sqlite",
        "SQLite: a commit an item, in nine modes of journal and `synchronous`",
        include_str!("presets/sqlite.toml"),
    ),
    (
        "postgres",
        "PostgreSQL: a transaction an item, with synchronous_commit and full_page_writes on and off",
        include_str!("presets/postgres.toml"),
    ),
    (
        "redis",
        "Redis: a SET an item, with `appendfsync` always and everysec",
        include_str!("presets/redis.toml"),
    ),
    (
        "git",
        "git: a commit an item, with the default of core.fsync, with all, and with sync of directories as well",
        include_str!("presets/git.toml"),
    ),
    (
        "rename",
        "write, fsync, rename: with and without fsync of the directory",
        include_str!("presets/rename.toml"),
    ),
    (
        "copy",
        "cp -a, tar x and rsync of a small tree an item, with and without sync of each file",
        include_str!("presets/copy.toml"),
    ),
    (
        "dpkg",
        "dpkg-like: unpack, fsync and rename, then the status file; with and without fsync",
        include_str!("presets/dpkg.toml"),
    ),
];

/// Errors of this machine, which say nothing of the data: an expression for grep -iE, which the commands use.
const MACHINE_ERRORS: &str = "machine_errors='out of memory|cannot allocate|could not fork|temporarily unavailable|too many open files'";

/// Packages whose names are not those of their programs, on Debian.
const PACKAGES: [(&str, &str); 6] = [
    ("psql", "postgresql"),
    ("pg_lsclusters", "postgresql postgresql-common"),
    ("unshare", "util-linux"),
    ("redis-cli", "redis-tools"),
    ("sync", "coreutils"),
    ("stdbuf", "coreutils"),
];

/// A preset's file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Preset {
    /// Programs that it uses.
    needs: Vec<String>,
    /// Precedes both commands.
    #[serde(default)]
    common: String,
    run: String,
    check: String,
    variant: Vec<Variant>,
}

/// One way to use the program.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Variant {
    name: String,
    /// Variables of the shell, which the commands use.
    set: String,
    promises: Promise,
}

impl Preset {
    /// The command that acknowledges items.
    fn run(&self, variant: &Variant) -> String {
        joined(&[&variant.set, MACHINE_ERRORS, &self.common, &self.run])
    }

    /// The command that looks for them.
    fn check(&self) -> String {
        joined(&[MACHINE_ERRORS, &self.common, &self.check])
    }
}

fn parsed(text: &str) -> Result<Preset, Failure> {
    toml::from_str(text).map_err(|e| Failure::failed(format!("a preset: {e}")))
}

/// Names of the presets with what they do, for help and completion.
pub fn names() -> clap::builder::PossibleValuesParser {
    use clap::builder::PossibleValue;
    let value = |(name, about, _)| PossibleValue::new(name).help(about);
    FILES.map(value).to_vec().into()
}

fn text_of(name: &str) -> &'static str {
    let found = FILES.iter().find(|(of, _, _)| *of == name);
    found.map_or("", |(_, _, text)| text)
}

/// The programs of a preset, one for each variant.
pub fn programs(name: &str, time_ms: u64) -> Result<Vec<CutProgram>, Failure> {
    let preset = parsed(text_of(name))?;
    let lacks = preset.needs.iter().find(|p| !is_installed(p));
    if let Some(program) = lacks {
        let package = BTreeMap::from(PACKAGES).get(program.as_str()).copied();
        let package = package.unwrap_or(program);
        let what = format!("`--preset {name}`: {program} is not installed");
        return Err(Failure::usage(what).hint(packages::sudo_install(package)));
    }
    let of = |variant: &Variant| CutProgram {
        name: variant.name.clone(),
        run: preset.run(variant),
        check: preset.check(),
        ack: CutProgram::ACK.into(),
        promises: variant.promises,
        time_ms,
        // A server of theirs has its socket in its own `$TMPDIR`.
        parallel_checks: true,
    };
    Ok(preset.variant.iter().map(of).collect())
}

/// A command of several parts.
fn joined(parts: &[&str]) -> String {
    let parts = parts
        .iter()
        .map(|part| part.trim())
        .filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, io::Write as _, path::Path, process::Stdio};

    use super::*;

    /// Three presets had a list each, and no two were the same.
    #[test]
    fn errors_of_this_machine_are_known_to_each_preset_alike() {
        for (name, _, text) in FILES {
            let own = text.contains("temporarily unavailable");
            assert!(!own, "{name} has a list of its own");
        }
        let words = "bash: fork: retry: Resource temporarily unavailable";
        let grep = format!("{MACHINE_ERRORS}; echo '{words}' | grep -qiE \"$machine_errors\"");
        let found = std::process::Command::new("sh")
            .args(["-c", &grep])
            .status();
        assert!(found.expect("a shell").success());
    }

    /// `sh -n` reads a script and runs nothing.
    #[test]
    fn each_command_is_one_that_a_shell_can_read() {
        for (name, _, text) in FILES {
            let preset = parsed(text).unwrap_or_else(|e| panic!("{name}: {e:?}"));
            for variant in &preset.variant {
                for command in [preset.run(variant), preset.check()] {
                    let read = std::process::Command::new("sh")
                        .args(["-nc", &command])
                        .output();
                    let read = read.expect("a shell");
                    let why = String::from_utf8_lossy(&read.stderr);
                    assert!(read.status.success(), "{}: {why}", variant.name);
                }
            }
        }
    }

    /// What the check of a preset prints in a directory for items 1 to 5, and its exit code.
    fn checked(preset: &str, dir: &Path) -> (Vec<String>, Option<i32>) {
        let preset = parsed(text_of(preset)).unwrap_or_else(|e| panic!("{e:?}"));
        let lists = tempfile::tempdir().unwrap();
        let mut shell = std::process::Command::new("sh")
            .args(["-c", &preset.check()])
            .current_dir(dir)
            .env("TMPDIR", lists.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let mut items = shell.stdin.take().expect("its input");
        items.write_all(b"1\n2\n3\n4\n5\n").expect("items");
        drop(items);
        let said = shell.wait_with_output().expect("an answer");
        let lines = String::from_utf8_lossy(&said.stdout);
        (
            lines.lines().map(str::to_owned).collect(),
            said.status.code(),
        )
    }

    /// Item 1 is whole, 2 is empty, 3 is absent, 4 has too much in it, and 5 is zeros.
    #[test]
    fn checks_of_files_name_what_is_lost_and_what_is_torn() {
        let nothing = tempfile::tempdir().unwrap();
        for preset in ["rename", "copy", "dpkg"] {
            let (said, code) = checked(preset, nothing.path());
            let all = ["lost 1", "lost 2", "lost 3", "lost 4", "lost 5"];
            assert_eq!((said, code), (all.map(str::to_owned).to_vec(), Some(1)));
        }
        let contents = [
            (1, "item 1\n"),
            (2, ""),
            (4, "item 4\nitem 4\n"),
            (5, "\0\0\0\0\0\0\0"),
        ];
        let torn = ["torn 2", "lost 3", "torn 4", "torn 5"].map(str::to_owned);
        let renamed = tempfile::tempdir().unwrap();
        let packages = tempfile::tempdir().unwrap();
        for dir in ["root", "db"] {
            fs::create_dir(packages.path().join(dir)).unwrap();
        }
        for (item, content) in contents {
            let name = format!("item-{item}");
            fs::write(renamed.path().join(&name), content).unwrap();
            fs::write(packages.path().join("root").join(name), content).unwrap();
        }
        assert_eq!(checked("rename", renamed.path()), (torn.to_vec(), Some(1)));
        let status = packages.path().join("db/status");
        let known = "Package: 1\nPackage: 2\nPackage: 3\nPackage: 4\nPackage: 5\n";
        fs::write(&status, known).unwrap();
        assert_eq!(checked("dpkg", packages.path()), (torn.to_vec(), Some(1)));
        fs::write(&status, "Package: 2\n").unwrap();
        let (said, _) = checked("dpkg", packages.path());
        assert_eq!(said, ["lost 1", "torn 2", "lost 3", "lost 4", "lost 5"]);
        let copied = tempfile::tempdir().unwrap();
        for (item, first, second) in [
            (1, "one\n", Some("two\n")),
            (2, "", Some("two\n")),
            (4, "one\none\n", Some("two\n")),
            (5, "one\n", None),
        ] {
            let dir = copied.path().join(format!("item-{item}"));
            fs::create_dir_all(dir.join("d")).unwrap();
            fs::write(dir.join("a"), first).unwrap();
            if let Some(second) = second {
                fs::write(dir.join("d/b"), second).unwrap();
            }
        }
        assert_eq!(checked("copy", copied.path()), (torn.to_vec(), Some(1)));
    }

    /// Without one, what a layer loses could not be told from what the program loses.
    #[test]
    fn each_preset_has_a_program_that_promises_to_keep_its_items() {
        for (name, _, text) in FILES {
            let preset = parsed(text).unwrap_or_else(|e| panic!("{name}: {e:?}"));
            let mut promises = preset.variant.iter().map(|v| v.promises);
            assert!(promises.any(|p| p == Promise::Kept), "{name}");
        }
    }

    #[test]
    fn each_preset_is_read_and_its_programs_have_names_of_their_own() {
        let mut names = BTreeSet::new();
        for (name, about, text) in FILES {
            let preset = parsed(text).unwrap_or_else(|e| panic!("{name}: {e:?}"));
            assert!(!about.is_empty() && !preset.needs.is_empty(), "{name}");
            for variant in preset.variant {
                assert!(
                    names.insert(variant.name.clone()),
                    "{name}: {}",
                    variant.name
                );
            }
        }
    }
}
