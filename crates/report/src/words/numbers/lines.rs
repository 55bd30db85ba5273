//! What stands beside a result in a table, below a table of figures, and in the lines about the run.

use std::collections::BTreeMap;

use layermark_model::{
    Figure, FigureSource, FigureTable, FigureUnit, FigureValue, RunStatus, flags,
};

use super::{Draw, NAMES, check, each, hundred, noise, plain_data};
use crate::{
    facts::numbers::{averages, numbers},
    statements::{
        fidelity::Fidelity,
        figures::{OtherRounds, Peak, TableNote},
        notes::{RowNote, RowNotes},
        remarks::Remark,
        run_line::{RunLine, TrustLine},
    },
    types::{Cause, FigureGroup, FigureRow, ResultRow, TrustWord, Trusted},
    words::{Words, cell::cell, charts, record_size::about_sizes, result_line},
};

#[test]
fn notes_on_rows() {
    let (place, variants) = variants!(RowNote<'_>:
        RowNote::Untrusted(_), RowNote::Never(_), RowNote::Remark(_), RowNote::NoNumber(_), RowNote::Failed(..),
        RowNote::Withheld(_), RowNote::Unsteady, RowNote::FewBlocks(_), RowNote::WeakerRule, RowNote::Within(_),
        RowNote::Because(_), RowNote::Suspicion(_), RowNote::Flushes(_), RowNote::Threads(_), RowNote::Tail(..));
    hundred(|d| {
        let never = ResultRow {
            op_us: Some(d.x()),
            flag_counts: BTreeMap::from([(flags::NOT_SEEN.to_owned(), 9)]),
            ..d.row()
        };
        let threads = d.threads();
        let all = vec![
            RowNote::Untrusted("it came from memory"),
            RowNote::Never(&never),
            RowNote::Remark(Remark::FromMemory(d.share())),
            RowNote::NoNumber(None),
            RowNote::Failed([d.count(), d.count()], "tar: read error"),
            RowNote::Withheld("it waited"),
            RowNote::Unsteady,
            RowNote::FewBlocks(d.count()),
            RowNote::WeakerRule,
            RowNote::Within(d.share()),
            RowNote::Because("every call leaves the kernel"),
            RowNote::Suspicion(Cause::SuspectedFlush("how".into())),
            RowNote::Flushes("it is mounted volatile"),
            RowNote::Threads(&threads),
            RowNote::Tail(99.0, d.x()),
        ];
        let both = RowNotes {
            baseline: None,
            all: all.clone(),
        };
        check(&both.words(), &both, &[]);
        each(plain_data(all), place, variants);
    });
}

#[test]
fn lines_about_the_run() {
    let (place, variants) = variants!(RunLine<'_>: RunLine::One { .. }, RunLine::Two { .. });
    hundred(|d| {
        let all = [
            RunLine::One {
                run: "RUN",
                plan: "card",
                status: RunStatus::Done,
                layers: d.count(),
                trials: d.count(),
                seed: d.n(),
            },
            RunLine::Two {
                new: ["NEW", "noon"],
                old: ["OLD", "morning"],
                plan: "card",
            },
        ];
        each(plain_data(all), place, variants);
        for (word, reason) in [
            (TrustWord::Yes, None),
            (TrustWord::WithCare, None),
            (TrustWord::No, Some("the control differs".into())),
        ] {
            let trusted = Trusted { word, reason };
            for warnings in [vec![], vec!["A/A control", "drift"]] {
                let line = TrustLine {
                    believed: Some(&trusted),
                    passed: d.count(),
                    warnings,
                };
                check(&line.words(&NAMES), &line, &[]);
            }
        }
    });
}

#[test]
fn differences_from_iozone() {
    let (place, variants) = variants!(Fidelity:
        Fidelity::ShortCells, Fidelity::Clock, Fidelity::Turns, Fidelity::Fwrite, Fidelity::Threads);
    // The shortest pass, in ms; iozone's example, a file in kB; what it takes off, in us.
    let all = Fidelity::ALL.map(|of| (of, vec![1.0, 64.0]));
    each(all.to_vec(), place, variants);
}

fn group(d: &mut Draw) -> FigureGroup {
    let lost = Figure::new("lost", FigureUnit::Whole, FigureSource::Rate);
    let mut declared = FigureTable::new("Rates", "What it lost");
    declared.figures.push(lost);
    let row = FigureRow {
        result: "r1".into(),
        layer: "fuse".into(),
        label: "small read".into(),
        values: BTreeMap::from([("lost".to_owned(), FigureValue::Number(d.n() as f64))]),
        left_out: Vec::new(),
    };
    FigureGroup {
        workload: "stream".into(),
        what: "a stream".into(),
        declared,
        rows: vec![row],
    }
}

#[test]
fn notes_on_figures() {
    let (place, variants) = variants!(TableNote<'_>:
        TableNote::Differs(..), TableNote::Smallest(..), TableNote::OfRow(..), TableNote::OtherRounds(_),
        TableNote::Average { .. }, TableNote::DeviceLeftOut(_));
    let (peak, peaks) = variants!(Peak<'_>: Peak::Decided, Peak::Open(..), Peak::Last(_));
    hundred(|d| {
        let group = group(d);
        let us = d.x();
        let rounds = OtherRounds {
            baseline: "native",
            label: Some("small read"),
            layers: vec!["fuse", "nfs"],
            us: [us, 2.0 * us],
            with_control: d.n() % 2 == 0,
        };
        let row = ResultRow {
            average_us: Some(d.x()),
            native_average_us: Some(d.x()),
            ..d.row()
        };
        let numbers = averages(&row).expect("averages");
        let typical = noise(&row.ratio.expect("a ratio"));
        let average = noise(&numbers.ratio.expect("an average"));
        let ratios = [typical, average].concat();
        let all = vec![
            (TableNote::Differs("{all}", vec![d.n().to_string()]), vec![]),
            (
                TableNote::Smallest("at least {all}", &group.declared.figures[0], d.n() as f64),
                vec![],
            ),
            (
                TableNote::OfRow("{layer} lost {lost}", &group, &group.rows[0]),
                vec![],
            ),
            (TableNote::OtherRounds(rounds.clone()), vec![]),
            (
                TableNote::Average {
                    row: &row,
                    numbers,
                    is_one_of_many: true,
                },
                ratios,
            ),
            // Of many layers only the number is told.
            (TableNote::DeviceLeftOut(vec!["fuse"; 4]), vec![4.0]),
        ];
        each(all, place, variants);
        check(&rounds.words(&NAMES), &rounds, &[]);
        let all = [
            Peak::Decided,
            Peak::Open(d.n() as f64, "connections"),
            Peak::Last("connections"),
        ];
        each(plain_data(all), peak, peaks);
    });
}

/// Titles and explanations that have data in them are functions and no statements.
#[test]
fn captions_with_data() {
    hundred(|d| {
        let (level, delta) = (d.share(), d.share());
        let (some, all, more) = (d.count(), d.count(), d.count());
        // The line of no difference, and the end of an axis.
        let words = charts::about_ratios(level, delta, more);
        check(&words, &(level, delta, more), &[1.0, 10.0]);
        let drawn = charts::DrawnRatios {
            all,
            verdicts: [some, more, all],
            stalls: some,
        };
        check(&drawn.words("native"), &drawn, &[]);
        let words = charts::about_latency("native", some, more);
        check(&words, &("native", some, more), &[]);
        check(&charts::about_lines(level), &level, &[]);
        check(&charts::about_sizes(level, true), &level, &[]);
        check(&charts::of_surface(some, all), &(some, all), &[]);
        check(&charts::of_lines(some, "size"), &some, &[]);
        let words = charts::of_drift(all, some, more);
        check(&words, &(all, some, more), &[]);
        check(&charts::of_spread(some), &some, &[]);
        check(&charts::of_trend(all, some), &(all, some), &[]);
        let words = result_line::disturbed([some, all], [more, all]);
        check(&words, &(some, all, more), &[]);
        let nearly = 0.5 * d.share();
        let words = about_sizes(nearly, level);
        let shares = [1.0 - nearly, 1.0 + nearly];
        check(&words, &(nearly, level), &shares);
        let row = ResultRow {
            op_us: Some(d.x()),
            average_us: Some(d.x()),
            native_us: Some(d.x()),
            native_average_us: Some(d.x()),
            ..d.row()
        };
        let of_row = numbers(&row);
        let ratios = of_row.iter().filter_map(|n| n.ratio);
        let ratios: Vec<f64> = ratios.flat_map(|e| noise(&e)).collect();
        check(&result_line::found(&row), &(&row, &of_row), &ratios);
        check(&cell(Some(&row), "native"), &row, &ratios);
    });
}
