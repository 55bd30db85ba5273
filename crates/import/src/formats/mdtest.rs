//! mdtest: the table "SUMMARY rate".

use layermark_model::ImportedPoint;

use super::{Found, Results};
use crate::{
    lines::{self, Section},
    values,
};

pub const MDTEST: Results = Results {
    id: "mdtest",
    about: "mdtest 1.9 to 4: the text that it prints",
    example: "mpirun -np 4 mdtest -n 1000 -d DIR > FILE",
    begins,
    read,
    needs: "rate in a table \"SUMMARY\"",
};

/// Bytes that an option gives the files of an operation.
const SIZES: &[(&str, char)] = &[("File creation", 'w'), ("File read", 'e')];

fn begins(line: &str) -> bool {
    line.starts_with("mdtest-") && line.contains(" was launched with ")
}

/// `SUMMARY rate (in ops/sec): (of 1 iterations)`, without its first words in older versions. Another
/// table has times.
fn is_rates(line: &str) -> bool {
    line.starts_with("SUMMARY") && !line.starts_with("SUMMARY time")
}

/// Options that are followed by a value, in any version.
const VALUED: &str = "abdefGiIlnNpsVwWxz";

/// The words of mdtest's command line.
struct Options(Vec<String>);

impl Options {
    /// The value behind an option.
    fn value(&self, flag: char) -> Option<&str> {
        let at = self.0.iter().position(|w| *w == format!("-{flag}"))?;
        self.0.get(at + 1).map(String::as_str)
    }

    /// Whether an option without a value is there, also as `-Fu`.
    fn has(&self, flag: char) -> bool {
        self.0.iter().any(|word| {
            let letters = word.strip_prefix('-').unwrap_or_default();
            !letters.starts_with('-')
                && (letters.chars().take_while(|c| !VALUED.contains(*c))).any(|c| c == flag)
        })
    }
}

/// How many tasks do an operation, and how many operations there are for each that the rate counts.
/// None if the table does not say how long one takes.
fn shares(operation: &str, tasks: f64, options: Option<&Options>) -> Option<(f64, f64)> {
    let Some(options) = options else {
        return (!operation.starts_with("Tree ")).then_some((tasks, 1.0));
    };
    let together = options.has('c');
    Some(match operation {
        // The rate counts one tree: with `-u` each task has one, and with `-n` and `-I` there are several.
        "Tree creation" | "Tree removal" if options.has('u') => {
            (if together { 1.0 } else { tasks }, tasks)
        }
        "Tree creation" | "Tree removal" => {
            let count = |flag| options.value(flag).and_then(|v| v.parse::<u64>().ok());
            let all = count('n').unwrap_or_default();
            let trees = all.checked_div(count('I').unwrap_or_default());
            (1.0, trees.unwrap_or(1).max(1) as f64)
        }
        // The first task creates all files, and then each task opens its own.
        "File creation" if together => return None,
        "Directory creation" | "Directory removal" | "File removal" if together => (1.0, 1.0),
        // The rate counts the file of all tasks once for each.
        "File removal" if options.has('S') => (1.0, 1.0 / tasks),
        _ => (tasks, 1.0),
    })
}

fn read(run: &Section, found: &mut Found) -> Result<(), String> {
    let version = run.lines[0].split(' ').next().unwrap_or_default();
    found.tool = values::clean(&version.replacen('-', " ", 1));
    let missing = || {
        let times = run.lines.iter().any(|l| l.starts_with("SUMMARY time"));
        let why = ["it is cut off", "it has times only, as with `-Z`"][usize::from(times)];
        let first = run.first;
        format!("the run that begins in line {first} has no table \"SUMMARY rate\": {why}")
    };
    let begin = (run.lines.iter().position(|l| is_rates(l))).ok_or_else(missing)?;
    let (_, launched) = run.lines[0]
        .split_once(" was launched with ")
        .unwrap_or_default();
    let tasks = lines::number(launched).filter(|n| *n >= 1.0).unwrap_or(1.0);
    let options = run
        .after("Command line used:")
        .or_else(|| run.after("Command line used :"))
        .map(|command| Options(lines::words(command)));
    let rows = run.lines[begin + 1..].iter();
    let rows = rows.skip_while(|l| !l.starts_with("---")).skip(1);
    for line in rows.take_while(|l| !l.is_empty() && !l.starts_with("--")) {
        let mut cells: Vec<&str> = line.split_whitespace().filter(|c| *c != ":").collect();
        // Maximum, minimum, mean and standard deviation. "File create (stonewall)" has `NA` for the others.
        let numbers = cells.split_off(cells.len().saturating_sub(4));
        let mean = numbers.get(2).and_then(|c| c.parse::<f64>().ok());
        let Some(mean) = mean else {
            return Err(format!("`{}` is not a row of mdtest", values::clean(line)));
        };
        // A test that was not run.
        if mean == 0.0 {
            continue;
        }
        let operation = cells.join(" ").trim_end_matches(':').trim_end().to_owned();
        found.point(point(&operation, mean, tasks, options.as_ref())?)?;
    }
    Ok(())
}

fn point(
    operation: &str,
    mean: f64,
    tasks: f64,
    options: Option<&Options>,
) -> Result<ImportedPoint, String> {
    let size = SIZES
        .iter()
        .find(|(op, _)| *op == operation)
        .and_then(|(_, flag)| options?.value(*flag));
    let name = match size {
        Some(size) => format!("{operation}, {} bytes", values::clean(size)),
        None => values::clean(operation),
    };
    let shares = shares(operation, tasks, options);
    let rate = values::rate(&name, mean * shares.map_or(1.0, |(_, times)| times))?;
    // Each task waits for its own.
    let op_us = shares.map(|(tasks, _)| values::micros(&name, tasks * 1e6 / rate));
    Ok(ImportedPoint {
        threads: shares.map(|(tasks, _)| tasks as u64),
        ops_per_s: Some(rate),
        op_us: op_us.transpose()?,
        name,
        ..ImportedPoint::default()
    })
}
