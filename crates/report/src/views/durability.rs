//! What power cuts did: the level that each layer reached, what is not proven, and the first lost record.

use std::fmt::Write as _;

use layermark_model::witness::{Outcome, Storey, WitnessTrial};

use crate::{
    code_span::code,
    facts::power_cuts::{
        closed, control_fault, controls, controls_failed, killed, layers, lie, refuses, sentence,
        sum,
    },
    number::count,
    statements::power_cuts::ControlFault,
    types::{
        Cell, Conclusion, DataTable, DurabilityVerdict, Holds, LayerReport, Report, ResultRow,
        Section,
    },
    words::{Words, power_cuts::time},
};

const BY_HAND: &str = "whether it keeps them needs a real power cut: layermark durability record";
const CLAIM: &str = "keeps what fsync acknowledged";
/// The verdict on a layer that keeps what fsync acknowledged, and loses what was closed before a clean unmount.
const LOSES_CLOSED: &str = "loses closed files";
/// Levels of a verdict, with what decided it.
const LEVELS: [(&str, &str); 4] = [
    ("L0", "the configuration"),
    ("L1", "how long flushes take"),
    ("L2", "flushes that the device counted"),
    ("L3", "records after power cuts"),
];

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
            title: "Does it keep what it acknowledged?".into(),
            about: about(&names, &self.layers),
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

    /// Level, evidence, and what is not proven.
    fn level(&self, layer: &str) -> [String; 4] {
        let sum = sum(&self.power_cuts, layer);
        if let Some(why) = controls_failed(&self.power_cuts).filter(|_| sum.cuts > 0) {
            let why = String::from(why.words(&self.names()));
            let cuts = count(sum.cuts as usize, "cut");
            let evidence = format!("{why}; here data was lost in {} of {cuts}", sum.losing);
            return ["L3", "cannot tell", &evidence, "all"].map(str::to_owned);
        }
        let more = [killed(&sum), refuses(&sum), closed(&sum)];
        let names = self.names();
        let more = more.iter().flatten().map(|m| m.words(&names).into());
        let more: Vec<String> = more.collect();
        let and_more = |evidence: String| {
            let evidence = (!evidence.is_empty()).then_some(evidence);
            let all: Vec<String> = evidence.into_iter().chain(more.iter().cloned()).collect();
            all.join("; ")
        };
        if let Some(lie) = lie(&self.power_cuts, layer) {
            let lie = and_more(lie.words(&names).into());
            return ["L3".into(), "lies".into(), lie, String::new()];
        }
        if sum.cuts > 0 {
            let mut evidence = and_more(format!(
                "{} records acknowledged, 0 lost in {}",
                sum.records,
                count(sum.cuts as usize, "power cut")
            ));
            if sum.unrecovered > 0 {
                let _ = write!(
                    evidence,
                    "; after {} more it could not be set up again ({})",
                    sum.unrecovered,
                    sum.unrecovered_why.unwrap_or_default()
                );
            }
            let open = "cuts at other moments, and what the disk below does with a flush".into();
            let verdict = match sum.unrecovered {
                0 if sum.loses_closed() => LOSES_CLOSED,
                0 => "kept",
                _ => "kept where it was set up again",
            };
            return ["L3".into(), verdict.into(), evidence, open];
        }
        if sum.unrecovered > 0 {
            let why = sum.unrecovered_why.unwrap_or_default();
            let evidence = format!(
                "after {} it could not be set up again: {why}",
                count(sum.unrecovered as usize, "power cut")
            );
            return [
                "L3".into(),
                "not recovered".into(),
                and_more(evidence),
                "what it kept".into(),
            ];
        }
        let why = sum.uncut.or(sum.error).unwrap_or("no power was cut");
        match self.row_of(layer) {
            Some(row) => {
                let durability = &row.durability;
                let verdict = match durability.verdict {
                    DurabilityVerdict::Honoured => "flushes reach it",
                    DurabilityVerdict::Absorbed => "flushes are skipped",
                    DurabilityVerdict::Late => "flushes come late",
                    _ => "cannot tell",
                };
                let because = durability.because.clone().unwrap_or_default();
                [
                    durability.level.clone().unwrap_or_default(),
                    verdict.into(),
                    and_more(because),
                    format!("{BY_HAND} ({why})"),
                ]
            }
            None => [
                "L0".into(),
                "cannot tell".into(),
                and_more(why.into()),
                BY_HAND.into(),
            ],
        }
    }

    fn levels(&self, names: &[&str]) -> DataTable {
        let all: Vec<[String; 4]> = names.iter().map(|name| self.level(name)).collect();
        let row = |(name, level): (&&str, &[String; 4])| {
            let first = Cell::text(code(name));
            let rest = level.clone().map(Cell::text);
            std::iter::once(first).chain(rest).collect()
        };
        let shown = |(level, _): &&(&str, &str)| all.iter().any(|of| of[0] == *level);
        let legend: Vec<String> = LEVELS
            .iter()
            .filter(shown)
            .map(|(level, by)| format!("{level}: {by}"))
            .collect();
        DataTable {
            title: "The level reached".into(),
            note: format!(
                "{}. What decided: {}.",
                controls(&self.power_cuts).words(&self.names()),
                legend.join("; ")
            ),
            head: ["layer", "level", "verdict", "evidence", "not proven"]
                .map(str::to_owned)
                .to_vec(),
            rows: names.iter().zip(&all).map(row).collect(),
        }
    }

    fn conclusion(&self, layer: &str) -> Conclusion {
        let [_, verdict, evidence, open] = self.level(layer);
        let holds = match verdict.as_str() {
            "kept" | LOSES_CLOSED => Holds::Yes,
            "lies" => Holds::No,
            _ => Holds::Open,
        };
        let text = match holds {
            Holds::No => evidence,
            _ if open.is_empty() => format!("{}: {verdict}: {evidence}", code(layer)),
            _ => format!("{}: {verdict}: {evidence}; not proven: {open}", code(layer)),
        };
        Conclusion {
            text,
            claim: CLAIM.into(),
            layer: layer.to_owned(),
            holds,
            evidence: self
                .row_of(layer)
                .map(|r| r.id.clone())
                .into_iter()
                .collect(),
        }
    }
}

/// How it was done.
fn about(names: &[&str], layers: &[LayerReport]) -> String {
    let about = "Each layer stood on a disk whose unflushed writes a power cut loses. Records were written and synced in it, and looked for after each cut, when the layer had been set up again on what survived.";
    let container = "A container is not started again: its files are read from the host.";
    // A label may replace the name.
    let cut = |l: &&LayerReport| names.contains(&l.name.as_str());
    let mut cut = layers.iter().filter(cut);
    if cut.any(|l| l.facts.is_container()) {
        format!("{about} {container}")
    } else {
        about.into()
    }
}

/// Findings by writer.
fn cuts(trials: &[WitnessTrial]) -> DataTable {
    let cut: Vec<&WitnessTrial> = trials.iter().filter(|t| t.uncut.is_none()).collect();
    let shown = |o: &Outcome| *o == Outcome::Kept || cut.iter().any(|t| t.counts.contains_key(o));
    let outcomes: Vec<Outcome> = Outcome::ALL.into_iter().filter(shown).collect();
    let row = |t: &&WitnessTrial| {
        let mut row = vec![Cell::text(code(&t.layer)), Cell::text(t.writer.clone())];
        row.extend([t.records, t.cuts, t.losing, t.unrecovered].map(Cell::count));
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
        .chain(outcomes.iter().map(|o| o.words()))
        .chain(["error"]);
    DataTable {
        title: "Records after all power cuts together".into(),
        note: "Lost names of create-unsynced are permitted: POSIX promises a name after its directory was synced. A prepared block was made and flushed before the first record.".into(),
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
        title: format!("{}: flushes at each storey", code(layer)),
        note: "While all writers wrote, from the writer down to the disk. Only devices of this host count their flushes. A file system may flush more often than it is called, or once for several calls.".into(),
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
            Cell::text(time(r.at_ms).to_string()),
            Cell::count(r.sequence),
            Cell::count(r.block),
            Cell::text(state),
        ]
    };
    Some(DataTable {
        title: format!(
            "{}: the first lost record of `{}`",
            code(layer),
            worst.writer
        ),
        note: format!("Record {}: {}.", first.finding.sequence, first.finding.text),
        head: ["acknowledged", "record", "block", "after the cut"]
            .map(str::to_owned)
            .to_vec(),
        rows: first.timeline.iter().map(row).collect(),
    })
}

#[cfg(test)]
mod tests {
    use layermark_model::witness::{ClosedFiles, LostRecord, WitnessFinding};
    use layermark_testkit::sample::Sample;

    use super::*;

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
            (report.level("rclone"), report.conclusion("rclone").holds)
        };
        let lost = "40 of 40 files that were closed just before a clean unmount are lost (in the layer, mounted again, its name is absent)";
        let ([level_of, verdict, evidence, _], holds) = level(trial.clone());
        assert_eq!((level_of.as_str(), verdict.as_str()), ("L3", LOSES_CLOSED));
        let kept = "500 records acknowledged, 0 lost in 38 power cuts";
        assert_eq!(evidence, format!("{kept}; {lost}"));
        assert!(holds == Holds::Yes, "fsync is another question");
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
        let ([_, verdict, evidence, _], holds) = level(liar);
        assert_eq!(verdict, "lies");
        assert!(holds == Holds::No);
        assert_eq!(evidence.matches("clean unmount").count(), 1, "{evidence}");
        let not_always = WitnessTrial {
            unrecovered: 1,
            ..trial.clone()
        };
        let ([_, verdict, evidence, _], _) = level(not_always);
        assert_eq!(verdict, "kept where it was set up again");
        assert!(evidence.contains(lost), "{evidence}");
        let never = WitnessTrial {
            cuts: 0,
            unrecovered: 38,
            unrecovered_why: Some("it lacks a key".into()),
            ..trial
        };
        let ([_, verdict, evidence, _], _) = level(never);
        assert_eq!(verdict, "not recovered");
        let why = "after 38 power cuts it could not be set up again: it lacks a key";
        assert_eq!(evidence, format!("{why}; {lost}"));
    }

    #[test]
    fn how_containers_were_looked_at_is_said_where_there_is_one() {
        let words = "A container is not started again";
        let (run, trials) = Sample::default().build();
        let mut report = Report::build(&run, &trials);
        let layers = &mut report.layers;
        assert!(!about(&["native", "fuse"], layers).contains(words));
        let fuse = layers.iter_mut().find(|l| l.name == "fuse").unwrap();
        let runtime = (layermark_model::CONTAINER.into(), "podman".into());
        fuse.facts.notes.extend([runtime]);
        assert!(about(&["native", "fuse"], layers).contains(words));
        assert!(!about(&["native"], layers).contains(words));
    }
}
