//! Which layers are for code, for a database, and for what is only read: a finding of runs that measured more than one
//! of these.

use layermark_model::{Target, Unit};

use crate::{
    analysis::summary::{Findings, LISTED, quoted, some_of},
    code_span::code,
    number::{list, times},
    types::{ResultRow, Statement},
};

/// A layer is for something if it takes this many times the baseline's time at most, as in the plan `daily`.
const ENOUGH: f64 = 2.0;

/// What a layer may be for.
struct Use {
    words: &'static str,
    /// Whether the label of its operation is named, because there is one.
    named: bool,
    /// Whether what is there must survive a power cut.
    kept: bool,
    holds: fn(&ResultRow) -> bool,
}

const USES: [Use; 3] = [
    Use {
        words: "code",
        named: true,
        kept: true,
        holds: |r| r.meaning.target == Target::Step && r.meaning.operation.starts_with("git "),
    },
    Use {
        words: "a database",
        named: true,
        kept: true,
        holds: |r| r.meaning.unit == Unit::Transaction && r.meaning.flushes,
    },
    Use {
        words: "what is only read",
        named: false,
        kept: false,
        holds: |r| matches!(r.meaning.target, Target::Data | Target::Names) && !r.meaning.changes,
    },
];

/// What a layer is for, as far as the run can tell.
enum Answer<'a> {
    Yes,
    /// The row with the largest ratio.
    No(&'a ResultRow),
    Loses,
    Open,
}

/// `None` if the run has work of one kind only, or claims of its own.
pub fn finding(f: &Findings) -> Option<Statement> {
    if !f.run.plan.claim.is_empty() {
        return None;
    }
    let mut evidence = Vec::new();
    let clauses = USES.iter().filter_map(|of| {
        let (text, rows) = clause(f, of)?;
        evidence.extend(rows.iter().map(|r| r.id.clone()));
        Some(text)
    });
    let clauses: Vec<String> = clauses.collect();
    (clauses.len() > 1).then(|| Statement {
        text: format!(
            "At most twice {}'s time: {}.",
            f.baseline(),
            clauses.join("; ")
        ),
        layer: String::new(),
        evidence,
    })
}

/// `code (“git status”) in overlay:upper, not in fuse (2.5x)`, and the rows that say so.
fn clause<'a>(f: &Findings<'a>, of: &Use) -> Option<(String, Vec<&'a ResultRow>)> {
    let mut rows = f.asked();
    // A layer in memory is not a place to keep anything.
    rows.retain(|r| (of.holds)(r) && !f.in_memory(&r.layer));
    let first = rows.first()?;
    let mut layers: Vec<&str> = Vec::new();
    for row in &rows {
        if !layers.contains(&row.layer.as_str()) {
            layers.push(&row.layer);
        }
    }
    let (mut yes, mut open, mut loses, mut no) = (vec![], vec![], vec![], vec![]);
    for layer in layers {
        let failed = |r: &&ResultRow| r.layer == layer && (of.holds)(r);
        let failed = f.failures().iter().any(failed);
        match answer(f, &rows, layer, of.kept) {
            Answer::Yes if failed => open.push(code(layer)),
            Answer::Yes => yes.push(code(layer)),
            Answer::Open => open.push(code(layer)),
            Answer::Loses => loses.push(code(layer)),
            Answer::No(row) => no.push(row),
        }
    }
    let named = if of.named {
        format!(" ({})", quoted(first))
    } else {
        String::new()
    };
    let part = |before: &str, layers: &[String]| match layers {
        [] => String::new(),
        _ => format!("{before}{}", some_of(layers)),
    };
    let parts = [
        part(" in ", &yes),
        slow(no),
        part(", without flushes in ", &loses),
        part(", not known of ", &open),
    ];
    let parts = parts.concat();
    // A layer that was not asked may still be one.
    let parts = parts.strip_prefix(',').unwrap_or(&parts);
    Some((format!("{}{named}{parts}", of.words), rows))
}

/// `, not in fuse (10x) and loop:btrfs (4.4x)`, the slowest first.
fn slow(mut rows: Vec<&ResultRow>) -> String {
    let ratio = |r: &ResultRow| r.ratio.map_or(0.0, |e| e.estimate);
    rows.sort_by(|a, b| ratio(b).total_cmp(&ratio(a)));
    let told = |r: &&ResultRow| {
        let ratio = r.ratio.as_ref().map(times).unwrap_or_default();
        format!("{} ({ratio})", code(&r.layer))
    };
    let mut names: Vec<String> = rows.iter().take(LISTED).map(told).collect();
    if rows.len() > LISTED {
        names.push(format!("{} more", rows.len() - LISTED));
    }
    match names.as_slice() {
        [] => String::new(),
        _ => format!(", not in {}", list(&names)),
    }
}

fn answer<'a>(f: &Findings, rows: &[&'a ResultRow], layer: &str, kept: bool) -> Answer<'a> {
    let own = || rows.iter().copied().filter(|r| r.layer == layer);
    if kept && own().any(|r| r.durability.skips()) {
        return Answer::Loses;
    }
    // A ratio that changed holds for a part of the run, and one with stalls for most operations only. What is suspected
    // of skipping flushes has no time for them.
    let ends = |r: &ResultRow| {
        let flushes = !kept || r.durability.suspicion.is_none();
        let sure = r.is_told() && r.steady != Some(false) && !r.has_stalls() && flushes;
        r.ratio.and_then(|e| e.interval).filter(|_| sure)
    };
    let ratio = |r: &ResultRow| r.ratio.map_or(0.0, |e| e.estimate);
    let slow = own().filter(|r| ends(r).is_some_and(|[low, _]| low > ENOUGH));
    if let Some(worst) = slow.max_by(|a, b| ratio(a).total_cmp(&ratio(b))) {
        return Answer::No(worst);
    }
    // Another operation shows that the layer skips flushes; this one may have none.
    let mut measured = f.measured().into_iter();
    if kept && measured.any(|r| r.layer == layer && r.durability.skips()) {
        return Answer::Loses;
    }
    if own().all(|r| ends(r).is_some_and(|[_, high]| high <= ENOUGH)) {
        Answer::Yes
    } else {
        Answer::Open
    }
}

#[cfg(test)]
mod tests {
    use layermark_model::{Meaning, Plan, Run, flags};
    use layermark_testkit::sample::Sample;

    use super::*;
    use crate::types::{DurabilityVerdict, Estimate, Verdict};

    const CODE: &str = "git status";
    const DATABASE: &str = "commit";
    const READ: &str = "stat";

    fn row(layer: &str, label: &str, [low, high]: [f64; 2]) -> ResultRow {
        let meaning = match label {
            CODE => Meaning {
                operation: "git -C work status".into(),
                target: Target::Step,
                changes: true,
                ..Meaning::default()
            },
            DATABASE => Meaning {
                unit: Unit::Transaction,
                changes: true,
                flushes: true,
                ..Meaning::default()
            },
            _ => Meaning::default(),
        };
        ResultRow {
            id: format!("{layer} {label}"),
            layer: layer.into(),
            label: label.into(),
            meaning,
            trials: 8,
            ratio: Some(Estimate {
                estimate: (low * high).sqrt(),
                interval: Some([low, high]),
                average: None,
            }),
            verdict: Verdict::Slower,
            ..ResultRow::default()
        }
    }

    fn run() -> Run {
        let layers = vec!["overlay:upper", "fuse", "tmpfs"];
        let (run, _) = Sample {
            layers,
            ..Sample::default()
        }
        .build();
        run
    }

    fn said(run: &Run, results: &[ResultRow]) -> Option<String> {
        let f = Findings {
            run,
            results,
            alternatives: &[],
            locks: &[],
            study: None,
        };
        finding(&f).map(|s| s.text)
    }

    #[test]
    fn a_layer_is_for_what_takes_at_most_twice_as_long_there() {
        let mut rows = vec![
            row("overlay:upper", CODE, [1.1, 1.3]),
            row("fuse", CODE, [2.2, 2.4]),
            row("overlay:upper", DATABASE, [0.9, 1.1]),
            row("fuse", DATABASE, [0.1, 0.2]),
            row("overlay:upper", READ, [1.7, 1.9]),
            row("fuse", READ, [10.0, 12.0]),
            row("fuse", "read", [0.9, 1.1]),
            // In memory: no place to keep anything.
            row("tmpfs", CODE, [0.9, 1.1]),
            row("tmpfs", READ, [2.9, 3.1]),
        ];
        rows[3].durability.verdict = DurabilityVerdict::Absorbed;
        assert_eq!(
            said(&run(), &rows).as_deref(),
            Some(
                "At most twice native's time: code (\u{201c}git status\u{201d}) in `overlay:upper`, not in `fuse` (2.3x); a database (\u{201c}commit\u{201d}) in `overlay:upper`, without flushes in `fuse`; what is only read in `overlay:upper`, not in `fuse` (11x)."
            )
        );
    }

    /// A step that has no flush of its own, in a layer where others show that it skips them.
    #[test]
    fn code_lies_nowhere_where_flushes_are_skipped() {
        let mut rows = vec![
            row("fuse", CODE, [0.9, 1.1]),
            row("fuse", DATABASE, [0.1, 0.2]),
            row("overlay:upper", CODE, [0.9, 1.1]),
        ];
        rows[1].durability.verdict = DurabilityVerdict::Absorbed;
        let text = said(&run(), &rows).unwrap();
        let code =
            "code (\u{201c}git status\u{201d}) in `overlay:upper`, without flushes in `fuse`;";
        assert!(text.contains(code), "{text}");
    }

    #[test]
    fn what_the_run_cannot_tell_is_not_told() {
        let unsure = |change: fn(&mut ResultRow)| {
            let mut rows = vec![
                row("fuse", CODE, [1.2, 1.4]),
                row("overlay:upper", READ, [1.0, 1.1]),
            ];
            change(&mut rows[0]);
            said(&run(), &rows).unwrap()
        };
        let changes: [fn(&mut ResultRow); 6] = [
            |r| (r.failed_trials, r.error) = (1, Some("no".into())),
            |r| r.ratio.as_mut().unwrap().interval = Some([1.9, 2.1]),
            |r| r.ratio.as_mut().unwrap().interval = None,
            |r| r.steady = Some(false),
            |r| r.verdict = Verdict::Untrusted,
            |r| {
                r.flag_counts.insert(flags::STALLS.into(), 8);
            },
        ];
        for change in changes {
            let text = unsure(change);
            assert!(
                text.contains("(\u{201c}git status\u{201d}) not known of `fuse`;"),
                "{text}"
            );
        }
        assert!(unsure(|_| ()).contains("(\u{201c}git status\u{201d}) in `fuse`;"));
    }

    #[test]
    fn a_place_with_suspected_flushes_or_a_failed_read_is_not_said_to_be_good() {
        let mut rows = vec![
            row("fuse", DATABASE, [0.5, 0.6]),
            row("fuse", READ, [1.0, 1.1]),
            row("fuse", "read", [1.0, 1.1]),
        ];
        rows[0].durability.suspicion = Some("too fast".into());
        (rows[2].trials, rows[2].failed_trials) = (0, 3);
        assert_eq!(
            said(&run(), &rows).as_deref(),
            Some(
                "At most twice native's time: a database (\u{201c}commit\u{201d}) not known of `fuse`; what is only read not known of `fuse`."
            )
        );
    }

    #[test]
    fn a_run_with_one_use_or_with_claims_has_its_own_sentences() {
        let reads = [row("fuse", READ, [10.0, 12.0])];
        assert_eq!(said(&run(), &reads), None);
        let all = [reads[0].clone(), row("fuse", CODE, [1.0, 1.1])];
        assert!(said(&run(), &all).is_some());
        let daily = std::fs::read_to_string("../../plans/daily.toml").unwrap();
        let claims = Plan::from_toml(&daily).unwrap().claim;
        let mut claiming = run();
        claiming.plan.claim = claims;
        assert_eq!(said(&claiming, &all), None);
    }
}
