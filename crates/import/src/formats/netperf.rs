//! netperf 2: its tables, and the lines of `-k`.

use layermark_model::ImportedPoint;

use super::{Format, Found, short_lines, some};
use crate::{
    lines::{self, Section},
    values,
};

pub struct Netperf;

/// A test: words of its first line, our operation, and the columns of a row of its table. Figures of
/// CPU follow these with `-c` and `-C`.
struct Test {
    words: &'static str,
    op: &'static str,
    columns: &'static [Column],
}

#[derive(Clone, Copy, PartialEq)]
enum Column {
    /// Of no interest here.
    Other,
    Message,
    Request,
    Response,
    Rate,
}

use Column::{Message, Other, Rate, Request, Response};

const STREAM: &[Column] = &[Other, Other, Message, Other, Rate];
/// Of what was sent. The line below has what has arrived.
const DATAGRAMS: &[Column] = &[Other, Message, Other, Other, Other, Rate];
const ARRIVED: &[Column] = &[Other, Other, Other, Rate];
const TRANSACTIONS: &[Column] = &[Other, Other, Request, Response, Other, Rate];

const TESTS: &[Test] = &[
    Test {
        words: "TCP STREAM TEST",
        op: "stream",
        columns: STREAM,
    },
    Test {
        words: "TCP MAERTS TEST",
        op: "maerts",
        columns: STREAM,
    },
    Test {
        words: "UDP STREAM TEST",
        op: "udp-stream",
        columns: DATAGRAMS,
    },
    Test {
        words: "TCP REQUEST/RESPONSE TEST",
        op: "rr",
        columns: TRANSACTIONS,
    },
    Test {
        words: "UDP REQUEST/RESPONSE TEST",
        op: "udp-rr",
        columns: TRANSACTIONS,
    },
    Test {
        words: "TCP CONNECT/REQUEST/RESPONSE TEST",
        op: "crr",
        columns: TRANSACTIONS,
    },
];

/// Units of `-f`, bytes a second. Its letters are of 1024 bytes, its bits of 1000.
const UNITS: &[(&str, f64)] = &[
    ("10^3bits/s", 125.0),
    ("10^6bits/s", 125e3),
    ("10^9bits/s", 125e6),
    ("KBytes/s", 1024.0),
    ("MBytes/s", 1_048_576.0),
    ("GBytes/s", 1_073_741_824.0),
];

fn begins(line: &str) -> bool {
    line.contains(" TEST from ")
}

impl Format for Netperf {
    fn id(&self) -> &'static str {
        "netperf"
    }

    fn about(&self) -> &'static str {
        "netperf 2: its tables, or the lines of -k"
    }

    fn example(&self) -> &'static str {
        "netperf -H HOST -t TCP_RR > FILE"
    }

    fn knows(&self, text: &str) -> bool {
        text.lines().any(|l| begins(l) && test(l).is_some())
    }

    fn parse(&self, text: &str) -> Result<Found, String> {
        short_lines(text)?;
        let mut found = Found {
            tool: "netperf".into(),
            ..Found::default()
        };
        for run in lines::sections(text, begins) {
            if let Some(known) = test(run.lines[0]) {
                read(&run, known, &mut found)?;
            } else {
                let what = run.lines[0].split(" from ").next().unwrap_or_default();
                let (first, what) = (run.first, values::clean(what));
                found.note(format!(
                    "line {first}: `{what}` is not known and was left out"
                ));
            }
        }
        some(found, "result of netperf")
    }
}

fn test(line: &str) -> Option<&'static Test> {
    let line = line.to_ascii_uppercase();
    TESTS.iter().find(|t| line.contains(t.words))
}

fn read(run: &Section, test: &Test, found: &mut Found) -> Result<(), String> {
    let row = match keyed(run) {
        Some(row) => row?,
        None => table(run, test)?,
    };
    let transacts = test.columns == TRANSACTIONS;
    let name = match (row.request, row.response) {
        (Some(request), Some(response)) => {
            format!("{}, {request} bytes there, {response} back", test.op)
        }
        _ => test.op.to_owned(),
    };
    // `first burst N` has more than one transaction under way.
    let burst = run.lines[0]
        .split_once("first burst ")
        .and_then(|(_, n)| lines::number(n))
        .unwrap_or(0.0);
    if burst > 0.0 {
        found.note(format!("`{name}` is not compared: its burst is {burst}"));
    }
    let mut point = ImportedPoint {
        op: (burst <= 0.0).then(|| test.op.into()),
        record: row.message.filter(|_| !transacts),
        threads: Some(1),
        name,
        ..ImportedPoint::default()
    };
    if transacts {
        point.ops_per_s = Some(values::rate("the rate", row.rate)?);
        if burst <= 0.0 && row.rate > 0.0 {
            point.op_us = Some(values::micros("the rate", 1e6 / row.rate)?);
        }
    } else {
        let rate = row.rate
            * row.unit.ok_or_else(|| {
                format!(
                    "the result in line {}: the unit of its throughput is not known",
                    run.first
                )
            })?;
        point.bytes_per_s = Some(values::rate("the throughput", rate)?);
    }
    found.point(point)
}

/// A result as it is in the file.
#[derive(Default)]
struct Row {
    message: Option<u64>,
    request: Option<u64>,
    response: Option<u64>,
    rate: f64,
    /// Bytes a second.
    unit: Option<f64>,
}

fn unit(text: &str) -> Option<f64> {
    let known = UNITS.iter().find(|(name, _)| text.contains(name));
    known.map(|(_, scale)| *scale)
}

fn table(run: &Section, test: &Test) -> Result<Row, String> {
    let cells = |line: &str| -> Option<Vec<f64>> {
        let all: Option<Vec<f64>> = line.split_whitespace().map(|c| c.parse().ok()).collect();
        all.filter(|cells| !cells.is_empty())
    };
    let mut rows = run.lines.iter().filter_map(|l| cells(l));
    let cut = || {
        format!(
            "the result that begins in line {} has no row: it is cut off",
            run.first
        )
    };
    let first = rows
        .next()
        .filter(|row| row.len() >= test.columns.len())
        .ok_or_else(cut)?;
    let at = |row: &[f64], columns: &[Column], wanted: Column| {
        let at = columns.iter().position(|c| *c == wanted)?;
        row.get(at).copied()
    };
    let whole = |wanted| at(&first, test.columns, wanted).map(|n| n as u64);
    let mut rate = at(&first, test.columns, Rate);
    if test.columns == DATAGRAMS {
        let arrived = rows
            .next()
            .filter(|row| row.len() >= ARRIVED.len())
            .ok_or_else(cut)?;
        rate = at(&arrived, ARRIVED, Rate);
    }
    Ok(Row {
        message: whole(Message),
        request: whole(Request),
        response: whole(Response),
        rate: rate.ok_or_else(cut)?,
        unit: run.lines.iter().find_map(|l| unit(l)),
    })
}

/// The lines of `-k`; `None` without them.
fn keyed(run: &Section) -> Option<Result<Row, String>> {
    run.after("THROUGHPUT=")?;
    let whole = |label| run.after(label).and_then(lines::number).map(|n| n as u64);
    Some(run.number("THROUGHPUT=").map(|rate| Row {
        message: whole("LOCAL_SEND_SIZE="),
        request: whole("REQUEST_SIZE="),
        response: whole("RESPONSE_SIZE="),
        rate,
        unit: run.after("THROUGHPUT_UNITS=").and_then(unit),
    }))
}
