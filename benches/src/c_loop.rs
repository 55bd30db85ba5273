//! Loops in C with which ours are compared: `bare.c` over files, `rr.c` over a connection.

use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context, Result, anyhow, bail};

/// Builds a C program of this directory.
pub fn build(dir: &Path, name: &str) -> Result<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("{name}.c"));
    let bare = dir.join(name);
    let status = Command::new("cc")
        .arg("-O2")
        .arg("-o")
        .arg(&bare)
        .arg(source)
        .status()
        .context("cc")?;
    if !status.success() {
        bail!("cc could not build benches/{name}.c");
    }
    Ok(bare)
}

/// A C loop that takes turns.
pub struct Loop {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Loop {
    /// Starts it.
    pub fn start(command: &mut Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("{}", command.get_program().display()))?;
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().context("no standard output")?);
        Ok(Self {
            child,
            input,
            output,
        })
    }

    /// Runs a turn of this many nanoseconds, after an uncounted lead-in. Returns its value of
    /// `word`.
    pub fn turn(&mut self, (ns, lead_in_ns): (u64, u64), word: &str) -> Result<f64> {
        let input = self.input.as_mut().context("no standard input")?;
        writeln!(input, "{lead_in_ns} {ns}")?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        word_in(&line, word)
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // It ends at the end of its input.
        self.input = None;
        let _ = self.child.wait();
    }
}

/// The number after `name` in a line of a C loop.
pub fn word_in(line: &str, name: &str) -> Result<f64> {
    let mut words = line.split_whitespace();
    let number = words.find_map(|word| word.strip_prefix(name));
    number
        .and_then(|ns| ns.parse().ok())
        .ok_or_else(|| anyhow!("the C loop said `{}`", line.trim()))
}
