//! Study of launch time of real programs (2014): a package on the local disk against one on a share
//! that is 6 ms away, cold and warm.
//!
//! Layers whose instructions are emulated are compared with each other. Their ratio to native would
//! mostly show the cost of emulation. The study's claims are in its plan.

use std::collections::BTreeMap;

use layermark_model::{Quotient, Site, StudyId, Unit};
use layermark_stats::{Comparison, mean};

use super::{
    Data, Study,
    rows::{cache_asked, compared, comparison, estimate, heading, is_emulated, layers},
};
use crate::{
    facts::index::cost,
    number as text,
    types::{Cell, DataTable, ResultRow, Section},
    words::{Text, studies::launch_share as words},
};

/// See the module.
pub struct LaunchShare;

impl Study for LaunchShare {
    fn id(&self) -> StudyId {
        StudyId::LaunchShare
    }

    fn section(&self, data: &Data) -> Section {
        let peers = [false, true].map(|emulated| Peers::of(data, emulated));
        let peers: Vec<Peers> = peers.into_iter().flatten().collect();
        let mut tables = Vec::new();
        for state in STATES {
            tables.extend(peers.iter().filter_map(|p| p.table(state)));
        }
        Section {
            tables,
            ..self.head(data)
        }
    }
}

/// Cache states of the study.
const STATES: [&str; 2] = ["cold", "warm"];

/// Layers that may be compared: all on this machine's own CPU, or all on an emulated one. The
/// others are compared with the first.
struct Peers<'a> {
    data: &'a Data<'a>,
    layers: Vec<&'a str>,
    /// Comparison of each result with the first layer's, by result id. Tables and conclusions both
    /// use it.
    against: BTreeMap<&'a str, Comparison>,
}

impl<'a> Peers<'a> {
    fn of(data: &'a Data<'a>, emulated: bool) -> Option<Self> {
        let mut layers = layers(data);
        layers.retain(|l| is_emulated(data, l) == emulated);
        layers.retain(|l| rows(data).any(|r| r.layer == *l && r.trials > 0));
        if layers.is_empty() {
            return None;
        }
        let against = BTreeMap::new();
        let mut peers = Self {
            data,
            layers,
            against,
        };
        peers.against = peers.against_first();
        Some(peers)
    }

    /// Against native, these are the report's own comparisons. Otherwise all are compared together.
    fn against_first(&self) -> BTreeMap<&'a str, Comparison> {
        let own = || rows(self.data).filter(|r| self.others().any(|l| l == r.layer));
        if self.first() == self.data.run.layers[self.data.baseline].name {
            return own()
                .filter_map(|r| Some((r.id.as_str(), comparison(r)?)))
                .collect();
        }
        let first = |r: &'a ResultRow| {
            Some((
                r,
                self.row(self.first(), program(self.data, r), cache_asked(r))?,
            ))
        };
        let sides: Vec<_> = own().filter_map(first).collect();
        let compared = compared(self.data, &sides, &Quotient::Time).into_iter();
        let each = sides.iter().zip(compared);
        each.filter_map(|((row, _), c)| Some((row.id.as_str(), c?)))
            .collect()
    }

    fn first(&self) -> &'a str {
        self.layers[0]
    }

    fn others(&self) -> impl Iterator<Item = &'a str> {
        self.layers.iter().skip(1).copied()
    }

    fn row(&self, layer: &str, program: &str, state: &str) -> Option<&'a ResultRow> {
        let is = |r: &&ResultRow| {
            r.layer == layer && cache_asked(r) == state && self::program(self.data, r) == program
        };
        rows(self.data).find(is)
    }

    /// Programs measured in this state in at least one of these layers, in the plan's order.
    fn programs(&self, state: &str) -> Vec<&'a str> {
        let mut all = Vec::new();
        for row in rows(self.data).filter(|r| cache_asked(r) == state) {
            let name = program(self.data, row);
            if self.layers.contains(&row.layer.as_str()) && !all.contains(&name) {
                all.push(name);
            }
        }
        all
    }

    /// A line for each program in each layer.
    fn table(&self, state: &str) -> Option<DataTable> {
        let programs = self.programs(state);
        if programs.is_empty() {
            return None;
        }
        let all = |program: &&'a str| {
            let of = |layer: &&str| self.row(layer, program, state);
            self.layers.iter().filter_map(of).collect::<Vec<_>>()
        };
        let rows: Vec<&ResultRow> = programs.iter().flat_map(all).collect();
        let failed = rows.iter().filter(|r| r.trials == 0).filter_map(|r| {
            let why = layermark_model::brief(r.error.as_deref()?);
            Some(words::failed(program(self.data, r), &r.layer, &why))
        });
        let emulated = is_emulated(self.data, self.first());
        Some(DataTable {
            title: words::title(state, emulated).into(),
            note: Text::joined(failed, ". ").into(),
            head: words::head(&heading(self.data, self.first())),
            rows: rows.iter().map(|r| self.line(r)).collect(),
        })
    }

    fn line(&self, row: &ResultRow) -> Vec<Cell> {
        let all = self.times(row);
        let low = all.iter().copied().fold(f64::INFINITY, f64::min);
        let high = all.iter().copied().fold(0.0, f64::max);
        let ratio = self
            .against
            .get(row.id.as_str())
            .map(|c| Cell::number(text::ratio_with(&estimate(c)), c.ratio));
        let (centre, range) = match mean(&all) {
            Some(m) => (
                Cell::number(text::time(m * 1e6), m),
                Cell::text(text::time_span([low * 1e6, high * 1e6])),
            ),
            None => (Cell::text(words::NOT_LAUNCHED), Cell::default()),
        };
        vec![
            Cell::text(program(self.data, row)),
            Cell::text(heading(self.data, &row.layer)),
            Cell::count(all.len() as u64),
            centre,
            range,
            ratio.unwrap_or_default(),
        ]
    }

    /// Seconds of each launch.
    fn times(&self, row: &ResultRow) -> Vec<f64> {
        let Some((layer, point)) = self.site(row) else {
            return Vec::new();
        };
        let trials = self.data.index.trials(layer, point).into_iter();
        trials.filter_map(|t| Some(cost(t)? / 1e9)).collect()
    }

    fn site(&self, row: &ResultRow) -> Option<Site> {
        self.data.run.site(&row.layer, &row.label)
    }
}

fn rows<'a>(data: &'a Data<'a>) -> impl Iterator<Item = &'a ResultRow> {
    data.results
        .iter()
        .filter(|r| r.meaning.unit == Unit::Launch)
}

/// The plan's name of the program, to which a label adds the state of the caches; the label where the plan has none.
fn program<'a>(data: &'a Data, row: &'a ResultRow) -> &'a str {
    let state = cache_asked(row);
    let mut names = data.run.plan.work.iter().filter_map(|w| w.label.as_deref());
    let of_row = names.find(|name| words::with_state(name, state) == row.label);
    of_row.unwrap_or(&row.label)
}
