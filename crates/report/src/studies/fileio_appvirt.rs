//! Study of application virtualisation, writing and reading a file (2012). The file has 250 MB in
//! records of 4 KB to 1 MB; three repeats and their mean. Native is compared with applications that
//! were virtualised in two ways.

use layermark_model::{StudyId, format_size};

use super::{
    Data, Study, conclusion,
    repeats::Repeats,
    rows::{cache_asked, data_size, ids, layers, request_size, usable, values},
};
use crate::{
    statements::studies::fileio_appvirt::{
        AgainstNative, FileioClaim, LeftToWrite, OneRepeat, RepeatsVerdict,
    },
    types::{Cause, Cell, Conclusion, DataTable, Holds, ResultRow, Section, ServedBy},
    words::{
        Words,
        studies::fileio_appvirt::{self as words, WORKS},
    },
};

/// See the module.
pub struct FileioAppvirt;

impl Study for FileioAppvirt {
    fn id(&self) -> StudyId {
        StudyId::FileioAppvirt
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
            tables,
            conclusions,
            ..self.head(data)
        }
    }
}

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
        let names = self.data.names();
        let line = |record: &u64| {
            let first = Cell::number(format_size(*record), *record as f64);
            let rest = own.iter().map(|layer| {
                self.at(layer, *record).map_or_else(Cell::default, |r| {
                    let verdict = (**layer != self.native()).then(|| verdict(&r));
                    let said = words::summary_cell(&r.said(), verdict, &names);
                    Cell::number(said, r.mean())
                })
            });
            std::iter::once(first).chain(rest).collect()
        };
        let size = self.rows().next().map_or(0, data_size);
        let [title, note] = words::summary(self.title, size, &names);
        DataTable {
            title: title.into(),
            note: note.into(),
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
        let names = self.data.names();
        let seconds = words::seconds;
        let line = |(record, repeats): &(u64, Repeats)| {
            let mut line = vec![Cell::number(format_size(*record), *record as f64)];
            let source = repeats.source();
            line.extend((0..most).map(|n| {
                repeats.all.get(n).map_or_else(Cell::default, |(s, from)| {
                    let one = OneRepeat {
                        seconds: *s,
                        apart: from.filter(|_| *from != source),
                    };
                    Cell::number(one.words(&names), *s)
                })
            }));
            line.push(Cell::number(seconds(repeats.mean()), repeats.mean()));
            line.push(Cell::text(words::range(repeats.range())));
            line.push(Cell::text(words::source(source)));
            line
        };
        let apart: usize = rows.iter().map(|(_, r)| r.set_apart()).sum();
        let [title, note] = words::repeats(layer, self.title, apart);
        Some(DataTable {
            title: title.into(),
            note: note.into(),
            head: words::repeats_head(most),
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
                find(l, *record)
                    .map_or_else(Cell::default, |d| Cell::number(words::left(&d), d.seconds))
            });
            std::iter::once(first).chain(rest).collect()
        };
        let [title, note] = words::LEFT;
        Some(DataTable {
            title: title.into(),
            note: note.into(),
            head: std::iter::once("record".to_owned())
                .chain(own.iter().map(|l| (**l).to_owned()))
                .collect(),
            rows: self.records().iter().map(line).collect(),
        })
    }
}

fn verdict<'a>(of: &Repeats<'a>) -> RepeatsVerdict<'a> {
    RepeatsVerdict {
        row: of.row,
        apart: of.against_native(),
    }
}

/// Results of an operation in a layer.
fn of<'a>(data: &Data<'a>, layer: &str, op: &str) -> Vec<&'a ResultRow> {
    let rows = data.results.iter();
    rows.filter(|r| r.layer == layer && r.meaning.operation == op && usable(r))
        .collect()
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
    let (slow, quick) = (total(data, &first), total(data, &again));
    let said = FileioClaim::LaterReads {
        layer,
        first: [fetched, first.len()],
        again: [kept, again.len()],
        seconds: (holds == Holds::Yes && quick > 0.0).then_some([slow, quick]),
    };
    Some(conclusion(&said, layer, holds, ids(reads), &data.names()))
}

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
    let all = written as f64;
    let (holds, left) = match bytes {
        _ if debts.is_empty() => (Holds::Open, LeftToWrite::Unknown),
        None => (Holds::Open, LeftToWrite::NotCounted),
        Some(bytes) if bytes >= 0.1 * all => (
            Holds::No,
            LeftToWrite::Much {
                bytes: [bytes, all],
                seconds: [spent, seconds],
            },
        ),
        Some(bytes) => (Holds::Yes, LeftToWrite::Little([bytes, all])),
    };
    let said = FileioClaim::Written { layer, left };
    Some(conclusion(&said, layer, holds, ids(writes), &data.names()))
}

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
    let (holds, verdict) = match mine.against_native() {
        AgainstNative::Slower(_) if copies => (Holds::No, None),
        // A copy that was not recognised may be the reason.
        AgainstNative::Slower(_) | AgainstNative::Open => (Holds::Open, Some(verdict(&mine))),
        _ => (Holds::Yes, Some(verdict(&mine))),
    };
    let said = FileioClaim::InPlace {
        layer,
        size: data_size(here),
        seconds: [mine.mean(), natively.mean()],
        verdict,
    };
    let evidence = ids([here, there]);
    Some(conclusion(&said, layer, holds, evidence, &data.names()))
}
