//! Layers that could not be set up or did not fit the budget, and points without a number.

use layermark_model::{BASELINE, LayerRun, LayerStatus, Point, Run, RunStatus, StoreOption};

use crate::facts::index::Index;

/// Requested work that was not measured.
#[derive(Debug)]
pub struct NotMeasured<'a> {
    /// The layer.
    pub layer: &'a LayerRun,
    /// The point's label; absent for the whole layer.
    pub point: Option<&'a str>,
    /// The reason.
    pub reason: Reason<'a>,
}

/// Why work was not measured.
#[derive(Debug)]
pub enum Reason<'a> {
    /// As the layer, its probe or its trial reported it.
    Reported(&'a str),
    /// The layer could not be set up, and did not say why.
    NotSetUp,
    /// Its trials failed, and did not say why.
    Failed,
    /// It changes data, and the layer is read-only.
    ReadOnly,
    /// It wants a cold cache, and the layer lies in memory.
    NeverCold,
    /// The baseline cannot do it.
    OfBaseline(Box<Self>),
    /// No other layer does it.
    NobodyElse,
    /// The budget was spent before.
    Budget,
    /// The run ended before.
    Ended,
}

/// What to do about a layer that was not measured.
#[derive(Debug)]
pub struct Hint<'a> {
    /// As it is stored.
    pub own: Option<&'a str>,
    /// A budget that would be enough, seconds.
    pub enough_s: Option<u64>,
    /// The run.
    pub run: &'a str,
    /// How its command names it.
    pub store: &'a StoreOption,
}

/// `None` if nothing is known to help.
pub fn hint<'a>(run: &'a Run, layer: &'a LayerRun) -> Option<Hint<'a>> {
    let is_known = layer.hint.is_some() || layer.enough_s.is_some();
    is_known.then(|| Hint {
        own: layer.hint.as_deref(),
        enough_s: layer.enough_s,
        run: &run.id,
        store: &run.store,
    })
}

/// All of a run.
pub fn not_measured<'a>(run: &'a Run, index: &Index<'a>) -> Vec<NotMeasured<'a>> {
    let mut left = Vec::new();
    let begun = (0..run.layers.len())
        .any(|l| (0..run.points.len()).any(|p| !index.trials(l, p).is_empty()));
    for (number, layer) in run.layers.iter().enumerate() {
        if layer.status != LayerStatus::Ready {
            let reason = layer.reason.as_deref();
            left.push(NotMeasured {
                layer,
                point: None,
                reason: reason.map_or(Reason::NotSetUp, Reason::Reported),
            });
            continue;
        }
        let points = run.points.iter().enumerate();
        for (at, point) in points.filter(|(at, _)| index.trials(number, *at).is_empty()) {
            if let Some(reason) = why(run, index, (number, at), begun) {
                left.push(NotMeasured {
                    layer,
                    point: Some(&point.label),
                    reason,
                });
            }
        }
    }
    left
}

/// Why a layer that is ready has no number at a point. `None`: it may still come.
fn why<'a>(
    run: &'a Run,
    index: &Index<'a>,
    (layer, at): (usize, usize),
    begun: bool,
) -> Option<Reason<'a>> {
    let point = &run.points[at];
    let failed = index.failures(layer, at).last().map(|record| {
        let error = record.error.as_deref();
        error.map_or(Reason::Failed, Reason::Reported)
    });
    let of_baseline = run.layers.get(BASELINE).and_then(|l| cannot(l, point));
    let of_baseline = of_baseline.map(|why| Reason::OfBaseline(Box::new(why)));
    let ended = run.status != RunStatus::Running;
    let known = failed.or(cannot(&run.layers[layer], point)).or(of_baseline);
    match known {
        Some(reason) => Some(reason),
        None if nobody_else(run, layer, &point.label) => Some(Reason::NobodyElse),
        None if begun && run.cut.is_some() => Some(Reason::Budget),
        None => (begun && ended).then_some(Reason::Ended),
    }
}

/// Why a layer cannot do a point, if that was known before it was tried.
fn cannot<'a>(layer: &'a LayerRun, point: &Point) -> Option<Reason<'a>> {
    let skipped = layer.skips.get(&point.label);
    let read_only = layer.read_only && point.meaning.changes;
    let cold = layer.facts.in_memory() && point.meaning.is_cold();
    skipped
        .map(|why| Reason::Reported(why))
        .or(read_only.then_some(Reason::ReadOnly))
        .or(cold.then_some(Reason::NeverCold))
}

/// Whether all layers except one leave a point out.
fn nobody_else(run: &Run, layer: usize, label: &str) -> bool {
    let mut others = (0..run.layers.len()).filter(|l| *l != layer).peekable();
    others.peek().is_some() && others.all(|l| run.layers[l].skips.contains_key(label))
}
