//! The strings of the JSON contract, from statements and their words.

use layermark_model::{Run, TrialRecord};

use crate::{
    facts::index::Index,
    statements::{
        Selection,
        advice::{self, Advice},
        caveats::{self, BusyMachine},
        checks::{self, Check, CheckedRun},
        findings::{self, Finding},
        headline,
        in_short::{self, ShortLine},
        verdicts::{self, LayerVerdict},
    },
    types::{self, ResultRow, Statement, TrustItem},
    words::{Names, Words},
};

/// All sentences of a run but its checks.
pub struct Sentences {
    /// One sentence for the whole run.
    pub headline: String,
    /// Limits of all other sentences.
    pub caveats: Vec<String>,
    /// A line for each layer.
    pub in_short: Vec<Statement>,
    /// Key findings.
    pub findings: Vec<Statement>,
    /// One sentence for each layer.
    pub verdicts: Vec<Statement>,
    /// Advice.
    pub advice: Vec<types::Advice>,
}

impl Sentences {
    /// Makes all sentences from the same results.
    pub fn of(f: &Selection, trials: &[TrialRecord], index: &Index, control_failed: bool) -> Self {
        let names = &Names {
            baseline: f.run.baseline(),
        };
        let busy = BusyMachine::of_run(f, trials).is_some();
        let caveats = caveats::all(f, trials, index);
        let findings = findings::findings(f);
        let verdicts = verdicts::verdicts(f);
        let advice = advice::advice(f, busy);
        Self {
            headline: headline::headline(f, busy, control_failed)
                .words(names)
                .into(),
            caveats: caveats.iter().map(|c| c.words(names).into()).collect(),
            in_short: in_short::in_short(f)
                .iter()
                .map(|l| line(l, names))
                .collect(),
            findings: findings.iter().map(|f| finding(f, names)).collect(),
            verdicts: verdicts.iter().map(|v| verdict(v, names)).collect(),
            advice: advice.iter().map(|a| advised(a, names)).collect(),
        }
    }
}

fn ids(rows: &[&ResultRow]) -> Vec<String> {
    rows.iter().map(|r| r.id.clone()).collect()
}

fn finding(of: &Finding, names: &Names) -> Statement {
    Statement {
        layer: of.layers().join(", "),
        text: of.words(names).into(),
        brief: None,
        evidence: ids(&of.rows()),
    }
}

fn line(of: &ShortLine, names: &Names) -> Statement {
    Statement {
        layer: of.layers().join(", "),
        text: of.words(names).into(),
        brief: of.brief().map(String::from),
        evidence: ids(&of.rows()),
    }
}

fn verdict(of: &LayerVerdict, names: &Names) -> Statement {
    Statement {
        layer: of.layer.into(),
        text: of.words(names).into(),
        brief: None,
        evidence: ids(&of.rows),
    }
}

fn advised(of: &Advice, names: &Names) -> types::Advice {
    types::Advice {
        text: of.what.words(names).into(),
        evidence: ids(&of.rows),
    }
}

/// All checks.
pub fn checks(e: &CheckedRun) -> Vec<TrustItem> {
    let names = Names {
        baseline: e.run.baseline(),
    };
    let all = checks::checks(e);
    all.iter().map(|of| item(of, &names)).collect()
}

/// The checks without which no number is believed.
pub fn vital_checks(run: &Run, trials: &[TrialRecord]) -> Vec<TrustItem> {
    let names = Names {
        baseline: run.baseline(),
    };
    let all = checks::vital(run, trials);
    all.iter().map(|of| item(of, &names)).collect()
}

fn item(of: &Check, names: &Names) -> TrustItem {
    let (id, title) = of.title();
    TrustItem {
        id: id.into(),
        title: title.into(),
        state: of.state(),
        text: of.words(names).into(),
    }
}

#[cfg(test)]
mod tests;
