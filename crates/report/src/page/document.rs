//! The report as blocks.

use std::collections::BTreeSet;

use layermark_model::Machine;

use super::{
    Block, Content, Item, Method, Part, Stack, charts, left_out,
    matrix::{Matrix, ratio_of},
    results::Results,
    sizes::{self, IozoneSheet, SizeMatrix},
};
use crate::{
    Report, ResultRow, Section, Statement, TrustItem, TrustState,
    number::count,
    statements::run_line::{RunLine, TrustLine},
    studies,
    tables::{self, LongTable},
    views::alternatives,
    words::{NO_NAMES, Words, captions, commands, machine, matrix as words},
};

/// The report as blocks. What is costly to make, and not in every format, has a function instead of a block: charts,
/// matrices of sizes, long tables.
pub struct Document<'a> {
    report: &'a Report,
    /// The program and its version.
    pub generated_by: &'a str,
    /// The plan's name.
    pub plan: &'a str,
    /// When the run started, RFC 3339 UTC.
    pub started: &'a str,
    /// State of the run in words.
    pub status: &'static str,
    /// Purpose of the plan, in a sentence; may be empty.
    pub about: &'a str,
    /// The machine.
    pub machine: &'a Machine,
    /// Name of the layer that the others are compared with.
    pub baseline: &'a str,
    /// Level of the intervals.
    pub level: f64,
    /// Whether two runs are compared.
    pub is_comparison: bool,
    /// What was left out for each reason.
    pub left_out: Vec<String>,
    /// All blocks. Only those of sections can have a part in common.
    pub blocks: Vec<Block<'a>>,
}

impl<'a> Document<'a> {
    /// Makes the blocks of a report.
    pub fn new(report: &'a Report) -> Self {
        let about = RunLine::of(report).words(&NO_NAMES);
        let mut blocks = vec![
            Block::new(
                Part::Headline,
                &report.headline,
                Content::Caveats(&report.caveats),
            ),
            Block::new(Part::About, "", Content::Line(about.into())),
            Block::new(Part::Matrix, "", Content::Matrix(Matrix::new(report))),
            results(report),
        ];
        // Where nothing was measured there is nothing to trust. A comparison has results and no answer of its own.
        if report.trusted.is_some() || !report.results.is_empty() {
            let checks = Content::Checks(&report.trust);
            let trust = Block::new(Part::Trust, captions::TRUST, checks);
            blocks.push(trust.note(TrustLine::of(report).words(&NO_NAMES).into()));
        }
        let left_out_by_reason = left_out::by_reason(&report.left_out);
        // No evidence: the matrix below them has all results.
        let in_short = report.in_short.iter().map(|line| said(line, &[]));
        let findings = report.findings.iter().map(|f| said(f, &f.evidence));
        // No evidence: a verdict sums up all results of its layer.
        let layers = report.verdicts.iter().map(|v| said(v, &[]));
        let advice = report.advice.iter().map(|a| Item {
            evidence: &a.evidence,
            ..Item::new(&a.text)
        });
        let fidelity = report.fidelity.iter().map(Item::new);
        let lists = [
            Block::list(Part::InShort, captions::IN_SHORT, in_short.collect()),
            Block::list(Part::Findings, captions::FINDINGS, findings.collect()),
            Block::list(Part::Layers, captions::LAYERS, layers.collect()).map(|b| {
                b.note(count(report.verdicts.len(), "layer"))
                    .about(report.about.clone())
            }),
            Block::list(Part::Advice, captions::ADVICE, advice.collect()),
            Block::list(
                Part::LeftOut,
                captions::LEFT_OUT,
                left_out::items(&report.left_out),
            )
            .map(|b| b.note(left_out_by_reason.join("; "))),
            Block::list(Part::Fidelity, captions::FIDELITY, fidelity.collect()),
        ];
        blocks.extend(lists.into_iter().flatten());
        blocks.extend(report.sections().into_iter().map(|s| section(report, s)));
        blocks.push(reproduce(report));
        blocks.extend(background(report));
        Self {
            report,
            generated_by: &report.generated_by,
            plan: &report.label,
            started: &report.started,
            status: machine::status(report.status),
            about: &report.about,
            machine: &report.machine,
            baseline: report.baseline(),
            level: report.level,
            is_comparison: report.compared.is_some(),
            left_out: left_out_by_reason,
            blocks,
        }
    }

    /// Blocks of any of these parts.
    pub fn of(&self, parts: &[Part]) -> impl Iterator<Item = &Block<'a>> {
        self.blocks.iter().filter(|b| parts.contains(&b.part))
    }

    /// Blocks of the parts in this order. Parts listed together keep the document's order.
    pub fn in_order<'d>(&'d self, order: &'d [&[Part]]) -> impl Iterator<Item = &'d Block<'a>> {
        order.iter().flat_map(|parts| self.of(parts))
    }

    /// The block of a part.
    pub fn part(&self, part: Part) -> Option<&Block<'a>> {
        self.blocks.iter().find(|b| b.part == part)
    }

    /// The note of a part's block; `None` if the report has no such block.
    pub fn note(&self, part: Part) -> Option<&str> {
        self.part(part).map(|b| b.note.as_str())
    }

    /// The line of a part; may be empty.
    pub fn line(&self, part: Part) -> &str {
        match self.part(part).map(|b| &b.content) {
            Some(Content::Line(text)) => text,
            _ => "",
        }
    }

    /// The sentences of a part; may be empty.
    pub fn items(&self, part: Part) -> &[Item<'a>] {
        match self.part(part).map(|b| &b.content) {
            Some(Content::List(items)) => items,
            _ => &[],
        }
    }

    /// The matrix, in every unit.
    pub fn matrix(&self) -> Option<&Matrix<'a>> {
        self.part(Part::Matrix).and_then(|b| match &b.content {
            Content::Matrix(matrix) => Some(matrix),
            _ => None,
        })
    }

    /// Every result.
    pub fn results(&self) -> Option<&Results<'a>> {
        self.part(Part::Results).and_then(|b| match &b.content {
            Content::Results(results) => Some(results),
            _ => None,
        })
    }

    /// The answer in a sentence.
    pub fn headline(&self) -> &str {
        self.part(Part::Headline).map_or("", |b| &b.title)
    }

    /// Its caveats.
    pub fn caveats(&self) -> &'a [String] {
        match self.part(Part::Headline).map(|b| &b.content) {
            Some(Content::Caveats(caveats)) => caveats,
            _ => &[],
        }
    }

    /// The checks.
    pub fn checks(&self) -> &'a [TrustItem] {
        match self.part(Part::Trust).map(|b| &b.content) {
            Some(Content::Checks(checks)) => checks,
            _ => &[],
        }
    }

    /// The mark of the line about trust.
    pub fn trust_mark(&self) -> TrustState {
        TrustLine::of(self.report).mark()
    }

    /// The comparison of alternatives, if there are any.
    pub fn alternatives(&self) -> Option<&Section> {
        self.all_sections().find(|s| s.name == alternatives::NAME)
    }

    /// Results of other programs beside those of the run.
    pub fn beside(&self) -> impl Iterator<Item = &Section> {
        // The last sections: see `Report::sections`.
        let others = self.all_sections().count() - self.report.beside.len();
        self.all_sections().skip(others)
    }

    /// The heading of a section for a place with little room: without the word that those of all studies begin with.
    pub fn short_title<'s>(&self, section: &'s Section) -> &'s str {
        let study = self.report.study.as_ref();
        let is_study = study.is_some_and(|study| study.name == section.name);
        let title = studies::title(&section.name).filter(|_| is_study);
        title.unwrap_or(&section.title)
    }

    /// Every section.
    pub fn all_sections(&self) -> impl Iterator<Item = &Section> {
        self.blocks.iter().filter_map(|b| match &b.content {
            Content::Section(section) => Some(section),
            _ => None,
        })
    }

    /// The command that prints everything in another form: its option is `rest`. Two runs that are compared have only
    /// `--full`.
    pub fn more(&self, rest: &str) -> String {
        let report = self.report;
        match &report.compared {
            Some(_) => commands::full(&report.reproduce.command),
            None => commands::report(&report.store.find(&report.run), rest),
        }
    }

    /// Ratios with their intervals.
    pub fn forest(&self) -> Option<charts::ChartGroup> {
        charts::forest(self.report)
    }

    /// Charts of sizes, latency and drift.
    pub fn other_charts(&self) -> Vec<charts::ChartGroup> {
        let groups = charts::sizes(self.report)
            .into_iter()
            .chain(charts::latency(self.report))
            .chain(charts::drift(self.report));
        groups.collect()
    }

    /// Every chart that has enough data; a study's own come first.
    pub fn charts(&self) -> Vec<charts::ChartGroup> {
        charts::every(self.report)
    }

    /// Results by file size and record, at least two of each.
    pub fn size_matrices(&self) -> Vec<SizeMatrix<'a>> {
        SizeMatrix::all(self.report)
    }

    /// Results by file size and record, as spreadsheets of iozone have them.
    pub fn size_sheets(&self) -> Vec<SizeMatrix<'a>> {
        SizeMatrix::in_kb(self.report)
    }

    /// iozone's tables, for a sheet of each layer.
    pub fn iozone_sheets(&self) -> Vec<IozoneSheet<'a>> {
        sizes::iozone_sheets(self.report)
    }

    /// The tables of every result, trial and launch, with their names.
    pub fn lists(&self) -> Vec<(&'static str, LongTable<'a>)> {
        tables::lists(self.report)
    }

    /// The sections of these parts.
    pub fn sections(&self, parts: &[Part]) -> impl Iterator<Item = &Section> {
        self.of(parts).filter_map(|b| match &b.content {
            Content::Section(section) => Some(section),
            _ => None,
        })
    }
}

fn said<'a>(statement: &'a Statement, evidence: &'a [String]) -> Item<'a> {
    Item {
        layer: &statement.layer,
        brief: statement.brief.as_deref(),
        evidence,
        ..Item::new(&statement.text)
    }
}

/// Every result, with what a ratio means.
fn results(report: &Report) -> Block<'_> {
    Block::new(
        Part::Results,
        captions::RESULTS,
        Content::Results(Results::new(report)),
    )
    .note(count(report.results.len(), "result"))
    .about(words::about_ratios(&ratio_of(report), report.level).into())
}

fn section(report: &Report, section: Section) -> Block<'_> {
    let part = match &report.study {
        Some(study) if study.name == section.name => Part::Study,
        _ if section.is_answer && is_asked(report, &section) => Part::Answer,
        _ if section.is_own() => Part::Figures,
        _ => Part::Model,
    };
    let about = section.about.clone();
    Block::new(part, section.title.clone(), Content::Section(section)).about(about)
}

/// Whether a section that can be the answer is. Beside more work of other kinds, the matrix of all is.
fn is_asked(report: &Report, section: &Section) -> bool {
    let is_own = |r: &&ResultRow| r.workload == section.name;
    let own = report.results.iter().filter(is_own).count();
    own == 0 || own * 2 >= report.results.len()
}

fn reproduce(report: &Report) -> Block<'_> {
    Block::new(
        Part::Reproduce,
        captions::REPRODUCE,
        Content::Reproduce(&report.reproduce),
    )
    .about(machine::line(&report.machine).into())
}

/// The background of the numbers.
fn background(report: &Report) -> [Block<'_>; 4] {
    let sessions: BTreeSet<u32> = report.trials.iter().map(|t| t.session).collect();
    let blocks: BTreeSet<_> = report.trials.iter().map(|t| (t.session, t.block)).collect();
    let method = Method {
        sessions: sessions.len(),
        blocks: blocks.len(),
        delta: report.delta,
        fidelity: &report.fidelity,
    };
    let stack = Stack {
        machine: &report.machine,
        dir: &report.dir,
        layers: &report.layers,
    };
    let measured = stack.ready().collect();
    let part = Block::new;
    [
        part(Part::Method, captions::METHOD, Content::Method(method)),
        part(Part::Stack, captions::STACK, Content::Stack(stack)).note(report.machine.cpu.clone()),
        part(
            Part::SelfTests,
            captions::SELF_TESTS,
            Content::SelfTests(measured),
        ),
        part(
            Part::Trials,
            captions::TRIALS,
            Content::Trials(&report.trials),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use layermark_testkit::sample::Sample;

    use super::*;

    #[test]
    fn a_section_is_the_answer_unless_more_was_asked_for() {
        let (run, trials) = Sample::default().build();
        let mut report = Report::build(&run, &trials);
        let asked = |name: &str| Section {
            name: name.into(),
            is_answer: true,
            ..Section::default()
        };
        let part = |report: &Report, name: &str| section(report, asked(name)).part;
        // It has no results of its own, such as those of another program.
        assert_eq!(part(&report, "beside-fio"), Part::Answer);
        let most = report.results.len() / 2 + 1;
        for row in &mut report.results[..most] {
            row.workload = "db".into();
        }
        let other = report.results[most].workload.clone();
        assert_eq!(part(&report, "db"), Part::Answer);
        assert_ne!(part(&report, &other), Part::Answer);
    }
}
