//! Whether locks exclude two clients: what both sides of a layer's directory have shown.

use std::collections::BTreeMap;

use layermark_model::{Run, Target, Trial};

use crate::{
    facts::{index::Index, storage},
    types::{LockReason, LockRow, LockVerdict, ResultRow},
    words::{NO_NAMES, Words},
};

/// A row for each kind of lock in each layer that both sides were asked about, or whose locks a program or another
/// machine keeps.
pub fn rows(run: &Run, index: &Index, results: &[ResultRow]) -> Vec<LockRow> {
    let mut kinds: BTreeMap<(usize, &str), Vec<&ResultRow>> = BTreeMap::new();
    for row in results {
        let is_lock = matches!(row.meaning.target, Target::Lock | Target::SharedLock);
        if let Some((layer, _)) = run.site(&row.layer, &row.label).filter(|_| is_lock) {
            let kind = (layer, row.meaning.operation.as_str());
            kinds.entry(kind).or_default().push(row);
        }
    }
    let of = |((layer, kind), rows): ((usize, &str), Vec<&ResultRow>)| {
        let (both, one): (Vec<&ResultRow>, Vec<&ResultRow>) = rows
            .into_iter()
            .partition(|r| r.meaning.target == Target::SharedLock);
        let told = Told::of(run, index, &both);
        let is_served = storage::is_served(&run.layers[layer].facts);
        // Two processes of one client prove nothing about other clients of a server.
        let is_one = is_served && run.layers[layer].facts.one_client();
        let is_proved = told.tried() > 0 && (!is_one || told.taken > 0);
        let why = if is_proved {
            told.why()
        } else {
            why_not(run, layer, kind, &both)
        };
        (is_proved || is_served || !both.is_empty()).then(|| LockRow {
            layer: run.layers[layer].name.clone(),
            kind: kind.to_owned(),
            verdict: if is_proved {
                told.verdict()
            } else {
                LockVerdict::NotProved
            },
            because: why.words(&NO_NAMES).into(),
            why,
            tried: told.tried(),
            excluded: told.excluded,
            longest_us: told.longest_us,
            evidence: if both.is_empty() { one } else { both }
                .iter()
                .map(|r| r.id.clone())
                .collect(),
        })
    };
    kinds.into_iter().filter_map(of).collect()
}

/// Why the other side of a layer did not try: its error, or why the points were left out.
fn why_not(run: &Run, layer: usize, kind: &str, both: &[&ResultRow]) -> LockReason {
    if let Some(error) = both.iter().find_map(|r| r.error.as_deref()) {
        return LockReason::Stored(layermark_model::brief(error));
    }
    let asks = |p: &&layermark_model::Point| {
        p.meaning.target == Target::SharedLock && p.meaning.operation == kind
    };
    let skips = &run.layers[layer].skips;
    let mut points = run.points.iter().filter(asks);
    let why = points.find_map(|p| skips.get(&p.label).cloned());
    why.map_or(LockReason::OneClient, LockReason::Stored)
}

/// What the trials of a kind in a layer have counted.
#[derive(Default)]
struct Told {
    excluded: u64,
    taken: u64,
    longest_us: Option<f64>,
}

impl Told {
    fn of(run: &Run, index: &Index, rows: &[&ResultRow]) -> Self {
        let mut all = Self::default();
        for row in rows {
            let Some((layer, point)) = run.site(&row.layer, &row.label) else {
                continue;
            };
            let trials = index.trials(layer, point);
            trials
                .iter()
                .filter_map(|r| r.trial.as_ref())
                .for_each(|trial| all.add(trial));
        }
        all
    }

    fn add(&mut self, trial: &Trial) {
        let number = |name: &str| trial.figures.number(name);
        let counted = |name: &str| number(name).unwrap_or_default() as u64;
        self.excluded += counted("seen");
        self.taken += counted("absent");
        let longest = number("longest_ns").map(|ns| ns / 1e3);
        self.longest_us = self.longest_us.into_iter().chain(longest).reduce(f64::max);
    }

    fn tried(&self) -> u64 {
        self.excluded + self.taken
    }

    fn verdict(&self) -> LockVerdict {
        match (self.excluded, self.taken) {
            (0, 0) => LockVerdict::NotProved,
            (_, 0) => LockVerdict::Excludes,
            _ => LockVerdict::DoesNotExclude,
        }
    }

    fn why(&self) -> LockReason {
        match self.taken {
            0 => LockReason::Refused {
                tried: self.tried(),
                longest_us: self.longest_us,
            },
            taken => LockReason::Took {
                taken,
                tried: self.tried(),
            },
        }
    }
}
