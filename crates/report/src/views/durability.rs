//! What power cuts did: the level that each layer reached, what is not proven, and the first lost record.

use layermark_model::witness::{Outcome, Storey, WitnessTrial};

use crate::{
    code_span::code,
    facts::power_cuts::{control_fault, controls, controls_failed, layers, sentence, sum},
    statements::{
        cut_levels::{LevelReached, level_reached},
        power_cuts::ControlFault,
    },
    types::{Cell, Conclusion, DataTable, LayerReport, Report, ResultRow, Section},
    words::{Text, Words, captions, cut_levels, power_cuts as words},
};

impl Report {
    /// Whether a layer that is not known to lie lost what it had acknowledged, or what was closed.
    pub fn lost_data(&self) -> bool {
        sentence(&self.power_cuts).is_some() && controls_failed(&self.power_cuts).is_none()
    }

    /// What is wrong with the controls: then no acquittal and no conviction can be believed.
    pub fn controls_failed(&self) -> Option<String> {
        Some(self.control_fault()?.words(&self.names()).into())
    }

    /// What cannot be believed because of that, and why.
    pub fn unbelievable(&self) -> Option<String> {
        Some(self.control_fault()?.unbelievable(&self.names()).into())
    }

    fn control_fault(&self) -> Option<ControlFault<'_>> {
        control_fault(&self.power_cuts, &self.sequence_cuts)
    }

    /// The level that was reached, what is not proven, and what was lost.
    pub(crate) fn durability_section(&self) -> Option<Section> {
        let trials = &self.power_cuts;
        if trials.is_empty() {
            return None;
        }
        let names = layers(trials);
        let mut tables = vec![self.levels(&names), cuts(trials)];
        tables.extend(names.iter().filter_map(|name| stack(trials, name)));
        tables.extend(names.iter().filter_map(|name| timeline(trials, name)));
        Some(Section {
            name: "durability".into(),
            title: captions::CUTS.title.into(),
            about: about(&names, &self.layers).into(),
            is_answer: true,
            tables,
            conclusions: names.iter().map(|name| self.conclusion(name)).collect(),
            ..Section::default()
        })
    }

    fn row_of(&self, layer: &str) -> Option<&ResultRow> {
        self.results
            .iter()
            .find(|r| r.layer == layer && r.durability.level.is_some())
    }

    fn level<'a>(&'a self, layer: &'a str) -> LevelReached<'a> {
        level_reached(
            &self.power_cuts,
            layer,
            self.row_of(layer).map(|r| &r.durability),
        )
    }

    fn levels(&self, names: &[&str]) -> DataTable {
        let words_of = &self.names();
        let all: Vec<LevelReached> = names.iter().map(|name| self.level(name)).collect();
        let row = |of: &LevelReached| {
            let open = of.open.map(|open| open.words(words_of));
            vec![
                Cell::text(code(of.layer)),
                Cell::text(of.level),
                Cell::text(of.verdict.words(words_of)),
                Cell::text(of.evidence(words_of)),
                Cell::text(open.unwrap_or_default()),
            ]
        };
        DataTable {
            title: captions::CUT_LEVELS.into(),
            note: cut_levels::what_decided(&controls(&self.power_cuts), &all, words_of).into(),
            head: ["layer", "level", "verdict", "evidence", "not proven"]
                .map(str::to_owned)
                .to_vec(),
            rows: all.iter().map(row).collect(),
        }
    }

    fn conclusion(&self, layer: &str) -> Conclusion {
        let of = self.level(layer);
        Conclusion {
            text: of.words(&self.names()).into(),
            claim: captions::CUTS_CLAIM.into(),
            layer: layer.to_owned(),
            holds: of.verdict.holds(),
            evidence: self
                .row_of(layer)
                .map(|r| r.id.clone())
                .into_iter()
                .collect(),
        }
    }
}

/// How it was done.
fn about(names: &[&str], layers: &[LayerReport]) -> Text {
    // A label may replace the name.
    let cut = |l: &&LayerReport| names.contains(&l.name.as_str());
    let mut cut = layers.iter().filter(cut);
    words::about_cuts(cut.any(|l| l.facts.is_container()))
}

/// The head of a column of [`cuts_a_minute`].
pub(super) const CUTS_A_MINUTE: &str = "cuts a minute";

/// How many power cuts a minute were looked after; empty where their time is not known.
pub(super) fn cuts_a_minute(cuts: u64, ns: u64) -> Cell {
    match ns {
        0 => Cell::text(""),
        ns => Cell::count((cuts as f64 / (ns as f64 / 60e9)) as u64),
    }
}

/// The column of cuts that are not judged, where there are any.
pub(super) struct NotJudged(bool);

impl NotJudged {
    /// For rows with so many of them.
    pub(super) fn of(mut all: impl Iterator<Item = u64>) -> Self {
        Self(all.any(|n| n > 0))
    }

    pub(super) fn head(&self) -> Option<&'static str> {
        self.0.then_some("not judged")
    }

    pub(super) fn cell(&self, n: u64) -> Option<Cell> {
        self.0.then(|| Cell::count(n))
    }

    /// A note that says what they are.
    pub(super) fn noted(&self, note: &str) -> String {
        let what = self.0.then_some(captions::NOT_JUDGED);
        let texts = [Some(note), what].into_iter().flatten();
        texts.collect::<Vec<_>>().join(" ")
    }
}

/// Findings by writer.
fn cuts(trials: &[WitnessTrial]) -> DataTable {
    let cut: Vec<&WitnessTrial> = trials.iter().filter(|t| t.uncut.is_none()).collect();
    let shown = |o: &Outcome| *o == Outcome::Kept || cut.iter().any(|t| t.counts.contains_key(o));
    let outcomes: Vec<Outcome> = Outcome::ALL.into_iter().filter(shown).collect();
    let not_judged = NotJudged::of(cut.iter().map(|t| t.unseen.unjudged));
    let row = |t: &&WitnessTrial| {
        let mut row = vec![Cell::text(code(&t.layer)), Cell::text(t.writer.clone())];
        row.extend([t.records, t.cuts, t.losing, t.unseen.unrecovered].map(Cell::count));
        row.extend(not_judged.cell(t.unseen.unjudged));
        row.extend(
            outcomes
                .iter()
                .map(|o| Cell::count(t.counts.get(o).copied().unwrap_or(0))),
        );
        row.push(Cell::text(t.error.clone().unwrap_or_default()));
        row
    };
    let head = [
        "layer",
        "writer",
        "records",
        "cuts",
        "cuts with loss",
        "not set up again",
    ];
    let head = head
        .into_iter()
        .chain(not_judged.head())
        .chain(outcomes.iter().map(|o| o.words()))
        .chain(["error"]);
    DataTable {
        title: captions::CUT_RECORDS.title.into(),
        note: not_judged.noted(captions::CUT_RECORDS.about),
        head: head.map(str::to_owned).collect(),
        rows: cut.iter().map(row).collect(),
    }
}

/// The stack of a layer, from fsync(2) to the disk, with the flushes at each storey.
fn stack(trials: &[WitnessTrial], layer: &str) -> Option<DataTable> {
    let sum = sum(trials, layer);
    if sum.storeys.is_empty() {
        return None;
    }
    let or_unknown = |text: &str| Cell::text(if text.is_empty() { "unknown" } else { text });
    let row = |storey: &Storey| {
        let flushes = storey.flushes.map(Cell::count);
        vec![
            Cell::text(storey.name.clone()),
            or_unknown(&storey.cache),
            flushes.unwrap_or_else(|| Cell::text("unknown")),
        ]
    };
    Some(DataTable {
        title: words::storeys(layer).into(),
        note: captions::STOREYS.into(),
        head: ["storey", "cache", "flushes"].map(str::to_owned).to_vec(),
        rows: sum.storeys.iter().map(row).collect(),
    })
}

/// Acknowledged records around the first lost one.
fn timeline(trials: &[WitnessTrial], layer: &str) -> Option<DataTable> {
    let worst = sum(trials, layer).worst?;
    let first = worst.first.as_ref()?;
    let row = |r: &layermark_model::witness::TimelineRecord| {
        let state = if r.kept { "kept" } else { "missing" };
        vec![
            Cell::text(words::time(r.at_ms)),
            Cell::count(r.sequence),
            Cell::count(r.block),
            Cell::text(state),
        ]
    };
    Some(DataTable {
        title: words::first_lost(layer, &worst.writer).into(),
        note: words::lost_record(&first.finding).into(),
        head: ["acknowledged", "record", "block", "after the cut"]
            .map(str::to_owned)
            .to_vec(),
        rows: first.timeline.iter().map(row).collect(),
    })
}

#[cfg(test)]
mod tests {
    use layermark_model::witness::{ClosedFiles, LostRecord, WitnessControl, WitnessFinding};
    use layermark_testkit::sample::{Sample, unseen};

    use super::*;
    use crate::{statements::cut_levels::LevelVerdict, types::Holds};

    /// It said "lies" of a layer that keeps what fsync acknowledged, and the loss twice.
    #[test]
    fn what_is_closed_and_lost_is_said_once_and_is_no_lie() {
        let (run, trials) = Sample::default().build();
        let mut report = Report::build(&run, &trials);
        let closed = ClosedFiles {
            files: 40,
            lost: Some(40),
            why: Some("in the layer, mounted again, its name is absent".into()),
        };
        let trial = WitnessTrial {
            layer: "rclone".into(),
            writer: "append".into(),
            records: 500,
            cuts: 38,
            closed: Some(closed),
            ..WitnessTrial::default()
        };
        let mut level = |trial: WitnessTrial| {
            report.power_cuts = vec![trial];
            assert!(report.lost_data());
            let of = report.level("rclone");
            let evidence = String::from(of.evidence(&report.names()));
            (of.level.to_owned(), of.verdict, evidence)
        };
        let lost = "40 of 40 files that were closed just before a clean unmount are lost (in the layer, mounted again, its name is absent)";
        let (level_of, verdict, evidence) = level(trial.clone());
        assert_eq!(
            (level_of.as_str(), verdict),
            ("L3", LevelVerdict::LosesClosed)
        );
        let kept = "500 records acknowledged, 0 lost in 38 power cuts";
        assert_eq!(evidence, format!("{kept}; {lost}"));
        assert!(verdict.holds() == Holds::Yes, "fsync is another question");
        // The verdict of the power cuts remains.
        let liar = WitnessTrial {
            losing: 2,
            first: Some(LostRecord {
                finding: WitnessFinding {
                    outcome: Outcome::Lost,
                    sequence: 137,
                    block: 136,
                    text: "it is absent".into(),
                    permitted: false,
                },
                at_ms: 43_203_413,
                timeline: Vec::new(),
            }),
            ..trial.clone()
        };
        let (_, verdict, evidence) = level(liar);
        assert_eq!(verdict, LevelVerdict::Lies);
        assert!(verdict.holds() == Holds::No);
        assert_eq!(evidence.matches("clean unmount").count(), 1, "{evidence}");
        let not_always = WitnessTrial {
            unseen: unseen((1, ""), (0, "")),
            ..trial.clone()
        };
        let (_, verdict, evidence) = level(not_always);
        assert_eq!(verdict, LevelVerdict::KeptWhereSetUp);
        assert!(evidence.contains(lost), "{evidence}");
        let partly = WitnessTrial {
            unseen: unseen((0, ""), (3, "no loop device")),
            ..trial.clone()
        };
        let (_, verdict, evidence) = level(partly);
        assert_eq!(verdict, LevelVerdict::KeptWhereJudged);
        assert!(verdict.holds() == Holds::Open);
        let why = "; 3 more are not judged, because of an error that may be this machine's: no loop device; ";
        assert!(evidence.contains(why), "{evidence}");
        let none = WitnessTrial {
            cuts: 0,
            unseen: unseen((0, ""), (38, "no loop device")),
            ..trial.clone()
        };
        let (_, verdict, evidence) = level(none);
        assert_eq!(verdict, LevelVerdict::CannotTell);
        let why = "38 power cuts are not judged, because of an error that may be this machine's: no loop device";
        assert_eq!(evidence, format!("{why}; {lost}"));
        let never = WitnessTrial {
            cuts: 0,
            unseen: unseen((38, "it lacks a key"), (0, "")),
            ..trial
        };
        let (_, verdict, evidence) = level(never);
        assert_eq!(verdict, LevelVerdict::NotRecovered);
        let why = "after 38 power cuts it could not be set up again: it lacks a key";
        assert_eq!(evidence, format!("{why}; {lost}"));
    }

    /// A layer was "kept" where the liar, whose cuts this machine could not look at, showed nothing.
    #[test]
    fn nothing_is_kept_where_no_cut_of_the_liar_is_judged() {
        let (run, trials) = Sample::default().build();
        let mut report = Report::build(&run, &trials);
        let kept = WitnessTrial {
            layer: "fuse".into(),
            writer: "append".into(),
            records: 500,
            cuts: 38,
            ..WitnessTrial::default()
        };
        let liar = WitnessTrial {
            layer: "overlay:volatile".into(),
            control: Some(WitnessControl::Liar),
            records: 500,
            unseen: unseen((0, ""), (38, "no loop device")),
            ..WitnessTrial::default()
        };
        report.power_cuts = vec![kept.clone(), liar.clone()];
        let of = report.level("fuse");
        assert_eq!(of.verdict, LevelVerdict::CannotTell);
        assert_eq!(
            String::from(of.evidence(&report.names())),
            "500 records acknowledged, 0 lost in 38 power cuts; nothing shows that a loss would be seen, because \
             `overlay:volatile` (lying) has no cut that is judged: 38 are not (no loop device)"
        );
        let caught = WitnessTrial {
            cuts: 38,
            losing: 38,
            ..liar
        };
        report.power_cuts = vec![kept, caught];
        assert_eq!(report.level("fuse").verdict, LevelVerdict::Kept);
    }

    #[test]
    fn how_containers_were_looked_at_is_said_where_there_is_one() {
        let words = "A container is not started again";
        let (run, trials) = Sample::default().build();
        let mut report = Report::build(&run, &trials);
        let layers = &mut report.layers;
        assert!(
            !about(&["native", "fuse"], layers)
                .to_string()
                .contains(words)
        );
        let fuse = layers.iter_mut().find(|l| l.name == "fuse").unwrap();
        let runtime = (layermark_model::CONTAINER.into(), "podman".into());
        fuse.facts.notes.extend([runtime]);
        assert!(
            about(&["native", "fuse"], layers)
                .to_string()
                .contains(words)
        );
        assert!(!about(&["native"], layers).to_string().contains(words));
    }
}
