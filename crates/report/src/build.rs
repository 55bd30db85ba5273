//! Builds a report from a run and its trials. Pure: the same input gives the same report.

use std::borrow::Cow;

use layermark_model::{
    BASELINE, ClockTime, Cost, Facts, FleetRun, LayerRun, LayerStatus, Ledger, Run, RunStatus,
    StoreOption, TrialRecord,
};

use crate::{
    facts::{
        self, alternatives,
        causes::{self, CausesOf},
        cost, estimate_checks, figures, forecast,
        index::{self, Index},
        iops, launch, locks, power_cuts, recommend,
        results::{self, Placed},
        scaling, storage, waiting,
    },
    plain,
    sentences::{self, Sentences},
    statements::{
        Selection,
        checks::{AgainstItself, CheckedRun},
        fidelity,
        left_out::{self, NotMeasured},
        programs, sequences,
    },
    studies,
    types::{
        self, Cause, Control, FleetFound, LayerReport, LeftOut, Report, Reproduce, ResultRow,
        SCHEMA, Section, TrialRow, TrustItem, TrustState, TrustWord, Trusted,
    },
    words::{Names, Words, commands},
};

impl Report {
    /// Builds the report of a run, finished or not, from its trials so far.
    pub fn build(run: &Run, trials: &[TrialRecord]) -> Self {
        let index = Index::new(run, trials);
        let baseline = BASELINE;
        let (controls, rows): (Vec<Placed>, Vec<Placed>) = results::rows(run, &index, baseline)
            .into_iter()
            .partition(|(_, layer, _)| run.layers[*layer].control);
        let results = all_rows(run, baseline, rows);
        let control = control(run, controls.into_iter().map(|placed| placed.2).collect());
        let trust = sentences::checks(&CheckedRun {
            run,
            trials,
            results: &results,
            control: control.as_ref(),
            index: &index,
            baseline,
        });
        let control_failed = control.as_ref().is_some_and(Control::failed);
        let alternatives = alternatives::rows(run, &index, &results);
        let cost = cost::rows(run, &index, baseline, &results);
        let buffer = recommend::rows(run, &index, &results);
        let mut study = studies::build(&studies::Data {
            run,
            index: &index,
            baseline,
            results: &results,
            cost: &cost,
            buffer: &buffer,
        });
        let locks = locks::rows(run, &index, &results);
        let fleet = FleetRun::of(run, trials).map(|of| FleetFound::of(&of));
        let selection = Selection {
            run,
            results: &results,
            alternatives: &alternatives,
            locks: &locks,
            study: answer_of(study.as_ref(), fleet.as_ref()),
        };
        let said = Sentences::of(&selection, trials, &index, control_failed);
        let forecast = forecast::of(run, &index, &results);
        if let Some(study) = &mut study {
            let table = crate::views::forecast::beside(run, study, &forecast, &results);
            study.tables.extend(table);
        }
        let mut advice = said.advice;
        advice.extend(forecast::advice(run, &forecast, &results));
        let iops = iops::rows(run, &index, &results);
        // Causes and the store are not texts and are not read back.
        let causes: Vec<Vec<Cause>> = results.iter().map(|r| r.causes.clone()).collect();
        let mut report = plain::texts(Self {
            schema: SCHEMA.into(),
            generated_by: generated_by(),
            run_version: run.version.clone(),
            run: run.id.clone(),
            label: run.plan.name.clone(),
            about: run.plan.about.clone(),
            status: run.status,
            started: timestamp(run.started_ms),
            ended: run.ended_ms.map(timestamp),
            seed: run.seed,
            dir: run.dir.clone(),
            machine: run.machine.clone(),
            delta: run.plan.delta,
            level: facts::LEVEL,
            headline: said.headline,
            caveats: said.caveats,
            in_short: said.in_short,
            findings: said.findings,
            verdicts: said.verdicts,
            trusted: None,
            trust,
            cost,
            buffer,
            study,
            advice,
            forecast,
            depth_curves: iops::curves(run, &index, &iops, &results),
            iops,
            figures: figures::groups(run, &index, &results),
            scaling: scaling::rows(run, &index, &results),
            left_out: left_out(run, &index),
            alternatives,
            estimate_checks: estimate_checks::rows(run, &results),
            locks,
            power_cuts: power_cuts::of(run),
            program_cuts: programs::cuts(run),
            sequence_cuts: sequences::cuts(run),
            sequence_sample: sequences::sample(run),
            fleet,
            series: launch::series(run, &index, baseline, &results),
            control,
            layers: layers(run, baseline),
            reproduce: reproduce(run),
            fidelity: fidelity(run),
            trials: trial_rows(run, trials),
            beside: Vec::new(),
            compared: None,
            gates: Vec::new(),
            results,
            store: StoreOption::default(),
        });
        report.complete(run, causes);
        report
    }

    /// Adds what is not text, and what follows from the rest.
    fn complete(&mut self, run: &Run, causes: Vec<Vec<Cause>>) {
        self.store = run.store.clone();
        for (row, causes) in self.results.iter_mut().zip(causes) {
            row.causes = causes;
        }
        self.trusted = self.believed();
    }

    /// Whether no check found the numbers wrong: the controls held, data was read back as written,
    /// and every layer was proved to be in place.
    pub fn trustworthy(&self) -> bool {
        self.distrust().is_none()
    }

    /// Whether to believe the numbers, or else what was found in place of them; `None` where there is nothing to believe.
    fn believed(&self) -> Option<Trusted> {
        let warned = self.trust.iter().any(|t| t.state == TrustState::Warn);
        let reason = self.distrust().map(Cow::into_owned);
        let word = match (&reason, warned) {
            (Some(_), _) => TrustWord::No,
            (None, true) => TrustWord::WithCare,
            (None, false) => TrustWord::Yes,
        };
        // Power cuts without a result at a point are not believed either if their controls are wrong.
        (!self.results.is_empty() || reason.is_some()).then_some(Trusted { word, reason })
    }

    /// Why the numbers are not trusted.
    pub fn distrust(&self) -> Option<Cow<'_, str>> {
        distrust(self.control.as_ref(), self.controls_failed(), &self.trust)
    }
}

/// The answer of the study that the plan repeats, or that of a fleet.
fn answer_of<'a>(study: Option<&'a Section>, fleet: Option<&'a FleetFound>) -> Option<&'a str> {
    let study = study.and_then(|study| study.headline.as_deref());
    study.or_else(|| Some(fleet?.answer.as_str()))
}

/// Whether the numbers of a run are trusted, without its report.
pub fn trustworthy(run: &Run, trials: &[TrialRecord], control: Option<&Control>) -> bool {
    let (trials_of_cuts, of_sequences) = (power_cuts::of(run), sequences::cuts(run));
    let fault = power_cuts::control_fault(&trials_of_cuts, &of_sequences);
    let names = Names {
        baseline: run.baseline(),
    };
    let fault = fault.map(|fault| fault.words(&names).into());
    distrust(control, fault, &sentences::vital_checks(run, trials)).is_none()
}

/// Why numbers are not trusted: by the baseline against itself, what is wrong with the controls of power cuts, or a check.
fn distrust<'a>(
    control: Option<&'a Control>,
    of_power_cuts: Option<String>,
    checks: &'a [TrustItem],
) -> Option<Cow<'a, str>> {
    let vital = ["verified", "proof"];
    let warned = |t: &&TrustItem| t.state == TrustState::Warn && vital.contains(&t.id.as_str());
    let control = control.filter(|control| control.failed());
    let control = control.map(|control| Cow::from(&control.text));
    let control = control.or_else(|| of_power_cuts.map(Cow::from));
    control.or_else(|| Some(Cow::from(&checks.iter().find(warned)?.text)))
}

/// The program and version, as written in every format.
pub fn generated_by() -> String {
    format!("layermark {}", env!("CARGO_PKG_VERSION"))
}

fn timestamp(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms)
        .map(|t| format!("{t:.0}"))
        .unwrap_or_default()
}

/// Rows of every layer except the control, by point, then by layer, numbered.
fn all_rows(run: &Run, baseline: usize, mut rows: Vec<Placed>) -> Vec<ResultRow> {
    rows.sort_by_key(|(point, layer, _)| (*point, *layer));
    let found: Vec<Vec<Cause>> = rows
        .iter()
        .map(|(point, layer, row)| explain(run, baseline, &rows, (*point, *layer), row))
        .collect();
    let names = Names {
        baseline: run.baseline(),
    };
    let numbered = rows.into_iter().zip(found).enumerate();
    numbered
        .map(|(n, ((_, _, mut row), causes))| {
            row.id = types::numbered('r', n + 1);
            row.reasons = causes.iter().map(|c| c.words(&names).into()).collect();
            row.causes = causes;
            row
        })
        .collect()
}

fn explain(
    run: &Run,
    baseline: usize,
    rows: &[Placed],
    (point, layer): (usize, usize),
    here: &ResultRow,
) -> Vec<Cause> {
    let native = rows.iter().find(|(p, l, _)| *p == point && *l == baseline);
    let others = rows
        .iter()
        .filter(|(p, l, row)| *p == point && *l != baseline && *l != layer && row.trials > 0);
    let others = others.map(|(_, l, row)| (row, &run.layers[*l].facts));
    let base = &run.layers[baseline];
    let is_bare = base.spec.is_native()
        || storage::flushes_directly(&base.facts) && !storage::is_overlay(&base.facts);
    native.map_or_else(Vec::new, |(_, _, native)| {
        causes::find(&CausesOf {
            point: &run.points[point],
            here,
            native,
            facts: &run.layers[layer].facts,
            native_facts: &base.facts,
            is_bare,
            others: others.collect(),
            delta: run.plan.delta,
        })
    })
}

fn names(run: &Run) -> Names<'_> {
    Names {
        baseline: run.baseline(),
    }
}

/// The control from its rows.
pub fn control(run: &Run, rows: Vec<ResultRow>) -> Option<Control> {
    let is_ready = |l: &LayerRun| l.control && l.status == LayerStatus::Ready;
    run.layers.iter().find(|l| is_ready(l))?;
    let mut results = rows;
    for (n, row) in results.iter_mut().enumerate() {
        row.id = types::numbered('c', n + 1);
    }
    let found = AgainstItself::of(&results, run.plan.delta);
    Some(Control {
        points: found.points,
        cover: found.cover,
        false_alarms: found.alarms,
        wide: found.wide,
        text: found.words(&names(run)).into(),
        results,
    })
}

/// The layers in the plan's order.
fn layers(run: &Run, baseline: usize) -> Vec<LayerReport> {
    let all = run.layers.iter().enumerate();
    all.map(|(i, l)| layer(run, l, i == baseline)).collect()
}

fn layer(run: &Run, l: &LayerRun, baseline: bool) -> LayerReport {
    LayerReport {
        name: l.name.clone(),
        spec: l.spec.to_string(),
        about: String::new(),
        brief: String::new(),
        status: l.status,
        reason: l.reason.clone(),
        hint: hint(run, l),
        // The report has those of all layers in one list.
        facts: Facts {
            power_cuts: Vec::new(),
            program_cuts: Vec::new(),
            sequence_cuts: Vec::new(),
            ..l.facts.clone()
        },
        setup_s: l.setup_s,
        self_test: l.self_test,
        read_only: l.read_only,
        baseline,
        control: l.control,
    }
}

/// What to do about a layer that was not measured.
fn hint(run: &Run, layer: &LayerRun) -> Option<String> {
    let hint = left_out::hint(run, layer)?;
    Some(hint.words(&names(run)).into())
}

/// Requested work that was not measured.
fn left_out(run: &Run, index: &Index) -> Vec<LeftOut> {
    let names = names(run);
    let left = left_out::not_measured(run, index).into_iter();
    let row = |left: NotMeasured| LeftOut {
        layer: left.layer.name.clone(),
        point: left.point.map(str::to_owned),
        reason: left.reason.words(&names).into(),
        hint: left
            .point
            .is_none()
            .then(|| hint(run, left.layer))
            .flatten(),
    };
    left.map(row).collect()
}

/// Where work that reproduces another tool's differs from it.
fn fidelity(run: &Run) -> Vec<String> {
    let all = fidelity::differences(&run.plan).iter();
    all.map(|of| of.words(&names(run)).into()).collect()
}

fn reproduce(run: &Run) -> Reproduce {
    let mut plan = run.plan.clone();
    plan.seed = Some(run.seed);
    let alone = || {
        let replay = commands::replay(&run.store.find(&run.id));
        (commands::run_plan(run.seed, &run.dir), replay)
    };
    let (command, replay) = run.fleet.as_deref().map_or_else(alone, |fleet| {
        let fleet = commands::fleet_run(run.seed, &run.dir, fleet);
        (fleet.clone(), fleet)
    });
    Reproduce {
        command,
        replay,
        plan_toml: toml::to_string(&plan)
            .unwrap_or_else(|e| format!("# this plan cannot be written as TOML: {e}\n")),
        plan,
    }
}

fn trial_rows(run: &Run, trials: &[TrialRecord]) -> Vec<TrialRow> {
    let mut ordered: Vec<&TrialRecord> = trials.iter().collect();
    ordered.sort_by_key(|t| t.seq);
    let mut ledger = Ledger::default();
    for record in &ordered {
        ledger.add(record);
    }
    // While a run is running, its last block is incomplete.
    let going_on = ordered.iter().map(|t| t.cell.block).max();
    let going_on = going_on.filter(|_| run.status == RunStatus::Running);
    let row = |record: &&TrialRecord| {
        let mut row = trial_row(run, record)?;
        let over = Some(record.cell.block) != going_on;
        let cut = ledger.cut_off(record.cell, run.layers.len());
        row.flags.extend(cut.filter(|_| over).map(str::to_owned));
        Some(row)
    };
    let mut rows: Vec<TrialRow> = ordered.iter().filter_map(row).collect();
    rows.sort_by_key(|r| r.seq);
    rows
}

fn trial_row(run: &Run, record: &TrialRecord) -> Option<TrialRow> {
    let trial = record.trial.as_ref();
    let device = trial.and_then(|t| t.device);
    let point = run.points.get(record.cell.point)?;
    let under_way = point.meaning.under_way();
    let time = trial.and_then(Cost::of).map(|cost| cost.time());
    let one = std::iter::once(record);
    let waited = waiting::of(one, under_way, time.unwrap_or(ClockTime::Raw));
    Some(TrialRow {
        seq: record.seq,
        session: record.cell.session,
        block: record.cell.block,
        at_ms: record.at_ms,
        layer: run.layers.get(record.cell.layer)?.name.clone(),
        point: point.label.clone(),
        host: record.host.and_then(|of| {
            let fleet = run.fleet.as_deref()?;
            Some(fleet.hosts.get(of.host)?.name.clone())
        }),
        op_us: index::cost(record).map(|ns| ns * under_way / 1e3),
        typical_us: time
            .and_then(|time| index::typical_by(time, record))
            .map(|ns| ns * under_way / 1e3),
        waited_us: waited.and_then(|w| w.us),
        kernel_waited_us: waited.and_then(|w| w.kernel_us),
        waiting_left_out: waited.is_some_and(|w| w.left_out),
        helpers_waited_us: waited.and_then(|w| w.helpers_us),
        priority: trial.and_then(|t| t.waiting?.priority),
        ops: trial.map_or(0, layermark_model::Trial::ops),
        bytes: trial.map_or(0, layermark_model::Trial::bytes),
        device_read: device.map(|d| d.read),
        device_written: device.map(|d| d.written),
        foreign_cpu: finite(record.foreign_cpu),
        flags: record.flags.clone(),
        error: record.error.clone(),
        defect: record.defect,
    })
}

/// JSON has no NaN.
fn finite(value: f64) -> f64 {
    if value.is_finite() { value } else { 0.0 }
}
