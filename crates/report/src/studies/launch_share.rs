//! Study of launch time of real programs (2014): a package on the local disk against one on a share
//! that is 6 ms away, cold and warm.
//!
//! Layers whose instructions are emulated are compared with each other. Their ratio to native would
//! mostly show the cost of emulation. The study's claims are in its plan.

use std::collections::BTreeMap;

use layermark_model::{CacheState, Point, Quotient, StudyId, Unit};
use layermark_stats::{Comparison, mean};

use super::{
    Data, Study,
    rows::{compared, comparison, estimate, heading, is_emulated, layers},
};
use crate::{
    facts::index::cost,
    group, number as text,
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
const STATES: [CacheState; 2] = [CacheState::Cold, CacheState::Warm];

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
        let first = |r: &'a ResultRow| Some((r, self.row(self.first(), point(self.data, r)?)?));
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

    fn row(&self, layer: &str, at: usize) -> Option<&'a ResultRow> {
        let mut own = rows(self.data).filter(|r| r.layer == layer);
        own.find(|r| point(self.data, r) == Some(at))
    }

    /// Points of the programs measured in this state in at least one of these layers, in the plan's order.
    fn points(&self, state: CacheState) -> Vec<usize> {
        let own = rows(self.data).filter(|r| self.layers.contains(&r.layer.as_str()));
        let in_state = own.filter(|r| r.meaning.cache == Some(state));
        group::distinct(in_state.filter_map(|r| point(self.data, r)))
    }

    /// A line for each program in each layer.
    fn table(&self, state: CacheState) -> Option<DataTable> {
        let points = self.points(state);
        if points.is_empty() {
            return None;
        }
        let all = |at: &usize| {
            let of = |layer: &&str| self.row(layer, *at);
            self.layers.iter().filter_map(of).collect::<Vec<_>>()
        };
        let rows: Vec<&ResultRow> = points.iter().flat_map(all).collect();
        let failed = rows.iter().filter(|r| r.trials == 0).filter_map(|r| {
            let why = layermark_model::brief(r.error.as_deref()?);
            Some(words::failed(program(self.data, r), &r.layer, &why))
        });
        let emulated = is_emulated(self.data, self.first());
        Some(DataTable {
            title: words::title(state.word(), emulated).into(),
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
        let Some((layer, point)) = self.data.run.site(&row.layer, &row.label) else {
            return Vec::new();
        };
        let trials = self.data.index.trials(layer, point).into_iter();
        trials.filter_map(|t| Some(cost(t)? / 1e9)).collect()
    }
}

fn rows<'a>(data: &'a Data<'a>) -> impl Iterator<Item = &'a ResultRow> {
    data.results
        .iter()
        .filter(|r| r.meaning.unit == Unit::Launch)
}

/// Index of a row's point.
fn point(data: &Data, row: &ResultRow) -> Option<usize> {
    Some(data.run.site(&row.layer, &row.label)?.1)
}

/// The plan's name of the program. If the plan gives several programs one name, or none, it is the label, which tells
/// them apart, and adds the state of the caches.
fn program<'a>(data: &'a Data, row: &'a ResultRow) -> &'a str {
    let points = &data.run.points;
    let named = point(data, row).and_then(|at| {
        let work = points[at].work?;
        let is_like = |p: &&Point| p.work == Some(work) && p.meaning.cache == row.meaning.cache;
        let alone = points.iter().filter(is_like).count() == 1;
        data.run
            .plan
            .work
            .get(work)
            .filter(|_| alone)?
            .label
            .as_deref()
    });
    named.unwrap_or(&row.label)
}
