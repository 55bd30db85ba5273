//! A place that a file of the user's describes: the commands that set it up, lead into it and remove it.

use std::{
    ffi::OsString,
    fs,
    io::{self, Read},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Component, Path, PathBuf},
};

use layermark_model::{Missing, Spec, random_name};
use rustix::fs::CWD;
use serde::Deserialize;

use crate::{
    About, Base, Group, LayerError, LayerInfo, Place, Undo, child,
    entered::{self, Start, Way, describe},
    fd,
    kind::LayerKind,
    options::{bad, layer_options},
    sandbox,
    teardown::Teardown,
};

/// A place with commands of its own for set-up and removal.
pub(crate) struct Command;

layer_options! {
    pub(crate) struct CommandOptions {
        /// a TOML file with the commands of the place: enter, and where needed root, setup, facts, drop_caches and
        /// teardown
        variant: String = "" reaches Program,
        /// a directory in the place; work is done in a new one below it
        dir: String = "/tmp",
    }
}

/// Longest file, bytes.
const LONGEST: u64 = 64 << 10;
/// Most of the words of one command.
const MOST_WORDS: usize = 1000;

/// The commands of a place. Each is a program and its arguments; `{dir}`, `{binary}` and `{run}` are replaced.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Commands {
    /// Whether a shell reads each command, whose words are then joined by blanks.
    #[serde(default)]
    shell: bool,
    #[serde(default)]
    setup: Vec<String>,
    /// Runs the words that follow it in the place.
    enter: Vec<String>,
    #[serde(default)]
    teardown: Vec<String>,
    /// Prints lines of the form `name=value`.
    #[serde(default)]
    facts: Vec<String>,
    #[serde(default)]
    drop_caches: Vec<String>,
    /// The directory of this host that is `/` in the place: `{dir}`, or one below it. Layermark puts its binary there.
    #[serde(default)]
    root: Option<String>,
    /// Of earlier versions: a command that brings `{binary}` to `/tmp/{run}` in the place.
    #[serde(default)]
    copy: Option<toml::Value>,
}

impl Commands {
    fn read(spec: &Spec, options: &CommandOptions) -> Result<Self, LayerError> {
        let file = &options.variant;
        let bad = |must: String| bad(spec, "variant", file, must);
        if file.is_empty() {
            return Err(bad("has to be given: a TOML file".into()));
        }
        let text = text(Path::new(file)).map_err(|e| bad(format!("cannot be read: {e}")))?;
        let commands = Self::parse(&text).map_err(|why| bad(format!("is not a place: {why}")))?;
        Ok(commands)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let commands: Self = toml::from_str(text).map_err(|e| {
            let before = e.span().map_or("", |at| text.get(..at.start).unwrap_or(""));
            let line = before.matches('\n').count() + 1;
            format!("line {line}: {}", e.message().replace('\n', " "))
        })?;
        if commands.enter.is_empty() {
            return Err("`enter` is empty".into());
        }
        // Whoever can write to the place's /tmp could make the file first, and exchange it before it is run.
        if commands.copy.is_some() {
            return Err("`copy` is not run any more: others could exchange the binary. Leave it out: the binary is \
                 sent through `enter`. Or, where / of the place is a directory below {dir}: root = \"{dir}\"".into());
        }
        if commands.root.is_some() && commands.root_below(Path::new("/")).is_none() {
            return Err("`root` is not `{dir}` or a directory below it".into());
        }
        for (name, words) in commands.all() {
            if words.len() > MOST_WORDS {
                return Err(format!("`{name}` has more than {MOST_WORDS} words"));
            }
            if words.first().is_some_and(String::is_empty) {
                return Err(format!("`{name}` begins with an empty word"));
            }
            if words.iter().any(|word| word.contains('\0')) {
                return Err(format!("`{name}` has a NUL byte"));
            }
        }
        Ok(commands)
    }

    /// The root of the place, for this `{dir}`.
    fn root_below(&self, dir: &Path) -> Option<PathBuf> {
        let below = self.root.as_ref()?.strip_prefix("{dir}")?;
        let below = match below.strip_prefix('/') {
            None if !below.is_empty() => return None,
            below => Path::new(below.unwrap_or_default()),
        };
        let plain = |part| matches!(part, Component::Normal(_));
        below.components().all(plain).then(|| dir.join(below))
    }

    fn all(&self) -> [(&'static str, &Vec<String>); 5] {
        [
            ("setup", &self.setup),
            ("enter", &self.enter),
            ("teardown", &self.teardown),
            ("facts", &self.facts),
            ("drop_caches", &self.drop_caches),
        ]
    }

    /// Programs that are started from this host.
    fn programs(&self) -> Vec<&str> {
        if self.shell {
            return vec!["sh"];
        }
        let all = self.all().into_iter();
        let first = all.filter_map(|(_, words)| words.first());
        // A program below {dir} is made by `setup`.
        let plain = first.filter(|word| !word.contains('{'));
        plain.map(String::as_str).collect()
    }
}

/// The text of a regular file that no other user can change. What is checked is what is read: the
/// path may lead to another file a moment later.
pub(crate) fn text(file: &Path) -> io::Result<String> {
    let opened = fd::open_file(CWD, file)?;
    let found = opened.metadata()?;
    let own = rustix::process::geteuid().as_raw();
    let refused = if found.len() > LONGEST {
        "it is longer than 64 KiB"
    } else if found.mode() & 0o022 != 0 || ![0, own].contains(&found.uid()) {
        "other users can change it: chown it to yourself, and chmod go-w"
    } else {
        let mut text = String::new();
        opened.take(LONGEST).read_to_string(&mut text)?;
        return Ok(text);
    };
    Err(io::Error::other(refused))
}

/// A line `name=value`. Others are ignored: warnings may be among them.
fn fact(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once('=')?;
    let (name, value) = (name.trim(), value.trim());
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    let is_name = !name.is_empty() && name.chars().all(allowed);
    is_name.then_some((name, value))
}

/// Puts the binary into the root of a place, under a new name. Returns its path there.
fn put(base: &Base, root: &Path) -> io::Result<PathBuf> {
    let name = random_name("layermark-");
    // Only root can put a file there, in the place as well as here.
    let mut new = fs::OpenOptions::new();
    let mut file = new
        .write(true)
        .create_new(true)
        .mode(0o755)
        .open(root.join(&name))?;
    io::copy(&mut fs::File::open(&base.exe)?, &mut file)?;
    Ok(Path::new("/").join(name))
}

/// What is put into the commands of one session.
struct Words<'a> {
    shell: bool,
    dir: &'a str,
    binary: &'a str,
    run: &'a str,
}

impl Words<'_> {
    /// The command; empty if the file has none.
    fn of(&self, command: &[String]) -> Vec<OsString> {
        if !self.shell || command.is_empty() {
            return command.iter().map(|w| self.filled(w).into()).collect();
        }
        let script = self.filled(&command.join(" "));
        ["sh", "-c", &script, "sh"].map(OsString::from).into()
    }

    /// `enter`, which runs the words that follow it.
    fn entering(&self, command: &[String]) -> Vec<OsString> {
        if self.shell {
            let all = [command, &["\"$@\"".to_owned()]].concat();
            return self.of(&all);
        }
        self.of(command)
    }

    fn filled(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, value) in [
            ("{dir}", self.dir),
            ("{binary}", self.binary),
            ("{run}", self.run),
        ] {
            text = if self.shell {
                text.replace(name, &shell_words::quote(value))
            } else {
                text.replace(name, value)
            };
        }
        text
    }
}

impl LayerKind for Command {
    const ID: &'static str = "command";
    type Options = CommandOptions;

    fn describe(_: &Spec, _: &CommandOptions) -> LayerInfo {
        describe::info(
            Group::Yours,
            About::of(
                "a place of yours, described by a file",
                " (-l command:FILE.toml)",
            ),
            "its disk belongs to a place of yours",
        )
    }

    fn check(spec: &Spec, options: &CommandOptions) -> Result<(), LayerError> {
        Commands::read(spec, options)?;
        describe::check_dir(spec, &options.dir)
    }

    fn missing(spec: &Spec, options: &CommandOptions) -> Vec<Missing> {
        let commands = Commands::read(spec, options);
        let programs = commands.iter().flat_map(Commands::programs);
        let mut missing: Vec<Missing> = sandbox::not_root().into_iter().collect();
        for program in programs {
            let is_new = missing.iter().all(|m| m.what != program);
            if is_new {
                missing.extend(describe::missing_program(program));
            }
        }
        missing
    }

    fn open(
        base: &Base,
        spec: &Spec,
        options: Self::Options,
        undo: &mut Undo,
    ) -> Result<Box<dyn Place>, LayerError> {
        let layer = spec.to_string();
        let commands = Commands::read(spec, &options)?;
        base.emptied(undo);
        let run = random_name("layermark-");
        let words = Words {
            shell: commands.shell,
            dir: &base.dir.to_string_lossy(),
            binary: &base.exe.to_string_lossy(),
            run: &run,
        };
        let teardown = words.of(&commands.teardown);
        if !teardown.is_empty() {
            let waits = Teardown::start(&base.exe, &[teardown]);
            let waits = waits.map_err(LayerError::io(&layer, "prepare to tear down", &base.dir))?;
            undo.push(format!("teardown of {layer}"), move || waits.run());
        }
        let run_to_end = |command: &[String]| match &words.of(command)[..] {
            [] => Ok(Vec::new()),
            words => child::lines(&layer, &mut entered::users_command(words)),
        };
        run_to_end(&commands.setup)?;
        let start = match commands.root_below(&base.dir) {
            Some(root) => Start::Put(put(base, &root).map_err(LayerError::io(
                &layer,
                "put the binary into",
                &root,
            ))?),
            None => Start::Found,
        };
        let said = run_to_end(&commands.facts)?;
        let facts = said.iter().filter_map(|line| fact(line));
        let enter = words.entering(&commands.enter);
        let way = Way {
            by_hand: enter.clone(),
            command: enter,
            start,
            drop_caches: words.of(&commands.drop_caches),
            dir: options.dir.into(),
            // The prefix keeps claims of the place apart from what was measured.
            notes: facts
                .map(|(name, value)| (format!("place.{name}"), value.to_owned()))
                .collect(),
            versions: Vec::new(),
        };
        Ok(Box::new(entered::open(base, spec, way)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(shell: bool) -> Words<'static> {
        Words {
            shell,
            dir: "/d; ls",
            binary: "/b",
            run: "layermark-1",
        }
    }

    #[test]
    fn a_shell_reads_a_command_only_where_the_file_says_so() {
        let command = ["in", "{dir}", "-b={binary}", "{run}; $HOME"].map(String::from);
        let plain = words(false).entering(&command);
        assert_eq!(plain, ["in", "/d; ls", "-b=/b", "layermark-1; $HOME"]);
        let read = words(true).entering(&command);
        let script = "in '/d; ls' -b=/b layermark-1; $HOME \"$@\"";
        assert_eq!(read, ["sh", "-c", script, "sh"]);
        assert!(words(true).of(&[]).is_empty());
    }

    #[test]
    fn only_a_line_with_a_name_is_a_fact() {
        assert_eq!(fact("Lima.type = qemu\n"), Some(("Lima.type", "qemu")));
        let warning = "W1125 12:00:03 request failed: timeout=30s";
        for other in [warning, "ready", "=x", ""] {
            assert_eq!(fact(other), None, "{other}");
        }
    }

    #[test]
    fn what_is_not_a_place_is_refused_with_the_line() {
        for (text, says) in [
            ("setup = [\"true\"]\n", "missing field `enter`"),
            ("enter = []", "`enter` is empty"),
            ("enter = [\"\"]", "empty word"),
            ("enter = [\"a\\u0000\"]", "NUL"),
            ("enter = \"podman exec\"", "line 1"),
            (
                "enter = [\"env\"]\nentr = [\"x\"]",
                "line 2: unknown field `entr`",
            ),
            ("enter = [", "line 1"),
            (
                "copy = [\"cp\", \"{binary}\", \"/tmp/{run}\"]\nenter = [\"env\"]",
                "sent through `enter`",
            ),
            ("root = \"/srv\"\nenter = [\"env\"]", "below it"),
            ("root = \"{dir}/../x\"\nenter = [\"env\"]", "below it"),
            ("root = \"{dir}x\"\nenter = [\"env\"]", "below it"),
        ] {
            let e = Commands::parse(text).unwrap_err();
            assert!(e.contains(says) && !e.contains('\n'), "{text}: {e}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_or_trusted_is_refused_with_a_hint() {
        use std::os::unix::fs::PermissionsExt;
        let home = tempfile::tempdir().unwrap();
        let open = home.path().join("open.toml");
        fs::write(&open, "enter = [\"env\"]").unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o666)).unwrap();
        for (file, says) in [
            ("/nonexistent.toml", "cannot be read: No such file"),
            ("/tmp", "it is not a file"),
            ("/dev/zero", "it is not a file"),
            (open.to_str().unwrap(), "other users can change it"),
        ] {
            let e = crate::check(&format!("command:{file}").parse().unwrap()).unwrap_err();
            assert!(e.is_usage() && e.to_string().contains(says), "{file}: {e}");
            assert!(e.hint().is_some());
        }
    }

    /// The places that come with layermark.
    #[test]
    fn every_shipped_place_can_be_read() {
        let dir =
            layermark_testkit::crate_dir(env!("CARGO_MANIFEST_DIR")).join("../../plans/places");
        let mut found = 0;
        for entry in fs::read_dir(dir).unwrap() {
            let file = entry.unwrap().path();
            let text = fs::read_to_string(&file).unwrap();
            Commands::parse(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
            let lines = text
                .lines()
                .filter(|l| !l.is_empty() && !l.starts_with('#'));
            assert!(lines.count() <= 10, "{}", file.display());
            found += 1;
        }
        assert!(found >= 10, "{found} places");
    }
}
