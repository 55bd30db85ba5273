//! Commands that repeat a run or print more of it.

use layermark_model::FleetOfRun;

/// The command that prints a stored run in another form.
pub fn report(run: &str, rest: &str) -> String {
    format!("layermark report {run} {rest}")
}

/// A command, with everything that it can print.
pub fn full(command: &str) -> String {
    format!("{command} --full")
}

/// The command that runs a plan, which is saved as `plan.toml`, with the same seed in the same directory.
pub fn run_plan(seed: u64, dir: &str) -> String {
    format!("layermark run plan.toml --seed {seed} --dir {}", quote(dir))
}

/// The command that runs a plan on the same fleet.
pub fn fleet_run(seed: u64, dir: &str, fleet: &FleetOfRun) -> String {
    format!(
        "layermark fleet run plan.toml --seed {seed} --dir {} --share {} {}",
        quote(dir),
        quote(&fleet.share),
        fleet.launcher_flags(quote)
    )
}

/// The command that repeats a stored run with the same order of trials.
pub fn replay(run: &str) -> String {
    format!("layermark run --replay {run}")
}

/// Quotes a word for a POSIX shell, if necessary.
pub fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
