//! IOR 3 and 4: the table "Summary of all tests", and the options above it.

use layermark_model::{ImportedPoint, mix_name};

use super::{Found, Results};
use crate::{
    lines::{self, Section},
    values,
};

pub const IOR: Results = Results {
    id: "ior",
    about: "IOR 3 and 4: the text that it prints",
    example: "mpirun -np 4 ior -F -b 64m -t 1m > FILE",
    begins,
    read,
    needs: "line of \"Summary of all tests\"",
};

fn begins(line: &str) -> bool {
    line.starts_with("IOR-") && line.contains(": MPI Coordinated Test of Parallel I/O")
}

/// An option as it is printed above the results: `xfersize            : 1 MiB`, with `=` in IOR 3.0.
fn option<'a>(run: &Section<'a>, label: &str) -> Option<&'a str> {
    run.all(label)
        .find_map(|rest| rest.strip_prefix([':', '=']))
        .map(str::trim)
}

fn read(run: &Section, found: &mut Found) -> Result<(), String> {
    let version = run.lines[0].split(':').next().unwrap_or_default();
    found.tool = values::clean(&version.replacen('-', " ", 1));
    if let Some(began) = run.after("Began") {
        found.measured = Some(values::clean(began.trim_start_matches([':', ' '])));
    }
    let Some(begin) = run
        .lines
        .iter()
        .position(|l| l.starts_with("Summary of all tests"))
    else {
        return Err(format!(
            "the run that begins in line {} has no \"Summary of all tests\": it is cut off",
            run.first
        ));
    };
    let mut rows = run.lines[begin + 1..].iter();
    let head: Vec<&str> = rows
        .next()
        .map(|l| l.split_whitespace().collect())
        .unwrap_or_default();
    let command = option(run, "Command line used").or_else(|| option(run, "Command line"));
    let command = lines::words(command.unwrap_or_default());
    for line in rows.take_while(|l| !l.is_empty()) {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let direction = match cells.first() {
            Some(&"write") => 0.0,
            Some(&"read") => 100.0,
            _ => continue,
        };
        if cells.len() != head.len() {
            return Err(format!(
                "the run that begins in line {}: a row of its summary has {} cells under {} names",
                run.first,
                cells.len(),
                head.len()
            ));
        }
        row(run, &head, &cells, direction, &command, found)?;
    }
    Ok(())
}

fn row(
    run: &Section,
    head: &[&str],
    cells: &[&str],
    reads: f64,
    command: &[String],
    found: &mut Found,
) -> Result<(), String> {
    let cell = |name: &str| head.iter().position(|h| *h == name).map(|at| cells[at]);
    let number = |name: &str| {
        let text = cell(name).ok_or_else(|| format!("its summary has no `{name}`"))?;
        text.parse::<f64>()
            .map_err(|_| format!("`{name}` is `{}`", values::clean(text)))
    };
    let direction = cells[0];
    let tasks = number("#Tasks")?;
    let (record, block) = (number("xsize")?, number("blksiz")?);
    let segments = number("segcnt")?;
    // A file for each process, or one for all.
    let own = number("fPP")? != 0.0;
    let ordering = option(run, "ordering in a file").unwrap_or_default();
    let random = match ordering.split(' ').next() {
        Some("sequential") => Some(0.0),
        Some("random") => Some(100.0),
        _ => None,
    };
    let given = |flags: &[&str]| command.iter().any(|w| flags.contains(&w.as_str()));
    let rate = values::rate(
        &format!("{direction}: Mean(MiB)"),
        number("Mean(MiB)")? * 1_048_576.0,
    )?;
    let shared = !own && tasks > 1.0;
    if shared {
        found.note(format!("`{direction}` is not compared with ours: {tasks} tasks share a file (-F gives each its own)"));
    }
    let ops = rate / record;
    let size = block * segments * if own { 1.0 } else { tasks };
    let api = cell("API").map(values::clean);
    found.point(ImportedPoint {
        name: format!("{direction}{}", if shared { ", a shared file" } else { "" }),
        op: random
            .filter(|_| !shared)
            .map(|random| mix_name(reads, random)),
        record: Some(record as u64),
        file_size: Some(size as u64),
        queue_depth: Some(1),
        threads: Some(tasks as u64),
        direct: Some(given(&["-B", "--posix.odirect"])),
        sync: (reads == 0.0).then(|| match () {
            () if given(&["-Y"]) => "each".into(),
            () if given(&["-e"]) => "fsync".into(),
            () => "none".into(),
        }),
        engine: api.map(|a| a.to_ascii_lowercase()),
        bytes_per_s: Some(rate),
        ops_per_s: Some(values::rate("xsize", ops)?),
        // Each process waits for its own.
        op_us: (ops > 0.0)
            .then(|| values::micros("the time of an operation", tasks * 1e6 / ops))
            .transpose()?,
        ..ImportedPoint::default()
    })
}
