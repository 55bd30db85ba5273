//! Checks: reasons to trust the numbers, or not to.

use std::collections::{BTreeMap, BTreeSet};

use layermark_model::{DirectIo, LayerStatus, Point, Run, Target, TrialRecord, flags};
use layermark_stats::{self as stats, MIN_BLOCKS_FOR_CHANGE};

use crate::{
    analysis::{
        data_source, facts,
        index::{Index, cost},
    },
    code_span::{self, code},
    number,
    types::{Control, ResultRow, TrustItem, TrustState},
};

/// The medians tolerate disturbed trials up to this share.
const DISTURBED_TO: f64 = 0.05;
/// Measuring overhead above this share of an operation causes a warning.
const OWN_COST: f64 = 0.05;

/// The input of the checks.
pub struct Evidence<'a> {
    /// The run.
    pub run: &'a Run,
    /// Its trials.
    pub trials: &'a [TrialRecord],
    /// Results of all layers except the control.
    pub results: &'a [ResultRow],
    /// The control.
    pub control: Option<&'a Control>,
    /// The trials by layer, point and block.
    pub index: &'a Index<'a>,
    /// Index of the baseline.
    pub baseline: usize,
}

impl Evidence<'_> {
    /// The baseline's name in a sentence.
    fn baseline_name(&self) -> String {
        code_span::baseline(self.run.baseline())
    }
}

/// All checks, in display order.
pub fn strip(e: &Evidence) -> Vec<TrustItem> {
    let mut items = vec![
        control(e),
        drift(e),
        contamination(e),
        cache(e),
        verified(e.run, e.trials),
        proof(e.run, e.trials),
    ];
    items.extend(family(e));
    items.extend(direct(e));
    items.extend(emulated(e));
    items.push(failures(e));
    items.push(own_cost(e));
    items
}

/// Whether nothing says that the numbers are wrong: the control held, data came back as written, and every layer
/// was proved to be there.
pub fn holds(run: &Run, trials: &[TrialRecord], control: Option<&Control>) -> bool {
    let warned = |item: TrustItem| item.state == TrustState::Warn;
    let control_failed = control.is_some_and(Control::failed);
    !control_failed && !warned(verified(run, trials)) && !warned(proof(run, trials))
}

fn item(id: &str, title: &str, state: TrustState, text: String) -> TrustItem {
    TrustItem {
        id: id.into(),
        title: title.into(),
        state,
        text,
    }
}

/// The family of verdicts that the correction for multiple comparisons covers, if the plan limits
/// it.
fn family(e: &Evidence) -> Option<TrustItem> {
    let labels = || e.run.points.iter().map(|p| p.label.as_str());
    let asked = labels().filter(|l| e.run.plan.confirms(l)).count();
    let rest = labels().count() - asked;
    (rest > 0).then(|| {
        let text = format!(
            "the plan asks a verdict on {} and Holm's correction is over these; the other {rest} have an interval of their own each, and no verdict",
            number::count(asked, "point")
        );
        item("family", "Verdicts", TrustState::Ok, text)
    })
}

fn ok_if(good: bool) -> TrustState {
    if good {
        TrustState::Ok
    } else {
        TrustState::Warn
    }
}

/// Significance level of the control's alarm: one false alarm in a hundred reports.
const CONTROL_ALPHA: f64 = 0.01;
/// Smallest difference of the baseline from itself, as a share, that raises the alarm.
const CONTROL_DELTA: f64 = 0.01;
/// From this factor on, the spread of a baseline's times over the run is reported.
const MOVES: f64 = 2.0;

/// Most points whose interval may exclude 1 by chance (at 1 %).
fn allowed_misses(points: usize) -> usize {
    let n = points as f64;
    (0.05 * n + 2.33 * (0.05 * 0.95 * n).sqrt() + 0.5) as usize
}

fn control(e: &Evidence) -> TrustItem {
    let title = "A/A control";
    match e.control {
        None => {
            let left = e.run.layers.iter().find(|l| l.control);
            let why = left.and_then(|l| l.reason.as_ref());
            let why = why.map_or_else(String::new, |why| format!(": {why}"));
            let name = e.baseline_name();
            let text = format!("{name} was not measured a second time{why}");
            item("control", title, TrustState::None, text)
        }
        Some(c) if c.points == 0 => item("control", title, TrustState::None, c.text.clone()),
        Some(c) => item(
            "control",
            title,
            ok_if(!c.failed() && c.wide == 0),
            c.text.clone(),
        ),
    }
}

impl Control {
    /// Whether the baseline differed from itself by more than chance explains.
    pub fn failed(&self) -> bool {
        self.false_alarms > 0
            || self.points.saturating_sub(self.cover) > allowed_misses(self.points)
    }
}

/// Intervals of the control that reach further from 1 than this many times delta are wide.
const WIDE: f64 = 2.0;
/// Smallest delta for judging what is wide.
const LEAST_DELTA: f64 = 0.05;

/// The control's summary from its rows.
pub fn summarise(results: Vec<ResultRow>, delta: f64, baseline: &str) -> Control {
    let with: Vec<[f64; 2]> = results.iter().filter_map(|r| r.ratio?.interval).collect();
    let cover = with
        .iter()
        .filter(|[low, high]| *low <= 1.0 && *high >= 1.0)
        .count();
    let alarms = results
        .iter()
        .filter(|r| {
            let ratio = r.ratio.map_or(1.0, |e| e.estimate);
            r.p_adjusted.is_some_and(|p| p <= CONTROL_ALPHA)
                && ratio.max(1.0 / ratio) > 1.0 + CONTROL_DELTA
        })
        .count();
    let limit = 1.0 + WIDE * delta.max(LEAST_DELTA);
    let wide = with
        .iter()
        .filter(|[low, high]| *high > limit || *low < 1.0 / limit)
        .count();
    let text = if with.is_empty() {
        format!("too few blocks to say whether {baseline} equals itself")
    } else {
        let (low, high) = with
            .iter()
            .fold((f64::MAX, f64::MIN), |(l, h), i| (l.min(i[0]), h.max(i[1])));
        let range = number::ratio_span([low, high]);
        let held = format!(
            "{baseline} against itself: {cover} of {} intervals hold 1, all within {range}",
            with.len()
        );
        let mut parts = vec![held];
        if alarms > 0 {
            parts.push(format!(
                "{} surely off by more than {}",
                number::count(alarms, "point"),
                number::percent(CONTROL_DELTA)
            ));
        }
        if wide > 0 {
            parts.push(format!(
                "{wide} of {} so wide that a difference of {} would not be seen",
                with.len(),
                number::percent(limit - 1.0)
            ));
        }
        parts.join("; ")
    };
    Control {
        points: with.len(),
        cover,
        false_alarms: alarms,
        wide,
        text,
        results,
    }
}

fn drift(e: &Evidence) -> TrustItem {
    let compared: Vec<&ResultRow> = e.results.iter().filter(|r| r.blocks > 0).collect();
    let looked = compared
        .iter()
        .filter(|r| r.blocks >= MIN_BLOCKS_FOR_CHANGE)
        .count();
    let changed = compared.iter().filter(|r| r.steady == Some(false)).count();
    let (state, text) = if changed > 0 {
        (
            TrustState::Warn,
            format!(
                "{changed} of {looked} ratios changed late in the run: no single number is given for them"
            ),
        )
    } else if looked == 0 {
        (
            TrustState::None,
            format!("changes are looked for from {MIN_BLOCKS_FOR_CHANGE} blocks on"),
        )
    } else {
        (
            TrustState::Ok,
            format!(
                "no late change in the {looked} of {} ratios that have {MIN_BLOCKS_FOR_CHANGE} blocks",
                compared.len()
            ),
        )
    };
    match baseline_moves(e) {
        None => item("drift", "Drift", state, text),
        Some(moves) => item(
            "drift",
            "Drift",
            TrustState::Warn,
            format!("{moves}; {text}"),
        ),
    }
}

/// How the baseline's own times changed during the run, which no ratio shows. A point is reported
/// if nine tenths of its trials spread by a factor of 2, or if they step.
fn baseline_moves(e: &Evidence) -> Option<String> {
    let times = |point: usize| -> Vec<f64> {
        let trials = e.index.trials(e.baseline, point).into_iter();
        trials.filter_map(cost).collect()
    };
    let points = 0..e.run.points.len();
    let all: Vec<Vec<f64>> = points.map(times).collect();
    let long = |t: &Vec<f64>| t.len() >= MIN_BLOCKS_FOR_CHANGE;
    let series: Vec<Vec<f64>> = all.iter().filter(|t| long(t)).cloned().collect();
    let mut steps = stats::change_points_of_many(&series, e.run.seed).into_iter();
    let mut moved: Vec<(f64, String)> = Vec::new();
    for (point, times) in e.run.points.iter().zip(&all) {
        let stepped = long(times) && steps.next().is_some_and(|s| !s.is_empty());
        let ends = stats::quantile(times, 0.05).zip(stats::quantile(times, 0.95));
        let Some((low, high)) = ends.filter(|_| times.len() >= stats::FEWEST_BLOCKS) else {
            continue;
        };
        if stepped || high > MOVES * low {
            let us = [low, high].map(|ns| ns * point.meaning.under_way() / 1e3);
            let words = format!(
                "{} at \u{201c}{}\u{201d}",
                number::time_span(us),
                point.label
            );
            moved.push((high / low, words));
        }
    }
    moved.sort_by(|a, b| b.0.total_cmp(&a.0));
    let count = moved.len();
    let worst: Vec<String> = moved.into_iter().take(3).map(|m| m.1).collect();
    (count > 0).then(|| {
        let rest = count - worst.len();
        let more = if rest > 0 {
            format!(" and {rest} more")
        } else {
            String::new()
        };
        format!(
            "{} itself ran from {}{more}",
            e.baseline_name(),
            worst.join(", from ")
        )
    })
}

fn contamination(e: &Evidence) -> TrustItem {
    let title = "Contamination";
    if e.trials.is_empty() {
        return item(
            "contamination",
            title,
            TrustState::None,
            "no trial was made".into(),
        );
    }
    let (n, written) = (
        flagged(e, flags::CONTAMINATED),
        flagged(e, flags::WRITE_BACK),
    );
    let all = e.trials.len();
    let others = if written > 0 {
        format!("; {written} of {all} while a device wrote data of another layer or program")
    } else {
        String::new()
    };
    let text = format!(
        "{n} of {all} trials while other programs or the hypervisor took more than 10 % of the CPUs{others}"
    );
    item(
        "contamination",
        title,
        ok_if(n.max(written) as f64 <= DISTURBED_TO * all as f64),
        text,
    )
}

fn flagged(e: &Evidence, flag: &str) -> usize {
    e.trials
        .iter()
        .filter(|t| t.flags.iter().any(|f| f == flag))
        .count()
}

fn cache(e: &Evidence) -> TrustItem {
    let title = "Cache state";
    let point = |t: &TrialRecord| e.run.points.get(t.cell.point);
    // The programs of user scripts have been rehearsed, so they should be warm.
    let asked = |t: &&TrialRecord| {
        let is_asked = |p: &Point| p.meaning.cache.is_some() || p.meaning.target == Target::Script;
        point(t).is_some_and(is_asked)
    };
    let all = e.trials.iter().filter(asked).count();
    if all == 0 {
        let text = "no point asks for a cold or warm cache".into();
        return item("cache", title, TrustState::None, text);
    }
    let having = |flag: &str| -> Vec<&TrialRecord> {
        let has = |t: &&TrialRecord| t.flags.iter().any(|f| f == flag);
        e.trials.iter().filter(asked).filter(has).collect()
    };
    let (wrong, unproved) = (having(flags::CACHE), having(flags::CACHE_UNPROVED));
    let faulted = having(flags::MAJOR_FAULTS);
    if wrong.is_empty() && unproved.is_empty() && faulted.is_empty() {
        let text = format!("cold was cold and warm was warm in all {all} trials that ask");
        return item("cache", title, TrustState::Ok, text);
    }
    let mut parts = Vec::new();
    if !wrong.is_empty() || !unproved.is_empty() {
        let proved = all.saturating_sub(wrong.len() + unproved.len());
        parts.push(format!("proved in {proved} of {all} trials that ask"));
    }
    if !unproved.is_empty() {
        let why = why_unproved(e, &unproved);
        parts.push(format!("not proved in {}, in {why}", unproved.len()));
    }
    if !wrong.is_empty() {
        let (n, names) = (wrong.len(), layers_of(e, &wrong));
        parts.push(format!("refuted in {n}, in {names}"));
    }
    let cold = |t: &&TrialRecord| point(t).is_some_and(|p| p.meaning.is_cold());
    if !wrong.is_empty() || unproved.iter().any(cold) {
        let cells = if wrong.is_empty() {
            "a cold result"
        } else {
            "a result"
        };
        parts.push(format!("{cells} where it is most of them is not trusted"));
    }
    if !faulted.is_empty() {
        let (n, names) = (faulted.len(), layers_of(e, &faulted));
        parts.push(format!(
            "{n} of {all} waited for pages that had been warm (major faults), in {names}"
        ));
    }
    let text = parts.join("; ");
    item("cache", title, TrustState::Warn, text)
}

/// Layers whose cache state is not proved, with the reason of each: `` `a` (why) and `b` (why) ``.
fn why_unproved(e: &Evidence, trials: &[&TrialRecord]) -> String {
    let privileged = e.run.machine.privilege == "root";
    let mut reasons: BTreeMap<&str, Vec<&TrialRecord>> = BTreeMap::new();
    for trial in trials {
        let layer = e.run.layers.get(trial.cell.layer);
        let point = e.run.points.get(trial.cell.point);
        let is_cold = point.is_some_and(|p| p.meaning.is_cold());
        let why = layer.map_or("", |l| {
            data_source::why_unproved(&l.facts, is_cold, privileged)
        });
        reasons.entry(why).or_default().push(trial);
    }
    let each = reasons.iter();
    let each = each.map(|(why, trials)| format!("{} ({why})", layers_of(e, trials)));
    number::list(&each.collect::<Vec<_>>())
}

fn layers_of(e: &Evidence, trials: &[&TrialRecord]) -> String {
    let layers: BTreeSet<usize> = trials.iter().map(|t| t.cell.layer).collect();
    let name = |l: usize| Some(code(&e.run.layers.get(l)?.name));
    number::list(&layers.into_iter().filter_map(name).collect::<Vec<_>>())
}

fn verified(run: &Run, trials: &[TrialRecord]) -> TrustItem {
    let checked = |scripts: bool| {
        let target = |t: &TrialRecord| run.points.get(t.cell.point).map(|p| p.meaning.target);
        let trials = trials.iter();
        trials
            .filter(|t| matches!(target(t), Some(Target::Script | Target::Step)) == scripts)
            .filter_map(|t| t.trial.as_ref()?.verified)
            .fold((0, 0), |(r, b), v| (r + v.records, b + v.bad))
    };
    let ((records, bad), (results, _)): ((u64, u64), (u64, u64)) = (checked(false), checked(true));
    let (state, text) = match (records, bad) {
        (0, _) if results == 0 => (TrustState::None, "not asked for: add --verify".into()),
        (_, 0) => {
            let read = (records > 0).then(|| format!("{records} records read back as written"));
            let is_step = |p: &Point| p.meaning.target == Target::Step;
            let whose = if run.points.iter().any(is_step) {
                "steps"
            } else {
                "jobs"
            };
            let right = (results > 0).then(|| format!("{results} results of {whose} were right"));
            let parts: Vec<String> = read.into_iter().chain(right).collect();
            (TrustState::Ok, parts.join("; "))
        }
        _ => (
            TrustState::Warn,
            format!("{bad} of {records} records came back wrong"),
        ),
    };
    item("verified", "Data verified", state, text)
}

fn proof(run: &Run, trials: &[TrialRecord]) -> TrustItem {
    let ready: Vec<_> = run
        .layers
        .iter()
        .filter(|l| l.status == LayerStatus::Ready)
        .collect();
    let tried = |layer: usize| trials.iter().any(|t| t.cell.layer == layer);
    let lost: Vec<String> = run
        .layers
        .iter()
        .enumerate()
        .filter(|(at, l)| l.status == LayerStatus::Failed && tried(*at))
        .map(|(_, l)| code(&l.name))
        .collect();
    let bare: Vec<String> = ready
        .iter()
        .filter(|l| l.facts.mounts.is_empty())
        .map(|l| code(&l.name))
        .collect();
    let title = "Proof of layer";
    if !lost.is_empty() {
        let text = format!("lost while it was measured: {}", number::list(&lost));
        return item("proof", title, TrustState::Warn, text);
    }
    if ready.is_empty() {
        return item(
            "proof",
            title,
            TrustState::None,
            "no layer was set up".into(),
        );
    }
    if !bare.is_empty() {
        return item(
            "proof",
            title,
            TrustState::Warn,
            format!("nothing proves where {} ran", number::list(&bare)),
        );
    }
    let baseline = code_span::baseline(run.baseline());
    let below = facts::physical(&ready[0].facts);
    let apart: Vec<String> = ready
        .iter()
        .filter(|l| facts::physical(&l.facts) != below)
        .map(|l| code(&l.name))
        .collect();
    let natively = code_span::in_baseline(&baseline);
    // As many as everywhere else: the baseline and the control are not counted.
    let other = if natively == "natively" { "" } else { "other " };
    let mut text = match ready.iter().skip(1).filter(|l| !l.control).count() {
        0 => format!("the mount below the probe was read {natively}"),
        n => format!(
            "the mount below the probe was read {natively} and in {}",
            number::count(n, &format!("{other}layer"))
        ),
    };
    if !apart.is_empty() {
        text = format!(
            "{text}; not on {baseline}'s device: {}",
            number::list(&apart)
        );
    }
    item("proof", title, TrustState::Ok, text)
}

/// Shown only if a layer is a guest on an emulated CPU.
fn emulated(e: &Evidence) -> Option<TrustItem> {
    let of = |emulated: bool| -> Vec<String> {
        let layers = e.run.layers.iter().filter(|l| l.facts.guest.is_some());
        layers
            .filter(|l| l.facts.emulated_cpu() == emulated)
            .map(|l| code(&l.name))
            .collect()
    };
    let (slow, real) = (of(true), of(false));
    if slow.is_empty() {
        return None;
    }
    let name = e.baseline_name();
    let whose = match e.run.layers.get(e.baseline) {
        Some(l) if l.facts.emulated_cpu() => {
            format!("the ratio of any other layer to {name} is")
        }
        _ => format!("their ratio to {name} is"),
    };
    let mut text = format!(
        "{} ran on an emulated CPU: compare these with each other, {whose} mostly the emulation's",
        number::list(&slow)
    );
    if !real.is_empty() {
        text = format!("{text}; do not compare them with {}", number::list(&real));
    }
    Some(item("emulated", "Emulated CPU", TrustState::Warn, text))
}

/// Shown only if `O_DIRECT` was requested.
fn direct(e: &Evidence) -> Option<TrustItem> {
    let outcomes: Vec<DirectIo> = e
        .trials
        .iter()
        .filter_map(|t| t.trial.as_ref()?.direct)
        .collect();
    let honoured = outcomes
        .iter()
        .filter(|d| **d == DirectIo::Honoured)
        .count();
    let text = format!(
        "honoured in {honoured} of {} trials that ask",
        outcomes.len()
    );
    (!outcomes.is_empty()).then(|| {
        item(
            "direct",
            "O_DIRECT",
            ok_if(honoured == outcomes.len()),
            text,
        )
    })
}

fn failures(e: &Evidence) -> TrustItem {
    let failed: Vec<&TrialRecord> = e.trials.iter().filter(|t| t.trial.is_none()).collect();
    let first = failed.iter().find_map(|t| {
        let layer = &e.run.layers.get(t.cell.layer)?.name;
        let point = &e.run.points.get(t.cell.point)?.label;
        let why = layermark_model::brief(t.error.as_deref()?);
        Some(format!(
            ", the first in {} at \u{201c}{point}\u{201d}: {why}",
            code(layer)
        ))
    });
    let state = if e.trials.is_empty() {
        TrustState::None
    } else {
        ok_if(failed.is_empty())
    };
    item(
        "failures",
        "Trials",
        state,
        format!(
            "{} made, {} failed{}",
            number::count(e.trials.len(), "trial"),
            failed.len(),
            first.unwrap_or_default()
        ),
    )
}

fn own_cost(e: &Evidence) -> TrustItem {
    let title = "Own cost";
    let shares = e.results.iter().filter_map(|row| {
        let layer = e.run.layers.iter().find(|l| l.name == row.layer)?;
        let share = layer.self_test.loop_ns / 1e3 / row.op_us?;
        share.is_finite().then_some((share, row))
    });
    let worst = shares.max_by(|a, b| a.0.total_cmp(&b.0));
    let Some((share, row)) = worst.filter(|(s, _)| *s > 0.0) else {
        return item(
            "own",
            title,
            TrustState::None,
            "the cost of measuring is not known".into(),
        );
    };
    let text = format!(
        "measuring is at most {} of an operation ({} in {})",
        number::percent(share),
        row.label,
        code(&row.layer)
    );
    item("own", title, ok_if(share <= OWN_COST), text)
}

#[cfg(test)]
mod tests {
    use super::allowed_misses;

    #[test]
    fn one_miss_in_twelve_is_chance_and_three_are_not() {
        assert_eq!(allowed_misses(1), 1);
        assert_eq!(allowed_misses(12), 2);
        assert_eq!(allowed_misses(100), 10);
    }
}
