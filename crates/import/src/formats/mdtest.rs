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
const SIZES: &[(&str, &str)] = &[("File creation", "-w"), ("File read", "-e")];

fn begins(line: &str) -> bool {
    line.starts_with("mdtest-") && line.contains(" was launched with ")
}

/// `SUMMARY rate (in ops/sec): (of 1 iterations)`, without its first words in older versions. Another
/// table has times.
fn is_rates(line: &str) -> bool {
    line.starts_with("SUMMARY") && !line.starts_with("SUMMARY time")
}

fn read(run: &Section, found: &mut Found) -> Result<(), String> {
    let version = run.lines[0].split(' ').next().unwrap_or_default();
    found.tool = values::clean(&version.replacen('-', " ", 1));
    let cut = || {
        format!(
            "the run that begins in line {} has no table \"SUMMARY\": it is cut off",
            run.first
        )
    };
    let begin = run.lines.iter().position(|l| is_rates(l)).ok_or_else(cut)?;
    let (_, launched) = run.lines[0]
        .split_once(" was launched with ")
        .unwrap_or_default();
    let tasks = lines::number(launched).unwrap_or(1.0);
    let command = run
        .after("Command line used:")
        .or_else(|| run.after("Command line used :"));
    let command = lines::words(command.unwrap_or_default());
    let rows = run.lines[begin + 1..].iter();
    let rows = rows.skip_while(|l| !l.starts_with("---")).skip(1);
    for line in rows.take_while(|l| !l.is_empty() && !l.starts_with("--")) {
        let mut cells: Vec<&str> = line.split_whitespace().filter(|c| *c != ":").collect();
        let numbers = cells.split_off(cells.len().saturating_sub(4));
        let values: Option<Vec<f64>> = numbers.iter().map(|c| c.parse().ok()).collect();
        let Some([_, _, mean, _]) = values.as_deref() else {
            return Err(format!("`{}` is not a row of mdtest", values::clean(line)));
        };
        // A test that was not run.
        if *mean == 0.0 {
            continue;
        }
        let mut name = cells.join(" ").trim_end_matches(':').to_owned();
        let size = SIZES
            .iter()
            .find(|(op, _)| *op == name)
            .and_then(|(_, flag)| {
                let at = command.iter().position(|w| w == flag)?;
                command.get(at + 1)
            });
        if let Some(size) = size {
            name = format!("{name}, {} bytes", values::clean(size));
        }
        let rate = values::rate(&name, *mean)?;
        found.point(ImportedPoint {
            threads: Some(tasks as u64),
            ops_per_s: Some(rate),
            // Each task waits for its own.
            op_us: Some(values::micros(&name, tasks * 1e6 / rate)?),
            name: values::clean(&name),
            ..ImportedPoint::default()
        })?;
    }
    Ok(())
}
