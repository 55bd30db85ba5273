//! Live view of a running run, read from the store like any other viewer reads it.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use indicatif::HumanDuration;
use layermark_model::{
    FleetOfRun, Run, RunStatus, StoreOption, TrialRecord, parse_duration, plain,
};
use layermark_report::{Estimate, Report, ResultRow, SoFar, Verdict, ratio_with, render};
use maud::{Markup, html};
use rustix::time::{ClockId, clock_gettime};

use crate::commands::{history, stored};

/// Shortest time between two views of a run.
const PACE: Duration = Duration::from_secs(2);
/// Each view may take at most 1/20 of one CPU: the more trials, the longer it takes. Time in which
/// it waits for the disk or for a CPU is not its own, so a busy machine shows no older views.
const SHARE: u32 = 20;
/// Most hosts of a fleet in a view.
const MOST_HOSTS: usize = 100;
/// How many runs keep their last view.
const KEPT: usize = 8;

/// The live views of watched runs. All viewers share each view, and without viewers none is made.
#[derive(Default)]
pub struct Live {
    runs: Mutex<BTreeMap<String, Watched>>,
    viewers: AtomicUsize,
    /// When the last viewer left.
    left: Mutex<Option<Instant>>,
    /// Whether this process's own run is over.
    ended: AtomicBool,
    /// Whether this process is about to end.
    leaves: AtomicBool,
}

/// A run with viewers.
struct Watched {
    view: Arc<View>,
    log: Log,
}

/// One view of a run.
pub struct View {
    /// The part of the page that changes.
    pub html: String,
    /// Whether this is the last view.
    pub over: bool,
    /// When the next view is due.
    due: Instant,
}

impl View {
    /// Time until the next view is due.
    pub fn rest(&self) -> Duration {
        self.due.saturating_duration_since(Instant::now())
    }
}

impl Live {
    /// The last view of a run, or a new one if it is due. `load` reads the run.
    pub fn look<E>(
        &self,
        id: &str,
        load: impl FnOnce() -> Result<(Run, Vec<TrialRecord>), E>,
    ) -> Result<Arc<View>, E> {
        // Held while the page is made, so that concurrent requests share one view.
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        // After this process's run has ended, its last view is due at once.
        let last = |view: &View| self.ended.load(Ordering::SeqCst) && !view.over;
        let kept = |seen: &&Watched| !seen.view.rest().is_zero() && !last(&seen.view);
        if let Some(seen) = runs.get(id).filter(kept) {
            return Ok(Arc::clone(&seen.view));
        }
        let (begun, before) = (Instant::now(), cpu_time());
        let (run, mut trials) = load()?;
        without_latency(&mut trials);
        let mut log = runs.remove(id).map(|seen| seen.log).unwrap_or_default();
        let html = fragment(&run, &trials, &mut log).into_string();
        // Other threads of this process may work as well.
        let used = cpu_time().saturating_sub(before).min(begun.elapsed());
        let view = Arc::new(View {
            html,
            over: run.status != RunStatus::Running,
            due: Instant::now() + PACE.max(used * SHARE),
        });
        if runs.len() >= KEPT {
            runs.pop_first();
        }
        let seen = Arc::clone(&view);
        runs.insert(id.to_owned(), Watched { view, log });
        Ok(seen)
    }

    /// Records that this process's run is over and stored.
    pub fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
    }

    /// Records that this process is about to end.
    pub fn leave(&self) {
        self.leaves.store(true, Ordering::SeqCst);
    }

    /// Whether this process is about to end.
    pub fn is_left(&self) -> bool {
        self.leaves.load(Ordering::SeqCst)
    }

    /// Counts a viewer until it is dropped.
    pub fn viewer(self: &Arc<Self>) -> Viewer {
        self.viewers.fetch_add(1, Ordering::SeqCst);
        Viewer(Arc::clone(self))
    }

    /// Whether there is a viewer now, or was less than `lately` ago.
    pub fn is_watched(&self, lately: Duration) -> bool {
        let left = *self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.viewers.load(Ordering::SeqCst) > 0;
        now || left.is_some_and(|at| at.elapsed() < lately)
    }
}

/// A viewer: a browser that watches a run or waits for a page.
pub struct Viewer(Arc<Live>);

impl Drop for Viewer {
    fn drop(&mut self) {
        *self.0.left.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        self.0.viewers.fetch_sub(1, Ordering::SeqCst);
    }
}

/// CPU time of this process: rows of a report are made by several threads.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// Drops the histograms, which take most of a report's time. No verdict or ratio depends on them.
fn without_latency(trials: &mut [TrialRecord]) {
    for trial in trials.iter_mut().filter_map(|t| t.trial.as_mut()) {
        trial.latency = None;
    }
}

/// Verdicts and ratios, by layer and point.
type Words = BTreeMap<[String; 2], (Verdict, Option<Estimate>)>;

/// Verdicts in the order in which they were reached.
#[derive(Default)]
struct Log {
    /// What may be said while the run goes on.
    so_far: SoFar,
    /// The rows of a report of what the last look saw.
    at_look: Vec<ResultRow>,
    /// Latest verdict by layer and point.
    known: BTreeMap<[String; 2], Verdict>,
    lines: Vec<String>,
}

impl Log {
    /// Takes the looks that are due, also those that were due while nobody viewed the page, and adds their words.
    fn look(&mut self, run: &Run, trials: &[TrialRecord], complete: usize) {
        let mut any = false;
        while self.so_far.next_look(run, trials, complete) {
            any = true;
            let cells = self.so_far.cells().iter();
            let words = cells.map(|c| ([c.layer.clone(), c.point.clone()], (c.verdict, c.ratio)));
            let words: Words = words.collect();
            self.add(&words, self.so_far.blocks().unwrap_or(0));
        }
        if any {
            self.at_look = Report::build(run, &self.so_far.seen(trials)).results;
        }
    }

    /// Adds the verdicts of a report of so many blocks: of a run that is over, or of a fleet.
    fn end(&mut self, report: &Report, blocks: usize) {
        let decided = report.results.iter().filter(|row| row.verdict.is_decided());
        let words = decided.map(|row| {
            (
                [row.layer.clone(), row.label.clone()],
                (row.verdict, row.ratio),
            )
        });
        let words: Words = words.collect();
        self.add(&words, blocks);
    }

    /// Adds the verdicts that are new or have changed since the last ones, by layer and point.
    fn add(&mut self, words: &Words, blocks: usize) {
        for ([layer, label], (verdict, ratio)) in words {
            let cell = [layer.clone(), label.clone()];
            if self.known.insert(cell, *verdict) == Some(*verdict) {
                continue;
            }
            let ratio = ratio.map(|r| format!(", {}", ratio_with(&r)));
            let (word, ratio) = (verdict.word(), ratio.unwrap_or_default());
            let said = format!("{layer} at \"{label}\" is {word}{ratio}");
            self.lines.push(format!("By block {blocks}: {said}"));
        }
        let lines = &mut self.lines;
        self.known.retain(|cell, _| {
            let stays = words.contains_key(cell);
            if !stays {
                let [layer, label] = cell;
                lines.push(format!(
                    "By block {blocks}: {layer} at \"{label}\" is open again"
                ));
            }
            stays
        });
    }
}

/// The part of the page that changes: progress, matrix, and findings.
fn fragment(run: &Run, trials: &[TrialRecord], log: &mut Log) -> Markup {
    let mut report = stored::build(run, trials);
    let block = trials.iter().map(|t| t.cell.block + 1).max().unwrap_or(0);
    if run.fleet.is_none() {
        // The last block is not complete.
        log.look(run, trials, block.saturating_sub(1) as usize);
    }
    if run.fleet.is_some() || run.status != RunStatus::Running {
        log.end(&report, block as usize);
    } else {
        report.hold_back(&log.so_far, &log.at_look);
    }
    html! {
        (progress(run, trials, &report, block))
        @if let Some(fleet) = &run.fleet { (hosts(fleet, run.status, trials)) }
        (render::live_matrix(&report))
        section.findings aria-label="Findings so far" {
            div {
                h2 { "Decided so far" }
                @if log.lines.is_empty() { p.hint { "Nothing yet." } }
                @if run.status == RunStatus::Running {
                    p.hint { @if run.fleet.is_none() { (said_when(&log.so_far)) " " } "More blocks can change it." }
                }
                ul.log { @for line in log.lines.iter().rev() { li { (line) } } }
            }
            @if !report.left_out.is_empty() {
                div {
                    h2 { "Left out" }
                    ul.log {
                        @for left in &report.left_out {
                            li { code { (left.layer) } @if let Some(point) = &left.point { " at \"" (point) "\"" } ": " (left.reason) }
                        }
                    }
                }
            }
        }
    }
}

/// When words are given while a run goes on.
fn said_when(so_far: &SoFar) -> String {
    match so_far.blocks() {
        None => "While a run goes on, words are given from 8 blocks on.".into(),
        Some(blocks) => format!("The words are those after {blocks} blocks."),
    }
}

/// The hosts of a fleet: what each has done so far, and which are lost.
fn hosts(fleet: &FleetOfRun, status: RunStatus, trials: &[TrialRecord]) -> Markup {
    let mut done = vec![[0_usize; 2]; fleet.hosts.len()];
    for trial in trials {
        let of = trial.host.and_then(|of| done.get_mut(of.host));
        if let Some(of) = of {
            of[usize::from(trial.error.is_some())] += 1;
        }
    }
    html! {
        section.hosts aria-label="Hosts" {
            h2 { "Hosts" }
            div.scroll tabindex="0" role="region" aria-label="Hosts" {
                table {
                    thead { tr { th { "host" } th { "trials" } th { "failed" } th { "state" } } }
                    tbody {
                        @for (host, [good, bad]) in fleet.hosts.iter().zip(&done).take(MOST_HOSTS) {
                            tr {
                                td { code { (plain(&host.name)) } }
                                td { (good + bad) }
                                td { (bad) }
                                td {
                                    @match &host.lost {
                                        Some(lost) => { "lost while " (plain(&lost.during)) ": " (plain(&lost.why)) }
                                        None if status == RunStatus::Running => "takes part",
                                        None => "took part",
                                    }
                                }
                            }
                        }
                    }
                }
            }
            @if fleet.hosts.len() > MOST_HOSTS { p.hint { (fleet.hosts.len() - MOST_HOSTS) " more hosts are in the report." } }
        }
    }
}

fn progress(run: &Run, trials: &[TrialRecord], report: &Report, block: u32) -> Markup {
    if run.status != RunStatus::Running {
        let again = match run.status {
            RunStatus::Done => None,
            // Others may write to a store that is not the usual one.
            _ => Some(stored::go_on(run, run.store != StoreOption::Usual)),
        };
        return html! {
            p.state {
                "The run is " b { (history::status(run.status)) } ": " a href={ "/run/" (run.id) } { "its report" } "."
                @if let Some(again) = again { " To go on: " code { (again) } }
            }
        };
    }
    let of = run.plan.blocks.map(|n| format!(" of {n}"));
    let asked = report.results.iter().filter(|r| {
        let own = [Verdict::Baseline, Verdict::Descriptive];
        !own.contains(&r.verdict)
    });
    let decided = asked.clone().filter(|r| r.verdict.is_decided());
    let left = left(run, trials, block);
    let share = left.map(|(gone, left)| gone.as_secs_f64() / (gone + left).as_secs_f64().max(1e-9));
    html! {
        p.state {
            @if trials.is_empty() { "Setting up the layers" } @else { "Block " (block) (of.unwrap_or_default()) }
            " \u{b7} " (trials.len()) " trials \u{b7} " (decided.count()) " of " (asked.count()) " results decided"
            @if let Some((_, left)) = left { " \u{b7} about " (HumanDuration(left.max(Duration::from_secs(1)))) " left" }
        }
        @if let Some(share) = share { progress max="1" value=(format!("{share:.3}")) aria-label="Progress" {} }
    }
}

/// Time that trials have taken, and the time left: of the budget, or for the requested blocks.
fn left(run: &Run, trials: &[TrialRecord], block: u32) -> Option<(Duration, Duration)> {
    let first = trials.first()?.at_ms;
    let gone = Duration::from_millis(trials.last()?.at_ms.saturating_sub(first));
    if let Some(budget) = run.plan.budget.as_deref() {
        return Some((gone, parse_duration(budget).ok()?.saturating_sub(gone)));
    }
    // On average, the current block is half done.
    let (made, to_come) = (
        f64::from(block) - 0.5,
        run.plan.blocks?.saturating_sub(block),
    );
    Some((gone, gone.mul_f64((f64::from(to_come) + 0.5) / made)))
}

#[cfg(test)]
mod tests;
