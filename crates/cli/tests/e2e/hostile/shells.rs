//! Tab and Enter in a shell, in a directory where another user has chosen the names of files.

use std::{
    fs,
    io::Write,
    os::unix::fs::{DirBuilderExt, symlink},
    path::Path,
    process::{Command, Stdio},
};

use crate::common::{self, Lm, skipped};

/// Names that a shell would run, or take for several words.
const NAMES: [&str; 5] = [
    "plan$(touch pwned).toml",
    "plan`touch pwned`.toml",
    "plan;touch pwned;.toml",
    "plan|touch pwned'.toml",
    "plan\ntouch pwned\n.toml",
];

/// The shell with our completions, as a user has it.
fn shell(name: &str, dir: &Path) -> Option<Command> {
    let program = match name {
        "bash" => "bash --norc --noprofile -i",
        "zsh" => "zsh -f -i",
        _ => "fish --no-config -i",
    };
    let there = Command::new("sh")
        .args(["-c", &format!("command -v {name}")])
        .output();
    if !there.is_ok_and(|found| found.status.success()) {
        skipped(&format!(
            "{name} is not installed; hint: apt-get install {name}"
        ));
        return None;
    }
    // script(1) has a terminal for it.
    let mut command = Command::new("script");
    command.args(["-qec", program, "/dev/null"]);
    let path = std::env::var("PATH").unwrap_or_default();
    command
        .env("PATH", format!("{}:{path}", dir.join("bin").display()))
        .env("HOME", dir)
        .env("TERM", "dumb")
        .env("XDG_DATA_HOME", dir.join("data"))
        // fish makes a directory of its own there, or in the directory for temporary files, and leaves it.
        .env("XDG_RUNTIME_DIR", dir.join("run"))
        .current_dir(dir.join("here"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Some(command)
}

fn load(name: &str) -> &'static str {
    match name {
        "bash" => "eval \"$(layermark completions bash)\"\n",
        "zsh" => "autoload -U compinit; compinit -u -D; eval \"$(layermark completions zsh)\"\n",
        _ => "layermark completions fish | source\n",
    }
}

/// Presses Tab behind `line`, and Enter.
fn press(name: &str, dir: &Path, line: &str) -> Option<String> {
    let mut shell = shell(name, dir)?.spawn().expect("script");
    let mut keys = shell.stdin.take().expect("a pipe");
    let typed = format!("{}{line}\t\necho over\nexit\n", load(name));
    keys.write_all(typed.as_bytes()).expect("keys");
    let said = common::output(shell);
    drop(keys);
    Some(String::from_utf8_lossy(&said.stdout).into_owned())
}

#[test]
fn a_completed_file_name_runs_nothing() {
    for name in ["bash", "zsh", "fish"] {
        for file in NAMES {
            let lm = Lm::new();
            let dir = lm.dir.path();
            fs::create_dir(dir.join("bin")).expect("a directory");
            fs::create_dir(dir.join("here")).expect("a directory");
            let private = fs::DirBuilder::new().mode(0o700).create(dir.join("run"));
            private.expect("a directory");
            symlink(common::binary(), dir.join("bin/layermark")).expect("a link");
            fs::write(dir.join("here").join(file), "name = 'x'\n").expect("a file");
            let Some(said) = press(name, dir, "layermark run plan") else {
                break;
            };
            assert!(
                !dir.join("here/pwned").exists(),
                "{name} ran {file:?}: {said}"
            );
            // It was read as one word, and refused, since it is no plan.
            if !file.contains('\n') {
                let named = format!("error: plan {file}: ");
                assert!(said.contains(&named), "{name}, {file:?}: {said}");
            }
        }
    }
}
