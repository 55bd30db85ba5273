//! The semicolon format (`--minimal`, `--output-format=terse`), versions 3 to 5: a line for each job,
//! without its options.

use super::{FioJob, Output, Side, Times, finished, rates::Units};
use crate::{
    formats::{Found, MOST_POINTS},
    values,
};

/// What of the layouts differs: directions, and the fields of each.
struct Layout {
    version: &'static str,
    directions: usize,
    fields: usize,
}

const LAYOUTS: &[Layout] = &[
    Layout {
        version: "3",
        directions: 2,
        fields: 41,
    },
    Layout {
        version: "4",
        directions: 3,
        fields: 41,
    },
    // And the extremes of rates and IOPS.
    Layout {
        version: "5",
        directions: 3,
        fields: 47,
    },
];

/// Fields before those of the directions: version, fio's version, name, group, error.
const HEAD: usize = 5;

fn layout(line: &str) -> Option<&'static Layout> {
    let (version, rest) = line.split_once(';')?;
    let known = LAYOUTS.iter().find(|l| l.version == version)?;
    rest.starts_with("fio-").then_some(known)
}

pub fn knows(text: &str) -> bool {
    text.lines().any(|l| layout(l).is_some())
}

pub fn parse(text: &str) -> Result<Found, String> {
    let mut output = Output {
        is_terse: true,
        ..Output::default()
    };
    for (at, line) in text.lines().enumerate() {
        let Some(layout) = layout(line) else { continue };
        let cells: Vec<&str> = line.split(';').collect();
        if cells.len() < HEAD + layout.directions * layout.fields {
            return Err(format!("line {}: it is cut off", at + 1));
        }
        output.version = cells[1].into();
        let whole = |n: usize| {
            let wrong = || {
                format!(
                    "line {}: field {} is `{}`",
                    at + 1,
                    n + 1,
                    values::clean(cells[n])
                )
            };
            cells[n].parse::<i64>().map_err(|_| wrong())
        };
        let side = |direction: usize| {
            let begin = HEAD + direction * layout.fields;
            side(&cells[begin..begin + layout.fields])
                .map_err(|why| format!("line {}: {why}", at + 1))
        };
        output.jobs.push(FioJob {
            jobname: cells[2].into(),
            groupid: whole(3)?,
            error: whole(4)?,
            read: Some(side(0)?),
            write: Some(side(1)?),
            trim: (layout.directions > 2).then(|| side(2)).transpose()?,
            ..FioJob::default()
        });
        if output.jobs.len() > MOST_POINTS {
            return Err("it has more jobs than are imported".into());
        }
    }
    let mut found = Found::default();
    output.add_to(&Units::TERSE, &mut found)?;
    finished(found)
}

/// KiB, KiB/s, IOPS, milliseconds; four figures each of submission, completion, 20 percentiles and
/// whole latency, in microseconds; rates.
fn side(cells: &[&str]) -> Result<Side, String> {
    let number = |n: usize| {
        let text = cells[n];
        text.parse::<f64>()
            .map_err(|_| format!("`{}` is not a number", values::clean(text)))
    };
    let percentiles = cells[12..32].iter().filter_map(|cell| {
        let (percent, us) = cell.split_once("%=")?;
        Some((percent.to_owned(), us.parse().ok()?))
    });
    let (kib, runtime) = (number(0)?, number(3)?);
    Ok(Side {
        io_bytes: kib * 1024.0,
        // IOPS are rounded down; these are whole.
        total_ios: 0.0,
        bw_bytes: Some(number(1)? * 1024.0),
        bw: None,
        iops: number(2)?,
        runtime,
        clat_ns: Times {
            percentile: percentiles.collect(),
            ..Times::default()
        },
        lat_ns: Times {
            max: number(33)?,
            mean: number(34)?,
            ..Times::default()
        },
    })
}
