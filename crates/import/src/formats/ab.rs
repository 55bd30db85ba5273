//! ab (Apache HTTP server benchmarking tool): what it prints at the end.

use layermark_model::ImportedPoint;

use super::{Format, Found, short_lines, some};
use crate::{
    lines::{self, Section},
    values,
};

pub struct Ab;

const FIRST: &str = "Document Path:";

impl Format for Ab {
    fn id(&self) -> &'static str {
        "ab"
    }

    fn about(&self) -> &'static str {
        "ab: the text that it prints"
    }

    fn example(&self) -> &'static str {
        "ab -k -n 10000 -c 16 http://127.0.0.1:8080/ > FILE"
    }

    fn knows(&self, text: &str) -> bool {
        text.contains("This is ApacheBench") || text.lines().any(|l| l.trim().starts_with(FIRST))
    }

    fn parse(&self, text: &str) -> Result<Found, String> {
        short_lines(text)?;
        let version = text.lines().find_map(|l| {
            let rest = l.trim().strip_prefix("This is ApacheBench, Version ")?;
            rest.split(' ').next()
        });
        let mut found = Found {
            tool: version.map_or("ab".into(), |v| format!("ab {}", values::clean(v))),
            ..Found::default()
        };
        for run in lines::sections(text, |l| l.starts_with(FIRST)) {
            found_in(&run, &mut found)?;
        }
        some(found, "result of ab")
    }
}

fn found_in(run: &Section, found: &mut Found) -> Result<(), String> {
    let path = values::clean(run.need(FIRST)?);
    let sends = ["Total body sent:", "Total POSTed:", "Total PUT:"];
    let sends = sends.iter().any(|label| run.after(label).is_some());
    let keeps = run.after("Keep-Alive requests:").is_some();
    let mut name = format!("{} {path}", if sends { "POST or PUT" } else { "GET" });
    if let Some(bytes) = run.after("Document Length:").and_then(lines::number) {
        name = format!("{name}, {bytes} bytes");
    }
    if keeps {
        name.push_str(", keep-alive");
    }
    let count = |label| run.after(label).and_then(lines::number).unwrap_or(0.0);
    let (failed, other) = (count("Failed requests:"), count("Non-2xx responses:"));
    if failed > 0.0 {
        found.note(format!("`{name}`: {failed} requests failed"));
    }
    if other > 0.0 {
        found.note(format!(
            "`{name}` is not compared: {other} answers have another status than 2xx"
        ));
    }
    let percentile = |label: &str| {
        let ms = run
            .after(label)
            .and_then(lines::number)
            .filter(|ms| *ms > 0.0);
        ms.map(|ms| values::micros(label, ms * 1e3)).transpose()
    };
    let seconds = run.number("Time taken for tests:")?;
    let bodies = run.number("HTML transferred:")? / seconds;
    // A time of each connection first, then one over all of them.
    let mean = run.number("Time per request:")? * 1e3;
    found.point(ImportedPoint {
        op: (other == 0.0 && !sends).then(|| "GET".into()),
        queue_depth: Some(run.number("Concurrency Level:")? as u64),
        ops_per_s: Some(values::rate(
            "Requests per second",
            run.number("Requests per second:")?,
        )?),
        bytes_per_s: Some(bodies)
            .filter(|b| b.is_finite())
            .map(|b| values::rate("HTML transferred", b))
            .transpose()?,
        op_us: Some(values::micros("Time per request", mean)?),
        p99_us: percentile("99%")?,
        max_us: percentile("100%")?,
        name,
        ..ImportedPoint::default()
    })
}
