//! Study of application virtualisation, writing and reading a file (2012). The file has 250 MB in
//! records of 4 KB to 1 MB; three repeats and their mean. Native is compared with applications that
//! were virtualised in two ways.

use layermark_model::{StudyId, format_size};

use super::{
    Data, Study,
    repeats::{Apart, Repeats},
    rows::{cache_asked, capital, data_size, layers, request_size, usable, values},
};
use crate::{
    code_span::code,
    number as text,
    types::{Cause, Cell, Conclusion, DataTable, Holds, ResultRow, Section, ServedBy},
};

/// See the module.
pub struct FileioAppvirt;

impl Study for FileioAppvirt {
    fn id(&self) -> StudyId {
        StudyId::FileioAppvirt
    }

    fn title(&self) -> &'static str {
        "file I/O of virtualised applications"
    }

    fn section(&self, data: &Data) -> Section {
        let layers = layers(data);
        let works: Vec<StudyWork> = WORKS
            .iter()
            .map(|(op, cache, title)| StudyWork {
                data,
                op,
                cache,
                title,
            })
            .filter(|w| w.rows().next().is_some())
            .collect();
        let mut tables: Vec<DataTable> = works.iter().map(|w| w.summary(&layers)).collect();
        tables.extend(works.first().and_then(|w| w.debts(&layers)));
        for layer in &layers {
            tables.extend(works.iter().filter_map(|w| w.repeats(layer)));
        }
        let mut conclusions = Vec::new();
        conclusions.extend(layers.iter().filter_map(|l| memory(data, l)));
        conclusions.extend(layers.iter().filter_map(|l| write_back(data, l)));
        conclusions.extend(layers.iter().filter_map(|l| copy_up(data, l)));
        Section {
            name: self.id().id().into(),
            title: self.heading(),
            about: format!(
                "One file written and read from start to end, {natively} and through each layer. Seconds: mean and range of the repeats. The report's own rule decides whether a layer differs from {base}.",
                base = data.baseline_name(),
                natively = data.natively()
            ),
            tables,
            conclusions,
            ..Section::default()
        }
    }
}

/// Operation, state of the cache, and title of each part.
const WORKS: [(&str, &str, &str); 3] = [
    ("write", "", "write"),
    ("read", "cold", "read, the first time"),
    ("read", "warm", "read, again"),
];

/// One part of the study.
struct StudyWork<'a> {
    data: &'a Data<'a>,
    op: &'static str,
    cache: &'static str,
    title: &'static str,
}

impl<'a> StudyWork<'a> {
    fn rows(&self) -> impl Iterator<Item = &'a ResultRow> {
        let (op, cache) = (self.op, self.cache);
        self.data
            .results
            .iter()
            .filter(move |r| r.meaning.operation == op && usable(r))
            .filter(move |r| cache.is_empty() || cache_asked(r) == cache)
    }

    fn at(&self, layer: &str, record: u64) -> Option<Repeats<'a>> {
        let mut rows = self.rows();
        let row = rows.find(|r| r.layer == layer && request_size(r) == record)?;
        Repeats::of(self.data, row)
    }

    fn native(&self) -> &'a str {
        &self.data.run.layers[self.data.baseline].name
    }

    fn records(&self) -> Vec<u64> {
        values(self.rows(), request_size)
    }

    /// Record sizes as rows, native and every layer as columns.
    fn summary(&self, layers: &[&str]) -> DataTable {
        let own: Vec<&&str> = layers
            .iter()
            .filter(|l| self.rows().any(|r| r.layer == **l))
            .collect();
        let line = |record: &u64| {
            let first = Cell::number(format_size(*record), *record as f64);
            let rest = own.iter().map(|layer| {
                self.at(layer, *record).map_or_else(Cell::default, |r| {
                    let mut words = r.words();
                    if **layer != self.native() {
                        words.push_str(", ");
                        words.push_str(&verdict(&r));
                    }
                    Cell::number(words, r.mean())
                })
            });
            std::iter::once(first).chain(rest).collect()
        };
        let size = self.rows().next().map_or(0, data_size);
        DataTable {
            title: format!("{}, {}: seconds", capital(self.title), format_size(size)),
            note: format!(
                "Mean and range of the repeats, and the report's verdict against {}.",
                self.data.baseline_name()
            ),
            head: std::iter::once("record".to_owned())
                .chain(own.iter().map(|l| (**l).to_owned()))
                .collect(),
            rows: self.records().iter().map(line).collect(),
        }
    }

    /// Each repeat and the mean, in one layer.
    fn repeats(&self, layer: &str) -> Option<DataTable> {
        let rows: Vec<(u64, Repeats)> = self
            .records()
            .into_iter()
            .filter_map(|record| Some((record, self.at(layer, record)?)))
            .collect();
        let most = rows.iter().map(|(_, r)| r.all.len()).max()?;
        let seconds = |s: f64| text::time(s * 1e6);
        let line = |(record, repeats): &(u64, Repeats)| {
            let mut line = vec![Cell::number(format_size(*record), *record as f64)];
            let source = repeats.source();
            line.extend((0..most).map(|n| {
                repeats.all.get(n).map_or_else(Cell::default, |(s, from)| {
                    let apart = from.filter(|_| *from != source);
                    let from = apart.map_or_else(String::new, |f| format!(", {}", f.word()));
                    Cell::number(format!("{}{from}", seconds(*s)), *s)
                })
            }));
            line.push(Cell::number(seconds(repeats.mean()), repeats.mean()));
            line.push(Cell::text(text::time_span(
                repeats.range().map(|s| s * 1e6),
            )));
            line.push(Cell::text(source.map_or("", ServedBy::word)));
            line
        };
        let apart: usize = rows.iter().map(|(_, r)| r.set_apart()).sum();
        let note = if apart > 0 {
            format!(
                "{} came from elsewhere than the others and are not in the mean.",
                text::count(apart, "repeat")
            )
        } else {
            String::new()
        };
        let mut head = vec!["record".to_owned()];
        head.extend((1..=most).map(|n| format!("repeat {n}")));
        head.extend(["mean", "range", "data came from"].map(str::to_owned));
        Some(DataTable {
            title: format!("{layer}: {}, each repeat", self.title),
            note,
            head,
            rows: rows.iter().map(line).collect(),
        })
    }

    /// Data left to write when the program had ended.
    fn debts(&self, layers: &[&str]) -> Option<DataTable> {
        let find = |layer: &str, record: u64| {
            self.rows()
                .find(|r| r.layer == layer && request_size(r) == record)
                .and_then(|r| r.write_back_debt)
        };
        let own: Vec<&&str> = layers
            .iter()
            .filter(|l| {
                self.rows()
                    .any(|r| r.layer == **l && r.write_back_debt.is_some())
            })
            .collect();
        if own.is_empty() {
            return None;
        }
        let line = |record: &u64| {
            let first = Cell::number(format_size(*record), *record as f64);
            let rest = own.iter().map(|l| {
                find(l, *record).map_or_else(Cell::default, |d| {
                    let bytes = d
                        .bytes
                        .map_or_else(String::new, |b| format!(", {}", text::bytes(b)));
                    Cell::number(format!("{}{bytes}", text::time(d.seconds * 1e6)), d.seconds)
                })
            });
            std::iter::once(first).chain(rest).collect()
        };
        Some(DataTable {
            title: "Written after the program had ended: seconds".into(),
            note: "From the last close until everything was on the device, and the bytes that crossed to it meanwhile; medians of the repeats.".into(),
            head: std::iter::once("record".to_owned())
                .chain(own.iter().map(|l| (**l).to_owned()))
                .collect(),
            rows: self.records().iter().map(line).collect(),
        })
    }
}

/// As the result has it: `probably slower 1.18x`.
fn verdict(of: &Repeats) -> String {
    let word = of.row.word();
    match of.against_native() {
        Apart::No => "the same".into(),
        Apart::Open => "too noisy".into(),
        Apart::Slower(ratio) => format!("{word} {}x", text::ratio(ratio)),
        Apart::Faster(ratio) => format!("{word} {}x", text::ratio(1.0 / ratio)),
    }
}

/// Results of an operation in a layer.
fn of<'a>(data: &Data<'a>, layer: &str, op: &str) -> Vec<&'a ResultRow> {
    let rows = data.results.iter();
    rows.filter(|r| r.layer == layer && r.meaning.operation == op && usable(r))
        .collect()
}

fn ids(rows: &[&ResultRow]) -> Vec<String> {
    rows.iter().map(|r| r.id.clone()).collect()
}

fn total(data: &Data, rows: &[&ResultRow]) -> f64 {
    let mean = |row: &&ResultRow| {
        let row = data.results.iter().find(|r| r.id == row.id)?;
        Some(Repeats::of(data, row)?.mean())
    };
    rows.iter().filter_map(mean).sum()
}

/// Whether later reads come from memory, by the proof and not by the time.
fn memory(data: &Data, layer: &str) -> Option<Conclusion> {
    let reads = of(data, layer, "read");
    let with = |cache: &str| -> Vec<&ResultRow> {
        reads
            .iter()
            .filter(|r| cache_asked(r) == cache)
            .copied()
            .collect()
    };
    let (first, again) = (with("cold"), with("warm"));
    if again.is_empty() {
        return None;
    }
    let from = |rows: &[&ResultRow], source: ServedBy| {
        rows.iter().filter(|r| r.served_by == Some(source)).count()
    };
    let fetched = from(&first, ServedBy::Device);
    let kept = from(&again, ServedBy::HostMemory);
    let holds = if first.is_empty() || kept < again.len() && from(&again, ServedBy::Device) == 0 {
        Holds::Open
    } else if fetched == first.len() && kept == again.len() {
        Holds::Yes
    } else if fetched == 0 || kept == 0 {
        Holds::No
    } else {
        Holds::Open
    };
    let mut text = format!(
        "in {} the first read comes from the device ({fetched} of {} by proof) and later ones from memory ({kept} of {})",
        code(layer),
        first.len(),
        again.len()
    );
    let (slow, quick) = (total(data, &first), total(data, &again));
    if holds == Holds::Yes && quick > 0.0 {
        text.push_str(": ");
        text.push_str(&text::time(slow * 1e6));
        text.push_str(" against ");
        text.push_str(&text::time(quick * 1e6));
        text.push_str(" for all record sizes, so the two are told apart and never averaged");
    }
    Some(Conclusion {
        claim: "later reads come from memory, the first from the device".into(),
        layer: layer.into(),
        text,
        holds,
        evidence: ids(&reads),
    })
}

/// Claim about the data that was left.
const WRITTEN: &str = "has written nearly everything when the application ends";

/// Whether everything is written when the application has ended.
fn write_back(data: &Data, layer: &str) -> Option<Conclusion> {
    let writes = of(data, layer, "write");
    let debts: Vec<_> = writes.iter().filter_map(|r| r.write_back_debt).collect();
    if writes.is_empty() {
        return None;
    }
    let seconds: f64 = debts.iter().map(|d| d.seconds).sum();
    let bytes: Option<f64> = debts.iter().map(|d| d.bytes).sum();
    let written: u64 = writes.iter().map(|r| data_size(r)).sum();
    let spent = total(data, &writes);
    let (holds, what) = match bytes {
        _ if debts.is_empty() => (Holds::Open, "nothing is known of what was left".into()),
        None => (Holds::Open, "no device counts what was left".into()),
        Some(b) if b >= 0.1 * written as f64 => (
            Holds::No,
            format!(
                "{} of {} were still to be written when the program had ended after {}, and took {} more",
                text::bytes(b),
                text::bytes(written as f64),
                text::time(spent * 1e6),
                text::time(seconds * 1e6)
            ),
        ),
        Some(b) => (
            Holds::Yes,
            format!(
                "only {} of {} were left",
                text::bytes(b),
                text::bytes(written as f64)
            ),
        ),
    };
    Some(Conclusion {
        claim: WRITTEN.into(),
        layer: layer.into(),
        text: format!(
            "{} {WRITTEN}: {what} (all record sizes together)",
            code(layer)
        ),
        holds,
        evidence: ids(&writes),
    })
}

/// Claim about a first write.
const IN_PLACE: &str = "changes a file without a copy of it";

/// Whether a first write to an existing file leaves the rest of it where it is.
fn copy_up(data: &Data, layer: &str) -> Option<Conclusion> {
    let native = &data.run.layers[data.baseline].name;
    if layer == native {
        return None;
    }
    let (here, there) = (
        of(data, layer, "first-write"),
        of(data, native, "first-write"),
    );
    let (here, there) = (*here.first()?, *there.first()?);
    let (mine, natively) = (Repeats::of(data, here)?, Repeats::of(data, there)?);
    let copies = here.causes.contains(&Cause::CopyUp);
    let (holds, what) = match mine.against_native() {
        Apart::Slower(_) if copies => (Holds::No, String::new()),
        // A copy that was not recognised may be the reason.
        Apart::Slower(_) | Apart::Open => (Holds::Open, format!(", {}", verdict(&mine))),
        _ => (Holds::Yes, format!(", {}", verdict(&mine))),
    };
    Some(Conclusion {
        claim: IN_PLACE.into(),
        layer: layer.into(),
        text: format!(
            "{} {IN_PLACE} ({}): {} for the first write, {} {}{what}",
            code(layer),
            format_size(data_size(here)),
            text::time(mine.mean() * 1e6),
            data.natively(),
            text::time(natively.mean() * 1e6)
        ),
        holds,
        evidence: vec![here.id.clone(), there.id.clone()],
    })
}
