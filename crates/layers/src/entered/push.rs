//! Brings this binary into a place that has a shell, through the command that leads there.

use std::{ffi::OsString, io::Write, path::Path, time::Duration};

use layermark_model::random_name;

use super::{
    BROUGHT, Line, PUSHED,
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
///
/// Nobody else may change what is run. So the name is in no command line before the directory exists; the script
/// works in the directory, which stays the same whatever others make of its path; and it takes a directory only if
/// that belongs to its user, others cannot write there, and, if new, it is empty.
fn script(binary: &Binary, dir: &Path, token: &str) -> String {
    let Binary { bytes, hash, keep } = binary;
    let name = random_name(PUSHED);
    let dir = shell_words::quote(&dir.to_string_lossy()).into_owned();
    let size = bytes.len();
    let (kept, stays) = if *keep {
        (
            format!(
                "k=\"${{XDG_CACHE_HOME:-$HOME/.cache}}/layermark\"; mkdir -p \"$k\" 2>/dev/null; \
                 if cd \"$k\" 2>/dev/null && mine .; then \
                 if mine {hash} && [ -x {hash} ] && [ \"$(wc -c <{hash})\" -eq {size} ]; then echo; echo '{TAKES}{KEPT}'; ./{hash} place {token}; exit; fi; \
                 else k=; fi; cd /;"
            ),
            // A rename: nobody sees half of it.
            format!(
                "case ${{k:-none}} in \"${{t%/*}}\") mv layermark ../{hash} && cd -P .. && rmdir {name} && b=./{hash};; esac;"
            ),
        )
    } else {
        ("k=;".into(), String::new())
    };
    let remove = "rm -f layermark; cd /; rmdir \"$t\" 2>/dev/null";
    [
        "umask 077; t=; mine() { [ -O \"$1\" ] && [ ! -L \"$1\" ] && case $(ls -ld \"$1\") in ?????-??-*) ;; *) false;; esac; };".into(),
        kept,
        format!(
            "for d in ${{k:+\"$k\"}} \"${{TMPDIR:-/tmp}}\" /var/tmp \"$HOME\" {dir}; do n=\"$d/{name}\";"
        ),
        "mkdir \"$n\" 2>/dev/null || continue;".into(),
        "if cd \"$n\" && mine . && [ -z \"$(ls -A)\" ]; then".into(),
        "printf '#!/bin/sh\\n' >layermark && chmod 700 layermark && ./layermark 2>/dev/null && t=$n && break;"
            .into(),
        "rm -f layermark; fi; cd /; rmdir \"$n\" 2>/dev/null; done;".into(),
        format!("echo; echo \"{TAKES}$t\"; [ -n \"$t\" ] || exit 1;"),
        // A full disk, or an error at its close, leaves a shorter file.
        format!("head -c {size} >layermark;"),
        format!("[ \"$(wc -c <layermark)\" -eq {size} ] || {{ {remove}; exit 1; }};"),
        format!("echo {HAS}; b={BROUGHT}; read -r last;"),
        format!("if [ \"$last\" = keep ]; then {stays} \"$b\" place {token}; fi; {remove}\n"),
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
    use std::io::{self, BufRead};

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

    /// Runs the script as the place's shell does, with these variables, and sends the binary. Returns what it printed.
    fn run(home: &Path, variables: &[(&str, &Path)], keep: bool) -> String {
        use std::process::{Command, Stdio};
        let program = b"#!/bin/sh\necho \"ran $0 in $(pwd -P) as $1\"\n";
        let binary = Binary {
            bytes: program,
            hash: "abc",
            keep,
        };
        let mut shell = Command::new("sh");
        shell
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", home);
        let mut shell = shell
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut input, output) = (shell.stdin.take(), shell.stdout.take().unwrap());
        let mut send = |bytes: &[u8]| input.as_mut().unwrap().write_all(bytes).unwrap();
        send(script(&binary, Path::new("/nonexistent"), "t0ken").as_bytes());
        let mut said = String::new();
        // It reads the binary only when it has said that it takes it.
        for line in io::BufReader::new(output).lines() {
            let line = line.unwrap();
            if line.starts_with(TAKES) && !line.contains(KEPT) {
                send(program);
            } else if line == HAS {
                send(b"keep\nexit\n");
            }
            said = format!("{said}{line}\n");
        }
        shell.wait().unwrap();
        said
    }

    fn with_mode(path: &Path, mode: u32) {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    /// The second time what was kept is taken; not where another user can put a file.
    #[test]
    fn what_is_kept_is_taken_only_where_nobody_else_can_put_it() {
        let home = tempfile::tempdir().unwrap();
        let cache = home.path().join("cache");
        let kept = cache.join("layermark");
        let run = |keep| {
            run(
                home.path(),
                &[("XDG_CACHE_HOME", &cache), ("TMPDIR", home.path())],
                keep,
            )
        };
        for _ in 0..2 {
            let said = run(true);
            let expected = format!("ran ./abc in {} as place", kept.display());
            assert!(said.contains(&expected), "{said}");
            assert_eq!(std::fs::read_dir(&kept).unwrap().count(), 1);
        }
        assert!(run(true).contains(KEPT));
        for (path, mode) in [(kept.clone(), 0o777), (kept.join("abc"), 0o766)] {
            with_mode(&path, mode);
            let said = run(true);
            assert!(!said.contains(KEPT) && said.contains("ran ./"), "{said}");
            with_mode(&path, 0o755);
        }
        let said = run(false);
        let expected = format!("ran ./layermark in {}/{PUSHED}", home.path().display());
        assert!(said.contains(&expected), "{said}");
        let left = std::fs::read_dir(home.path()).unwrap().count();
        assert_eq!(left, 1, "only the cache is left");
    }
}
