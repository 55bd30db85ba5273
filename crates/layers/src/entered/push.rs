//! Brings this binary into a place that has a shell, through the command that leads there.

use std::{ffi::OsString, io::Write, path::Path, time::Duration};

use layermark_model::random_name;

use super::{
    Line, PUSHED,
    greeting::{Failed, line_with},
};

/// What the script prints before the directory that it has made.
const TAKES: &str = "layermark takes it in ";
/// What it prints there if an earlier run has kept the binary.
const KEPT: &str = "what was kept";
/// What it prints when it has the binary.
const HAS: &str = "layermark is there";

/// A binary to bring into a place.
pub(super) struct Binary<'a> {
    pub(super) bytes: &'a [u8],
    /// Its hash, which is its name where it is kept.
    pub(super) hash: &'a str,
    /// Whether it stays in the user's cache directory there, and is taken from it.
    pub(super) keep: bool,
}

/// Whether a path needs no quoting in any shell: `ssh` has its arguments read by one.
pub(super) fn is_plain(path: &Path) -> bool {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"/._-+".contains(b);
    path.to_str().is_some_and(|p| p.bytes().all(|b| plain(&b)))
}

/// A command that runs the script from its standard input, so that nothing has to be quoted.
pub(super) fn shell(command: &[OsString]) -> Vec<OsString> {
    [command, &["sh".into()]].concat()
}

/// The script. It is one line, because some shells read more of their input than they need. It makes a directory
/// of a random name where a program can run, and removes it at the end, also if the binary does not arrive or
/// cannot start. The agent is started by the same command, since some commands make a new place each time.
fn script(binary: &Binary, dir: &Path, token: &str) -> String {
    let Binary { bytes, hash, keep } = binary;
    let name = random_name(PUSHED);
    let dir = shell_words::quote(&dir.to_string_lossy()).into_owned();
    let size = bytes.len();
    let (kept, first, stays) = if *keep {
        (
            format!(
                "k=\"${{XDG_CACHE_HOME:-$HOME/.cache}}/layermark\"; mkdir -p \"$k\" 2>/dev/null; \
                 if [ -x \"$k/{hash}\" ] && [ \"$(wc -c <\"$k/{hash}\")\" -eq {size} ]; then echo; echo '{TAKES}{KEPT}'; \"$k/{hash}\" place {token}; exit; fi;"
            ),
            "\"$k\" ",
            // A rename: nobody sees half of it.
            format!("case $t in \"$k\"/*) mv \"$b\" \"$k/{hash}\" && b=\"$k/{hash}\";; esac;"),
        )
    } else {
        (String::new(), "", String::new())
    };
    [
        format!("umask 077; t=; {kept}"),
        format!(
            "for d in {first}\"${{TMPDIR:-/tmp}}\" /var/tmp \"$HOME\" {dir}; do n=\"$d/{name}\";"
        ),
        "mkdir \"$n\" 2>/dev/null || continue; f=\"$n/layermark\";".into(),
        "printf '#!/bin/sh\\n' >\"$f\" && chmod 700 \"$f\" && \"$f\" 2>/dev/null && t=$n && break;"
            .into(),
        "rm -rf \"$n\"; done;".into(),
        format!("echo; echo \"{TAKES}$t\"; [ -n \"$t\" ] || exit 1;"),
        // A full disk, or an error at its close, leaves a shorter file.
        format!("b=\"$t/layermark\"; head -c {size} >\"$b\";"),
        format!("[ \"$(wc -c <\"$b\")\" -eq {size} ] || {{ rm -rf \"$t\"; exit 1; }};"),
        format!("echo {HAS}; read -r last;"),
        format!("if [ \"$last\" = keep ]; then {stays} \"$b\" place {token}; fi; rm -rf \"$t\"\n"),
    ]
    .join(" ")
}

/// Sends the binary and starts the agent with this token.
pub(super) fn push(
    line: Line,
    binary: &Binary,
    (dir, token): (&Path, &str),
    limit: Duration,
) -> Result<Line, Failed> {
    let Line {
        mut process,
        mut stream,
    } = line;
    // If writing fails, the command has ended, and reading tells how.
    let _ = stream.set_write_timeout(Some(limit));
    let _ = stream.write_all(script(binary, dir, token).as_bytes());
    let into = line_with(&mut process, &mut stream, TAKES, limit)?;
    if into.ends_with('\r') {
        return Err(Failed::Terminal);
    }
    if into.is_empty() {
        return Err(Failed::NoRoom {
            said: process.last_lines(),
        });
    }
    if into == KEPT {
        return Ok(Line { process, stream });
    }
    let _ = stream.write_all(binary.bytes);
    line_with(&mut process, &mut stream, HAS, limit)?;
    let _ = stream.write_all(b"keep\n");
    Ok(Line { process, stream })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_that_no_shell_changes_are_plain() {
        assert!(is_plain(Path::new("/usr/local/bin/layermark-0.1+x")));
        for path in ["/a b", "/$HOME", "/a;b", "/~x", "/ü"] {
            assert!(!is_plain(Path::new(path)), "{path}");
        }
    }

    #[test]
    fn a_directory_cannot_add_to_the_script() {
        let dir = "/x'; touch ran; '$(touch ran)";
        let binary = Binary {
            bytes: b"12345",
            hash: "abc",
            keep: true,
        };
        let text = script(&binary, Path::new(dir), "0");
        assert_eq!(text.matches('\n').count(), 1);
        // The loop's list as a shell reads it: the directory is its last word.
        let list = text.split_once("/var/tmp ").unwrap().1;
        let list = list.split_once("; do n=").unwrap().0;
        let words = shell_words::split(list).unwrap();
        assert_eq!(words.last().map(String::as_str), Some(dir));
    }
}
