//! Comparison of a run with an older one: the change of each layer, minus the change of the machine
//! itself.

mod alike;
mod fleet;
mod odd;

pub use fleet::HostOfCheck;

use layermark_stats::{self as stats, BlockValue, Comparison, Judgement, TwoRuns};

use crate::{
    build,
    facts::{LEVEL, judged, own_numbers, stalls, sweep, waiting},
    plain,
    statements::{
        MOST,
        alike::{CaveatOf, Checked, NotCompared, NotInBoth, OneRun, checks, lone_layers},
        compare::{self as statements, BaselineChange, ChangeFinding, NotAReport},
    },
    types::{
        BlockRatio, Compared, DurabilityVerdict, LayerReport, LeftOut, Missing, Report, ResultRow,
        SCHEMA, Statement, TrialRow, TrustItem, TrustState, Verdict,
    },
    words::{NO_NAMES, Names, Text, Words, compare as words},
};

impl Report {
    /// Parses a report from the JSON that `-o x.json` writes, for [`Report::compare`].
    pub fn from_json(text: &[u8]) -> Result<Self, String> {
        let report = Self::read(text).map_err(|why| why.words(&NO_NAMES).to_string())?;
        Ok(plain::texts(report))
    }

    fn read(text: &[u8]) -> Result<Self, NotAReport> {
        let json: serde_json::Value = serde_json::from_slice(text).map_err(NotAReport::NotJson)?;
        if json["schema"] != SCHEMA {
            return Err(NotAReport::OtherSchema);
        }
        let report: Self = serde_json::from_value(json).map_err(NotAReport::Incomplete)?;
        if report.compared.is_some() {
            return Err(NotAReport::Comparison);
        }
        let compared = |r: &&ResultRow| r.blocks > 0;
        let mut rows = report.results.iter().filter(compared);
        if rows.any(|r| r.block_ratios.is_empty()) {
            return Err(NotAReport::WithoutBlocks);
        }
        Ok(report)
    }

    /// Compares this run with an older one: every point and layer that both have. `None` if there
    /// are none. Differences below `delta` do not matter. A point is the one of its label, or else of its work.
    ///
    /// Blocks of two runs are not pairs, so the two samples of a cell are compared by the means of
    /// their blocks. If both runs have the same baseline, a layer's blocks are ratios to it, which
    /// removes the change of the machine itself. The blocks of the baseline, and of layers without
    /// one, are times. The baseline is a family of its own, like the control in a run.
    pub fn compare(&self, old: &Self, delta: f64) -> Option<Self> {
        let old = alike::renamed(old, self);
        let old = old.as_ref();
        let baseline = common_baseline(old, self);
        let cells: Vec<Both> = self
            .results
            .iter()
            .filter_map(|new| Both::of(old, new, baseline))
            .collect();
        if cells.is_empty() {
            return None;
        }
        let results = rows(old, self, &cells, baseline, delta);
        let mut report = self.without_results();
        report.delta = delta;
        let names = Names::of(baseline);
        let checks = checks(old, self);
        report.trust = trust(&checks, statements::drift(&results, baseline), &names);
        report.left_out = left_out(old, self);
        let headline = statements::headline(&results, baseline).words(&names);
        report.headline = headline.capitalised().into();
        report.caveats = caveats(old, self);
        let found = statements::findings(&checks, &results, baseline);
        report.verdicts = found.iter().map(|f| statement(f, &names)).collect();
        report.findings = most_serious(&report.verdicts);
        report.layers = layers(self, &results);
        report.results = results;
        report.compared = Some(Compared {
            run: old.run.clone(),
            label: old.label.clone(),
            started: old.started.clone(),
            machine: Some(old.machine.clone()),
            baseline: baseline.map(str::to_owned),
            missing: missing(old, &cells),
        });
        Some(report)
    }

    /// The report without the parts that depend on its own results.
    fn without_results(&self) -> Self {
        Self {
            generated_by: build::generated_by(),
            about: String::new(),
            trusted: None,
            control: None,
            cost: Vec::new(),
            buffer: Vec::new(),
            study: None,
            fleet: None,
            iops: Vec::new(),
            depth_curves: Vec::new(),
            figures: Vec::new(),
            scaling: Vec::new(),
            alternatives: Vec::new(),
            estimate_checks: Vec::new(),
            advice: Vec::new(),
            in_short: Vec::new(),
            series: Vec::new(),
            trials: Vec::new(),
            beside: Vec::new(),
            fidelity: Vec::new(),
            ..self.clone()
        }
    }
}

fn statement(finding: &ChangeFinding, names: &Names) -> Statement {
    let (layer, rows) = finding.evidence();
    Statement {
        layer: layer.into(),
        text: finding.words(names).into(),
        brief: None,
        evidence: rows.iter().map(|r| r.id.clone()).collect(),
    }
}

/// What was checked of the two runs, and how the machine itself changed.
fn trust(checks: &[Checked], drift: Option<BaselineChange>, names: &Names) -> Vec<TrustItem> {
    let item = |(id, title): (&str, &str), state, text: Text| TrustItem {
        id: id.into(),
        title: title.into(),
        state,
        text: text.into(),
    };
    let state = |ok| if ok { TrustState::Ok } else { TrustState::Warn };
    let checks = checks.iter();
    let checks = checks.map(|c| item(c.title(), state(c.is_alike()), c.words(names)));
    let drift = match drift {
        None => item(words::DRIFT, TrustState::None, words::no_baseline()),
        // What is not known to be the same may have changed.
        Some(drift) => item(words::DRIFT, state(drift.is_none()), drift.words(names)),
    };
    checks.chain([drift]).collect()
}

/// Layers that only one of the runs has.
fn left_out(old: &Report, new: &Report) -> Vec<LeftOut> {
    let lone = lone_layers(old, new).into_iter();
    let row = |(layer, why): (&str, NotInBoth)| LeftOut {
        layer: layer.into(),
        point: None,
        reason: why.words(&NO_NAMES).into(),
        hint: None,
    };
    lone.map(row).collect()
}

/// At most five of these, including the last.
fn most_serious(told: &[Statement]) -> Vec<Statement> {
    match told.split_last() {
        Some((last, before)) if before.len() >= MOST => {
            before[..MOST - 1].iter().chain([last]).cloned().collect()
        }
        _ => told.to_vec(),
    }
}

/// The caveats of both runs.
fn caveats(old: &Report, new: &Report) -> Vec<String> {
    let of = |one: OneRun, run: &Report| -> Vec<String> {
        let all = run.caveats.iter();
        all.map(|c| CaveatOf(one, c).words(&NO_NAMES).into())
            .collect()
    };
    [of(OneRun::Old, old), of(OneRun::New, new)].concat()
}

/// Results of the older run that are not compared.
fn missing(old: &Report, cells: &[Both]) -> Vec<Missing> {
    let measured = old.results.iter().filter(|r| r.op_us.is_some());
    let control = |r: &&ResultRow| {
        let mut layers = old.layers.iter();
        layers.any(|l| l.control && l.name == r.layer)
    };
    let compared = |r: &&ResultRow| {
        let mut all = cells.iter();
        all.any(|c| c.old.layer == r.layer && c.old.label == r.label)
    };
    measured
        .filter(|r| !control(r) && !compared(r))
        .map(|r| Missing {
            layer: r.layer.clone(),
            point: r.label.clone(),
        })
        .collect()
}

/// Name of the baseline that both runs have.
fn common_baseline<'a>(old: &Report, new: &'a Report) -> Option<&'a str> {
    let of = |report: &'a Report| report.layers.iter().find(|l| l.baseline);
    let name = of(new)?.name.as_str();
    let there = old.layers.iter().any(|l| l.baseline && l.name == name);
    there.then_some(name)
}

/// Layers with results here. Each is compared with itself.
fn layers(new: &Report, results: &[ResultRow]) -> Vec<LayerReport> {
    let compared = |l: &&LayerReport| results.iter().any(|r| r.layer == l.name);
    let layers = new.layers.iter().filter(compared).cloned();
    let own = layers.map(|layer| LayerReport {
        baseline: false,
        ..layer
    });
    own.collect()
}

/// The unit of a cell's blocks.
#[derive(Clone, Copy, PartialEq)]
enum Blocks {
    /// Ratios to the baseline.
    Ratios,
    /// Times, because the runs have no common baseline.
    Times,
    /// Times at a point where the baseline has none, although both runs have it elsewhere.
    Alone,
    /// The baseline's own times.
    Baseline,
}

/// A point in a layer in both runs.
struct Both<'a> {
    old: &'a ResultRow,
    new: &'a ResultRow,
    blocks: Blocks,
}

impl<'a> Both<'a> {
    fn of(old: &'a Report, new: &'a ResultRow, baseline: Option<&str>) -> Option<Self> {
        let mut rows = old.results.iter();
        let row = rows.find(|r| r.layer == new.layer && r.label == new.label)?;
        let whole = !row.block_ratios.is_empty() && !new.block_ratios.is_empty();
        let blocks = match baseline {
            Some(name) if name == new.layer => Blocks::Baseline,
            Some(_) if whole => Blocks::Ratios,
            Some(_) => Blocks::Alone,
            None => Blocks::Times,
        };
        sweep::other_work(row, new).is_none().then_some(Self {
            old: row,
            new,
            blocks,
        })
    }

    fn samples(&self, old: &Report, new: &Report) -> TwoRuns {
        let times = Times::of(&[(old, self.old), (new, self.new)]);
        let was = values(self.blocks, old, self.old, times);
        let old_us = match self.blocks {
            Blocks::Ratios => self.old.op_us,
            // Of what the ratio is of.
            Blocks::Times | Blocks::Alone | Blocks::Baseline => centre(&was),
        };
        TwoRuns {
            new: values(self.blocks, new, self.new, times),
            old: was,
            // In nanoseconds, like the costs of one run.
            cost: old_us.map_or(f64::NAN, |us| us * 1e3),
            steady: [self.old, self.new].iter().all(|r| r.steady != Some(false)),
        }
    }

    fn is_described(&self) -> bool {
        [self.old, self.new]
            .iter()
            .any(|r| r.verdict == Verdict::Descriptive)
    }

    fn row(&self, c: Option<&Comparison>, j: Option<&Judgement>) -> ResultRow {
        let new = self.new.clone();
        let mut row = ResultRow {
            old_us: self.old.op_us,
            blocks: 0,
            block_ratios: Vec::new(),
            effective_n: None,
            ratio: None,
            extra_us: None,
            native_us: None,
            p: None,
            p_adjusted: None,
            steady: None,
            change_points: Vec::new(),
            outliers: 0,
            untrusted: None,
            distrust: None,
            withheld: None,
            waiting: None,
            reasons: Vec::new(),
            causes: Vec::new(),
            ..new
        };
        row.durability.suspicion = None;
        judged::compare(&mut row, c, j, 1.0);
        if let Some(c) = c.filter(|_| self.blocks != Blocks::Ratios) {
            row.old_us = Some(c.cost / 1e3);
            own_numbers::retime(&mut row, c.cost * c.ratio / 1e3);
        }
        stalls::unmark(&mut row);
        if let Some(ratio) = &mut row.ratio
            && let Some(change) = stalls::change(self.old, self.new, ratio.estimate)
        {
            ratio.average = Some(change);
            stalls::mark(&mut row, self.new.stalls);
        }
        if let Some(why) = waiting::of_change(&row, self.old, self.new) {
            row.withhold(why.words(&NO_NAMES).into());
        }
        if let Some(why) = self.distrust() {
            row.distrust();
            row.untrusted = Some(why.words(&NO_NAMES).into());
        }
        row
    }

    /// Why the two are not compared although both were measured.
    fn distrust(&self) -> Option<NotCompared<'_>> {
        let of = |run: OneRun, row: &'a ResultRow| {
            let why = row.untrusted.as_deref()?;
            Some(NotCompared::Untrusted(run, why))
        };
        let kept = |row: &ResultRow| row.durability.verdict == DurabilityVerdict::Honoured;
        let unlike = |one: &ResultRow, two: &ResultRow| kept(one) && two.durability.skips();
        let alone = self.blocks == Blocks::Alone;
        of(OneRun::Old, self.old)
            .or_else(|| of(OneRun::New, self.new))
            .or(alone.then_some(NotCompared::Alone))
            .or_else(|| unlike(self.old, self.new).then_some(NotCompared::FlushLost))
            .or_else(|| unlike(self.new, self.old).then_some(NotCompared::FlushWon))
            .or_else(|| {
                let apart = self.blocks == Blocks::Ratios && are_apart(self.old, self.new);
                apart.then_some(NotCompared::OtherTimes)
            })
    }
}

/// The time in the centre of these, microseconds.
fn centre(times: &[BlockValue]) -> Option<f64> {
    let logs: Vec<f64> = times.iter().map(|of| of.both[0]).collect();
    Some(stats::Trimmed::of(&logs)?.mean.exp())
}

/// Which time of a trial is compared.
#[derive(Clone, Copy)]
struct Times {
    /// With all that waited for a CPU.
    with_waiting: bool,
    /// With what threads of the kernel waited, but not the thread on the clock.
    with_kernel: bool,
    /// The time without stalls.
    typical: bool,
}

impl Times {
    /// Of rows of several runs, so that all have the same. Waiting counts if not all leave it out, as older ones do not;
    /// so does that of the kernel's threads, which containers do not see.
    /// Reports of earlier versions have no typical times.
    fn of(rows: &[(&Report, &ResultRow)]) -> Self {
        let left_out = |row: &ResultRow| row.waiting.is_some_and(|w| w.left_out);
        let some = rows.iter().any(|(_, row)| left_out(row));
        let all = rows.iter().all(|(_, row)| left_out(row));
        let clear = rows.iter().all(|(_, row)| is_clear(row));
        let kernel = |row: &ResultRow| row.waiting.as_ref().map_or(0.0, waiting::kernel_share);
        let waited = rows.iter().any(|(_, row)| kernel(row) > 0.0);
        let typical = rows.iter().all(|(report, row)| {
            let mut trials = report.trials.iter();
            trials.all(|t| {
                let is_own = row.seqs.binary_search(&t.seq).is_ok();
                !is_own || t.op_us.is_none() || t.typical_us.is_some()
            })
        });
        Self {
            with_waiting: some && !all,
            with_kernel: all && !clear && waited,
            typical,
        }
    }
}

/// Whether what threads of the kernel waited is left out as well.
fn is_clear(row: &ResultRow) -> bool {
    row.waiting.is_some_and(|w| w.kernel_us.is_some())
}

/// Whether the ratios of two rows are of other times: what threads of the kernel waited is much, and left out of one alone.
fn are_apart(one: &ResultRow, other: &ResultRow) -> bool {
    let is_much = |row: &ResultRow| {
        let share = row.waiting.as_ref().map(waiting::kernel_share);
        share.is_some_and(waiting::is_much)
    };
    is_clear(one) != is_clear(other) && (is_much(one) || is_much(other))
}

/// Each block that counts, with the logarithm of a time or of a ratio to the baseline's.
fn values(blocks: Blocks, report: &Report, row: &ResultRow, times: Times) -> Vec<BlockValue> {
    if blocks == Blocks::Ratios {
        let ratios = row.block_ratios.iter();
        let value = |b: &BlockRatio| BlockValue {
            session: b.session,
            both: b.both.unwrap_or([b.ratio; 2]).map(f64::ln),
        };
        return ratios.map(value).collect();
    }
    let of_row = |t: &&TrialRow| row.seqs.binary_search(&t.seq).is_ok();
    let trials = report.trials.iter().filter(of_row);
    trials
        .filter_map(|t| {
            let us = if times.with_waiting {
                let waited = t.waited_us.filter(|_| t.waiting_left_out);
                t.op_us? + waited.unwrap_or(0.0)
            } else if times.with_kernel {
                t.op_us? + t.kernel_waited_us.unwrap_or(0.0)
            } else {
                t.typical_us.filter(|_| times.typical).or(t.op_us)?
            };
            Some((t.session, us.ln()).into())
        })
        .collect()
}

fn rows(
    old: &Report,
    new: &Report,
    cells: &[Both],
    baseline: Option<&str>,
    delta: f64,
) -> Vec<ResultRow> {
    let having = |keep: &dyn Fn(&Both) -> bool| -> Vec<usize> {
        (0..cells.len()).filter(|at| keep(&cells[*at])).collect()
    };
    let mut compared: Vec<Option<Comparison>> = vec![None; cells.len()];
    // Only blocks of one kind share their noise.
    for kind in [
        Blocks::Ratios,
        Blocks::Times,
        Blocks::Alone,
        Blocks::Baseline,
    ] {
        let of_kind = having(&|cell| cell.blocks == kind);
        let samples = of_kind.iter().map(|at| cells[*at].samples(old, new));
        let changes = stats::compare_runs(&samples.collect::<Vec<_>>(), LEVEL);
        for (at, change) in of_kind.into_iter().zip(changes) {
            compared[at] = change;
        }
    }
    let mut judged: Vec<Option<Judgement>> = vec![None; cells.len()];
    for of_baseline in [false, true] {
        let is_one = |cell: &Both| (baseline == Some(&*cell.new.layer)) == of_baseline;
        let family = having(&|cell| is_one(cell) && !cell.is_described());
        let changes = family.iter().map(|at| compared[*at].clone());
        let words = stats::judge(&changes.collect::<Vec<_>>(), delta);
        for (at, word) in family.into_iter().zip(words) {
            judged[at] = Some(word);
        }
    }
    let found = compared.iter().zip(&judged);
    let rows = cells.iter().zip(found);
    rows.map(|(cell, (c, j))| cell.row(c.as_ref(), j.as_ref()))
        .collect()
}
