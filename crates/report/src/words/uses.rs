//! Which layers are for code, for a database, and for what is only read.

use crate::{
    number::times,
    statements::uses::{Use, UseOf, Uses},
    types::ResultRow,
    words::{
        Names, Text, Words,
        lists::{first_of, layers, quoted},
        text,
    },
};

impl Words for Uses<'_> {
    fn words(&self, names: &Names) -> Text {
        let each = self.0.iter().map(|of| of.words(names));
        let each = Text::joined(each, "; ");
        text!("At most twice {}'s time: {each}.", names.baseline())
    }
}

/// `code (“git status”) in overlay:upper, not in fuse (2.5x)`.
impl Words for UseOf<'_> {
    fn words(&self, _: &Names) -> Text {
        let what = match self.what {
            Use::Code => "code",
            Use::Database => "a database",
            Use::Reading => "what is only read",
        };
        let named = self.what.is_named();
        let named = named.then(|| text!(" ({})", quoted(self.label)));
        let part = |before: &str, names: &[&str]| {
            (!names.is_empty()).then(|| text!("{before} {}", layers(names)))
        };
        let slow = (!self.slow.is_empty()).then(|| {
            let slow = first_of(&self.slow, |r: &&ResultRow| {
                let ratio = r.ratio.as_ref().map(times).unwrap_or_default();
                text!("{} ({ratio})", Text::code(&r.layer))
            });
            text!("not in {slow}")
        });
        let parts = [
            part("in", &self.good),
            slow,
            part("without flushes in", &self.loses),
            part("not known of", &self.open),
        ];
        let parts = Text::joined(parts.into_iter().flatten(), ", ");
        text!("{what}{} {parts}", named.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use layermark_model::{Meaning, Plan, Run, Target, Unit, flags};
    use layermark_testkit::sample::Sample;

    use super::*;
    use crate::{
        statements::{Selection, uses::uses},
        types::{DurabilityVerdict, Estimate, Verdict},
    };

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
        let f = Selection {
            run,
            results,
            alternatives: &[],
            locks: &[],
            study: None,
        };
        uses(&f).map(|uses| {
            let baseline = run.baseline();
            uses.words(&Names { baseline }).to_string()
        })
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
