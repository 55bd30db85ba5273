//! Shell completion of values: plans, layers, runs and imports.

use std::{
    ffi::{OsStr, OsString},
    io::{self, Write},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use clap::{Command, builder::StyledStr};
use clap_complete::{
    ArgValueCompleter, CompleteEnv, CompletionCandidate, PathCompleter, Shell,
    engine::{ValueCompleter, complete},
    env::{self, EnvCompleter, Shells},
};
use jiff::Timestamp;
use layermark_layers::{ALL, Layer, NAMED, listed};
use layermark_model::{Reach, Spec};

use super::{plans::PLANS, stored};

/// Environment variable that the shell's script sets when it requests candidates.
const ASKED: &str = "LAYERMARK_COMPLETE";
/// How many of the newest runs are offered.
const RUNS: usize = 50;
/// A layer used only by tests.
const HIDDEN: &str = "mock";

const SHELLS: Shells = Shells(&[&Bash, &env::Elvish, &env::Fish, &env::Powershell, &env::Zsh]);

/// Whether the requesting shell quotes candidates itself, or needs them quoted.
static QUOTES: AtomicBool = AtomicBool::new(false);

/// Answers a completion request for `command` and ends the process. Returns if there is none.
pub fn answer(command: fn() -> Command) {
    // clap removes the variable before candidates are computed.
    let shell = std::env::var(ASKED).unwrap_or_default();
    let quotes = ["bash", "zsh", "fish", "elvish"].contains(&shell.as_str());
    QUOTES.store(quotes, Ordering::Relaxed);
    CompleteEnv::with_factory(command)
        .var(ASKED)
        .shells(SHELLS)
        .complete();
}

/// The completion script of a shell.
pub fn script(shell: Shell) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let shell = SHELLS.completer(&shell.to_string());
    let shell = shell.ok_or(io::ErrorKind::Unsupported)?;
    shell.write_registration(ASKED, "layermark", "layermark", "layermark", &mut text)?;
    Ok(text)
}

/// Completes the names of built-in plans, and files.
pub fn plans() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let plans = PLANS
            .iter()
            .map(|(name, _)| CompletionCandidate::new(*name));
        let mut all = beginning(current, plans);
        all.extend(files(current, "toml"));
        all
    })
}

/// Completes layers with their variants; after a comma or a colon their options, after `=` an
/// option's values.
pub fn layers() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let text = current.to_str().unwrap_or_default();
        let id = text.split([':', ',']).next().unwrap_or_default();
        let Some(layer) = ALL.iter().find(|l| l.id() == id && text != id) else {
            return beginning(current, names());
        };
        let dir = text.get(id.len() + 1..);
        if let Some(dir) = dir.filter(|_| is_of_directories(*layer) && !text.contains(',')) {
            let found = PathCompleter::dir().complete(OsStr::new(dir));
            let found = found.into_iter().filter(is_safe);
            return found.map(|c| c.add_prefix(format!("{id}:"))).collect();
        }
        let mut all = beginning(current, names());
        all.extend(options(*layer, text));
        all
    })
}

/// Completes layer names without variants, for `layermark layers`.
pub fn layer_names() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let shown = ALL.iter().filter(|l| l.id() != HIDDEN);
        let all = shown.map(|l| CompletionCandidate::new(l.id()).help(about(*l, None)));
        beginning(current, all)
    })
}

/// Completes the runs of the default store, newest first.
pub fn runs() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let stored = stored::read_store(None).and_then(|mut store| Ok(store.list(RUNS)?));
        let last = CompletionCandidate::new("last").help(Some("the newest run".into()));
        let ids = stored.unwrap_or_default().into_iter().map(|run| {
            let when = Timestamp::from_millisecond(run.started_ms).unwrap_or_default();
            let text = format!("{}, {when:.0}, {} trials", run.name, run.trials);
            CompletionCandidate::new(run.id).help(Some(text.into()))
        });
        beginning(current, [last].into_iter().chain(ids))
    })
}

/// Completes the runs of the default store, and those in files of their own.
pub fn runs_and_files() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let mut all = runs().complete(current);
        all.extend(files(current, "lm"));
        all
    })
}

/// The same, and reports in JSON files.
pub fn reports() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let mut all = runs_and_files().complete(current);
        all.extend(files(current, "json"));
        all
    })
}

/// Completes the imports of the default store, newest first.
pub fn imports() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let stored = stored::read_store(None).and_then(|mut store| Ok(store.list_imports(RUNS)?));
        let ids = stored.unwrap_or_default().into_iter().map(|import| {
            let text = format!("{}, {}", import.tool, import.file);
            CompletionCandidate::new(import.id).help(Some(text.into()))
        });
        beginning(current, ids)
    })
}

/// Directories, and files with this ending.
fn files(current: &OsStr, ending: &'static str) -> Vec<CompletionCandidate> {
    let wanted = move |path: &Path| path.is_dir() || path.extension().is_some_and(|e| e == ending);
    let mut all = PathCompleter::any().filter(wanted).complete(current);
    all.retain(is_safe);
    all
}

/// Whether a candidate is safe in a command line. Another user may have chosen the name of a file.
/// Without quoting, it must hold nothing that the shell would run. A line break is never safe.
fn is_safe(candidate: &CompletionCandidate) -> bool {
    let text = candidate.get_value().to_string_lossy();
    if QUOTES.load(Ordering::Relaxed) {
        !text.contains(char::is_control)
    } else {
        text.chars().all(is_plain)
    }
}

/// Whether no shell treats a character specially, anywhere in a word.
fn is_plain(c: char) -> bool {
    c.is_alphanumeric() || "/._-+,:=@%".contains(c)
}

fn names() -> impl Iterator<Item = CompletionCandidate> {
    let shown = ALL.iter().filter(|l| l.id() != HIDDEN);
    shown.flat_map(|layer| {
        let mut names: Vec<CompletionCandidate> = listed(*layer)
            .into_iter()
            .map(|spec| {
                let about = about(*layer, Some(&spec));
                CompletionCandidate::new(spec.to_string()).help(about)
            })
            .collect();
        if names.is_empty() {
            let colon = if is_of_directories(*layer) { ":" } else { "" };
            let open = format!("{}{colon}", layer.id());
            names.push(CompletionCandidate::new(open).help(about(*layer, None)));
        }
        names
    })
}

/// What a layer is; without a spec, the whole layer.
fn about(layer: &dyn Layer, spec: Option<&Spec>) -> Option<StyledStr> {
    let whole = Spec::bare(layer.id());
    let info = layer.describe(spec.unwrap_or(&whole)).ok()?;
    Some(info.about.to_string().into())
}

/// Whether the variant is any directory.
fn is_of_directories(layer: &dyn Layer) -> bool {
    let mut options = layer.options().iter();
    let variant = options.find(|option| option.name == "variant");
    variant.is_some_and(|o| o.values.is_empty() && o.reach == Some((Reach::Path, "")))
}

/// The options that can follow in a layer's spec.
fn options(layer: &dyn Layer, text: &str) -> Vec<CompletionCandidate> {
    let at = text.rfind([':', ',']).map_or(0, |at| at + 1);
    let (before, part) = text.split_at(at);
    let known = layer.options().iter().chain([&NAMED]);
    let known = known.filter(|o| o.name != "variant");
    let mut all = Vec::new();
    for option in known {
        let given = before
            .split([':', ','])
            .any(|p| p.split('=').next() == Some(option.name));
        if given {
            continue;
        }
        if part.starts_with(&format!("{}=", option.name)) {
            let values = option.values.iter();
            all.extend(values.map(|v| format!("{before}{}={v}", option.name)));
        } else {
            all.push(format!("{before}{}=", option.name));
        }
    }
    let fits = all.into_iter().filter(|name| name.starts_with(text));
    fits.map(CompletionCandidate::new).collect()
}

fn beginning(
    current: &OsStr,
    all: impl IntoIterator<Item = CompletionCandidate>,
) -> Vec<CompletionCandidate> {
    let current = current.as_encoded_bytes();
    let fits = |c: &CompletionCandidate| c.get_value().as_encoded_bytes().starts_with(current);
    all.into_iter().filter(fits).collect()
}

/// Bash splits words at `:` and `=`, which layer names contain. So the script splits the line at
/// blanks only, and removes from each candidate the part before such a sign. Bash inserts
/// candidates as they are, so they are quoted here.
struct Bash;

const BASH: &str = r#"_layermark() {
    local line=${COMP_LINE:0:COMP_POINT} words current before
    read -ra words <<< "$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    current=${words[-1]}
    before=${current%"${current##*[:=]}"}
    local IFS=$'\013'
    read -r -d '' -a COMPREPLY < <(_CLAP_COMPLETE_INDEX=$((${#words[@]} - 1)) ASKED=bash "PROGRAM" -- "${words[@]}" 2> /dev/null)
    COMPREPLY=("${COMPREPLY[@]#"$before"}")
    [[ ${COMPREPLY-} =~ [=/:,]$ ]] && compopt -o nospace 2> /dev/null
    return 0
}
complete -o bashdefault -o nosort -F _layermark layermark
"#;

impl EnvCompleter for Bash {
    fn name(&self) -> &'static str {
        env::Bash.name()
    }

    fn is(&self, name: &str) -> bool {
        env::Bash.is(name)
    }

    fn write_registration(
        &self,
        var: &str,
        _: &str,
        _: &str,
        completer: &str,
        buf: &mut dyn Write,
    ) -> io::Result<()> {
        let script = BASH.replace("ASKED", var).replace("PROGRAM", completer);
        buf.write_all(script.as_bytes())
    }

    fn write_complete(
        &self,
        cmd: &mut Command,
        args: Vec<OsString>,
        current_dir: Option<&Path>,
        buf: &mut dyn Write,
    ) -> io::Result<()> {
        let index = std::env::var("_CLAP_COMPLETE_INDEX").ok();
        let index = index.and_then(|i| i.parse().ok()).unwrap_or_default();
        let all = complete(cmd, args, index, current_dir)?;
        let offered = all.iter().filter(|c| is_safe(c));
        for candidate in offered {
            write!(
                buf,
                "{}\x0b",
                quoted(&candidate.get_value().to_string_lossy())
            )?;
        }
        Ok(())
    }
}

/// Escapes with a backslash what bash treats specially. This also holds within quotation marks that
/// the user has opened.
fn quoted(text: &str) -> String {
    let mut all = String::with_capacity(text.len());
    for c in text.chars() {
        if !is_plain(c) {
            all.push('\\');
        }
        all.push(c);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_for_bash_to_run() {
        assert_eq!(quoted("overlay:merged,index=on"), "overlay:merged,index=on");
        assert_eq!(
            quoted("p$(id)`x`;'\"!~ é"),
            "p\\$\\(id\\)\\`x\\`\\;\\'\\\"\\!\\~\\ é"
        );
    }
}
