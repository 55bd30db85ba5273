//! Claims that a plan has as data ([`layermark_model::Claim`]), decided from the results. A claim needs no
//! code here.

use layermark_model::{Claim, Layers, Predicate, Quotient, Relation, Share};
use layermark_stats::{self as stats, Comparison, judge};

use super::{
    Data, conclusion,
    rows::{
        compared, comparison, estimate, geometric_mean, host_cpu, interval, is_emulated, layers,
        mark, usable,
    },
    virtual_io::is_kind,
};
use crate::{
    group,
    statements::studies::declared::{
        ClaimPoint, ClaimPoints, DeclaredClaim, MissingPoint, MissingWhy, NoReference, NotDecided,
    },
    types::{Cause, Conclusion, DurabilityVerdict, Holds, ResultRow, Verdict},
    words,
};

/// Difference from the number that a ratio *near* it may have, as a share.
const NEARLY: f64 = 0.1;

/// The conclusions of the plan's claims, claim by claim and layer by layer.
pub fn conclusions(data: &Data) -> Vec<Conclusion> {
    let claims = data.run.plan.claim.iter();
    let mut all: Vec<Conclusion> = claims.flat_map(|claim| of_claim(data, claim)).collect();
    mark(data, &mut all);
    all
}

/// Where the plan's claims were published, each once.
pub fn sources(data: &Data) -> Vec<String> {
    let claims = data.run.plan.claim.iter();
    let sources = group::distinct(claims.filter_map(|c| c.source.as_ref()));
    let said = sources.iter().map(|s| words::studies::source(s).into());
    said.collect()
}

fn of_claim(data: &Data, claim: &Claim) -> Vec<Conclusion> {
    let about = |r: &&ResultRow| claim.is_about(&r.workload, &r.label, &r.point);
    let rows: Vec<&ResultRow> = data.results.iter().filter(about).collect();
    let named = |row: &ResultRow| {
        claim.layers.is_empty() || claim.layers.iter().any(|l| is_named(data, l, row))
    };
    let on = |layer: &&str| rows.iter().any(|r| r.layer == *layer && named(r));
    let own = layers(data).into_iter().filter(on);
    let made = own.filter_map(|layer| in_layer(data, claim, layer, &rows));
    let made: Vec<Conclusion> = made.collect();
    if !made.is_empty() {
        return made;
    }
    // In the column of the first of its layers, whatever was measured there.
    let first = data.results.iter().find(|r| named(r));
    let said = DeclaredClaim::NotMeasured(claim, first.is_some());
    let layer = first.map_or("", |r| r.layer.as_str());
    vec![conclusion(
        &said,
        layer,
        Holds::Open,
        Vec::new(),
        &data.names(),
    )]
}

/// The conclusion on a layer; `None` for the layer that the others are compared with.
fn in_layer(data: &Data, claim: &Claim, layer: &str, rows: &[&ResultRow]) -> Option<Conclusion> {
    Some(match against(data, claim, layer, rows)? {
        Ok(against) => Sides::of(data, claim, [layer, against], rows).conclusion(),
        Err(why) => {
            let said = DeclaredClaim::NoReference(claim, layer, why);
            conclusion(&said, layer, Holds::Open, Vec::new(), &data.names())
        }
    })
}

/// The layer that a claim compares a layer with, or why there is none. `None`: it is the layer itself.
fn against<'a>(
    data: &'a Data,
    claim: &'a Claim,
    layer: &'a str,
    rows: &[&ResultRow],
) -> Option<Result<&'a str, NoReference<'a>>> {
    if is_proof(claim) || !claim.against_work.is_empty() {
        return Some(Ok(layer));
    }
    let Some(named) = &claim.against else {
        // A claim says "natively", whatever the run's baseline is.
        let native = native(data).ok_or(NoReference::Native);
        return (native != Ok(layer)).then_some(native);
    };
    let with = |found: &dyn Fn(&ResultRow) -> bool| -> Vec<&'a str> {
        let has = |l: &&str| rows.iter().any(|r| r.layer == *l && found(r));
        layers(data).into_iter().filter(has).collect()
    };
    if named.as_str() == "alike" {
        let emulated = is_emulated(data, layer);
        let first = with(&|r| r.trials > 0 && is_emulated(data, &r.layer) == emulated);
        return match first.first() {
            Some(first) => (*first != layer).then_some(Ok(first)),
            None => Some(Err(NoReference::OfItsCpu)),
        };
    }
    let mut found = with(&|r| is_named(data, named, r));
    if found == [layer] {
        return None;
    }
    found.retain(|l| *l != layer);
    Some(match found[..] {
        [one] => Ok(one),
        [] => Err(NoReference::Named(named.as_str())),
        _ => Err(NoReference::Several(named.as_str(), found)),
    })
}

/// Whether what a layer does proves it, without a comparison.
fn is_proof(claim: &Claim) -> bool {
    claim.holds == Predicate::Flushes
}

/// The only point of `against` with which a point is compared. A proof has none, and stands for itself.
fn counterpart<'a>(
    data: &'a Data,
    claim: &Claim,
    against: &str,
    row: &'a ResultRow,
) -> Result<&'a ResultRow, MissingPoint<'a>> {
    let measured = |row: &'a ResultRow| {
        let missing = |why| Err(MissingPoint(why, row.label.as_str()));
        match row.op_us {
            None => missing(MissingWhy::NotMeasured),
            Some(_) if !usable(row) => missing(MissingWhy::NotTrusted),
            Some(_) => Ok(row),
        }
    };
    measured(row)?;
    if is_proof(claim) {
        return Ok(row);
    }
    let is_other = |r: &&ResultRow| {
        let like = r.workload == row.workload || claim.against_work.contains_key("label");
        let paired = if claim.against_work.is_empty() {
            r.label == row.label
        } else {
            like && claim.pairs(&row.point, &r.label, &r.point)
        };
        r.layer == against && r.id != row.id && paired
    };
    let mut others = data.results.iter().filter(is_other);
    let missing = |why| Err(MissingPoint(why, row.label.as_str()));
    match (others.next(), others.next()) {
        (Some(other), None) => measured(other),
        (None, _) if claim.against_work.is_empty() => missing(MissingWhy::NotMeasured),
        (None, _) => missing(MissingWhy::NoCounterpart),
        _ => missing(MissingWhy::SeveralCounterparts),
    }
}

/// Whether a claim's `layers` name the layer of a result.
fn is_named(data: &Data, layers: &Layers, row: &ResultRow) -> bool {
    let mut all = data.run.layers.iter();
    let own = all.find(|l| l.name == row.layer);
    own.is_some_and(|l| {
        layers.names(&l.spec.unlabelled().to_string())
            || is_kind(l, row.meaning.target, layers.as_str())
    })
}

/// The name of the layer `native`, if the run has it.
fn native<'a>(data: &'a Data) -> Option<&'a str> {
    let mut all = data.run.layers.iter();
    let native = all.find(|l| l.spec.is_native() && !l.control)?;
    Some(&native.name)
}

/// Points of a claim in one layer, each with its counterpart.
struct Sides<'a> {
    data: &'a Data<'a>,
    claim: &'a Claim,
    layer: &'a str,
    against: &'a str,
    rows: Vec<(&'a ResultRow, Result<&'a ResultRow, MissingPoint<'a>>)>,
    /// Points of the plan that have no result in the layer.
    absent: Vec<MissingPoint<'a>>,
    compared: Vec<Option<Comparison>>,
    verdicts: Vec<Verdict>,
}

impl<'a> Sides<'a> {
    fn of(
        data: &'a Data<'a>,
        claim: &'a Claim,
        [layer, against]: [&'a str; 2],
        rows: &[&'a ResultRow],
    ) -> Self {
        let own = rows.iter().filter(|r| r.layer == layer);
        let other = |row: &&'a ResultRow| (*row, counterpart(data, claim, against, row));
        let rows: Vec<_> = own.map(other).collect();
        let planned = data.run.points.iter();
        let planned = planned.filter(|p| claim.is_about(&p.workload, &p.label, &p.params));
        let absent = planned.filter(|p| rows.iter().all(|(r, _)| r.label != p.label));
        let absent = absent.map(|p| MissingPoint(MissingWhy::NotMeasured, p.label.as_str()));
        let absent = absent.collect();
        let of = match &claim.holds {
            Predicate::Ratio(of, ..) => of,
            _ => &Quotient::Time,
        };
        let known = rows
            .iter()
            .filter_map(|(r, other)| Some((*r, other.as_ref().ok().copied()?)));
        let known: Vec<_> = known.collect();
        let baseline = data.run.layers[data.baseline].name.as_str();
        let as_reported = is_proof(claim)
            || against == baseline && claim.against_work.is_empty() && *of == Quotient::Time;
        let made = if as_reported {
            known.iter().map(|(row, _)| comparison(row)).collect()
        } else {
            compared(data, &known, of)
        };
        let mut made = made.into_iter();
        let each = rows
            .iter()
            .map(|(_, other)| other.as_ref().ok().and_then(|_| made.next()?));
        let compared: Vec<Option<Comparison>> = each.collect();
        let judged = judge(&compared, data.run.plan.delta);
        let verdicts = judged.iter().map(|j| word(j.verdict, claim.of)).collect();
        Self {
            data,
            claim,
            layer,
            against,
            rows,
            absent,
            compared,
            verdicts,
        }
    }

    /// How many points it is about.
    fn points(&self) -> usize {
        self.rows.len() + self.absent.len()
    }

    fn conclusion(&self) -> Conclusion {
        let unknown = self.rows.iter().all(|(_, other)| other.is_err());
        let holds = if unknown { Holds::Open } else { self.holds() };
        let said = DeclaredClaim::Points(Box::new(self.said(holds)));
        let evidence = if unknown { Vec::new() } else { self.evidence() };
        conclusion(&said, self.layer, holds, evidence, &self.data.names())
    }

    /// Whether the claim holds in the layer.
    fn holds(&self) -> Holds {
        let each: Vec<Holds> = (0..self.rows.len()).map(|at| self.at(at)).collect();
        let of = |holds: Holds| each.iter().filter(|h| **h == holds).count();
        let (n, yes, mut no) = (self.points(), of(Holds::Yes), of(Holds::No));
        let disputed = no > 0;
        if self.claim.holds == Predicate::Same && self.claim.of != Share::All {
            // Half of them slower and half faster is not a difference.
            no = self.count(Verdict::Slower).max(self.count(Verdict::Faster));
        }
        match self.claim.of {
            _ if self.undecidable().is_some() => Holds::Open,
            Share::All => Holds::when(yes == n, no > 0),
            Share::Any => Holds::when(yes > 0, no == n),
            Share::Most => Holds::when(2 * yes > n, 2 * no >= n),
            Share::Undisputed => Holds::when(2 * yes > n && !disputed, 2 * no >= n),
        }
    }

    /// The claim with its figures.
    fn said(&self, holds: Holds) -> ClaimPoints<'a> {
        let asks = |word| self.claim.text.as_ref().is_some_and(|text| text.has(word));
        let cpu = |(row, other): &(&ResultRow, Result<&ResultRow, MissingPoint>)| {
            let here = host_cpu(self.data, other.as_ref().unwrap_or(row))?;
            Some([here, host_cpu(self.data, row)?])
        };
        let point = |at: usize| ClaimPoint {
            row: self.rows[at].0,
            other: self.rows[at].1.clone(),
            ratio: self.compared[at].as_ref().map(estimate),
            verdict: self.verdicts[at],
            cpu: cpu(&self.rows[at]).filter(|_| asks("costs")),
            holds: self.at(at),
        };
        let points: Vec<ClaimPoint> = (0..self.rows.len()).map(point).collect();
        let why = self.undecidable().or_else(|| self.why(holds));
        let is_missing = points.iter().any(|p| p.other.is_err()) || !self.absent.is_empty();
        let ratios = self.compared.iter().flatten().map(|c| c.ratio);
        ClaimPoints {
            claim: self.claim,
            layer: self.layer,
            against: self.against,
            mean: geometric_mean(&ratios.collect::<Vec<_>>()),
            points,
            absent: self.absent.clone(),
            why,
            why_is_needed: is_missing || why.is_some_and(|w| w.is_undecidable()),
        }
    }

    fn evidence(&self) -> Vec<String> {
        let known = self
            .rows
            .iter()
            .filter_map(|(a, b)| Some([a, b.as_ref().ok()?]));
        let mut all: Vec<String> = known.flatten().map(|r| r.id.clone()).collect();
        all.dedup();
        all
    }

    /// Whether it holds at a point.
    fn at(&self, at: usize) -> Holds {
        use Verdict::{Faster, Same, Slower};
        let verdict = self.verdicts[at];
        let row = self.rows[at].0;
        if self.rows[at].1.is_err() {
            return Holds::Open;
        }
        let is = |yes: &[Verdict], no: &[Verdict]| {
            Holds::when(yes.contains(&verdict), no.contains(&verdict))
        };
        match &self.claim.holds {
            Predicate::Same => is(&[Same], &[Slower, Faster]),
            Predicate::Faster => is(&[Faster], &[Same, Slower]),
            Predicate::Slower => is(&[Slower], &[Same, Faster]),
            Predicate::NotSlower => is(&[Same, Faster], &[Slower]),
            Predicate::Flushes => {
                let told = row.durability.verdict;
                Holds::when(told == DurabilityVerdict::Honoured, row.durability.skips())
            }
            Predicate::InPlace if row.causes.contains(&Cause::CopyUp) => Holds::No,
            Predicate::InPlace => is(&[Same, Faster], &[]),
            Predicate::Ratio(..) if self.unsure(at).is_some() => Holds::Open,
            Predicate::Ratio(_, relation, than) => interval(self.compared[at].as_ref())
                .map_or(Holds::Open, |interval| holds(*relation, *than, interval)),
        }
    }

    /// Why the ratio of a point does not decide, though it is known.
    fn unsure(&self, at: usize) -> Option<NotDecided<'a>> {
        let (row, other) = &self.rows[at];
        let either = |is: fn(&ResultRow) -> bool| is(row) || other.as_ref().is_ok_and(|r| is(r));
        match &self.claim.holds {
            Predicate::Ratio(Quotient::Cpu, ..) if either(ResultRow::disturbed) => {
                Some(NotDecided::OtherPrograms)
            }
            Predicate::Ratio(Quotient::Time, ..) if either(ResultRow::has_stalls) => {
                Some(NotDecided::Stalls)
            }
            _ => None,
        }
    }

    fn count(&self, verdict: Verdict) -> usize {
        self.verdicts.iter().filter(|v| **v == verdict).count()
    }

    /// Why the figures do not give an answer.
    fn undecidable(&self) -> Option<NotDecided<'a>> {
        if is_proof(self.claim) {
            return None;
        }
        let cpus = self.data.run.machine.cpus;
        let asked = |(row, _): &(&ResultRow, _)| row.meaning.cpus().is_some_and(|n| n > cpus);
        if self.rows.iter().any(asked) {
            return Some(NotDecided::Cpus(cpus));
        }
        let [here, there] = [self.layer, self.against].map(|l| is_emulated(self.data, l));
        let other = if here { self.against } else { self.layer };
        (here != there).then_some(NotDecided::Emulated(other))
    }

    /// Why the figures decide nothing, as far as a reason is known.
    fn why(&self, holds: Holds) -> Option<NotDecided<'a>> {
        let mut rows = self.rows.iter().map(|(row, _)| *row);
        match self.claim.holds {
            _ if holds != Holds::Open => None,
            Predicate::Flushes => {
                let because = rows.find_map(|r| r.durability.because.as_deref());
                because.map(NotDecided::Flushes)
            }
            _ if let Some(why) = (0..self.rows.len()).find_map(|at| self.unsure(at)) => Some(why),
            _ if self.known().any(|c| c.is_some_and(|c| !c.steady)) => Some(NotDecided::Changes),
            _ if self.known().any(|c| interval(c).is_none()) => Some(NotDecided::FewBlocks),
            Predicate::InPlace => Some(NotDecided::NoCopy),
            _ => None,
        }
    }

    /// Comparisons of the points that have a counterpart.
    fn known(&self) -> impl Iterator<Item = Option<&Comparison>> {
        let all = self.rows.iter().zip(&self.compared);
        all.filter(|((_, other), _)| other.is_ok())
            .map(|(_, c)| c.as_ref())
    }
}

/// What counts for a claim: probable verdicts only if it says so.
fn word(verdict: stats::Verdict, of: Share) -> Verdict {
    match verdict {
        stats::Verdict::ProbablySlower if of == Share::Undisputed => Verdict::Slower,
        stats::Verdict::ProbablyFaster if of == Share::Undisputed => Verdict::Faster,
        stats::Verdict::Same => Verdict::Same,
        stats::Verdict::Slower => Verdict::Slower,
        stats::Verdict::Faster => Verdict::Faster,
        _ => Verdict::Undecided,
    }
}

/// Decided by the interval: it has to lie on one side.
fn holds(relation: Relation, than: f64, [low, high]: [f64; 2]) -> Holds {
    match relation {
        Relation::AtMost => Holds::when(high <= than, low > than),
        Relation::AtLeast => Holds::when(low >= than, high < than),
        Relation::Below => Holds::when(high < than, low >= than),
        Relation::Above => Holds::when(low > than, high <= than),
        Relation::Near => {
            let (least, most) = (than * (1.0 - NEARLY), than / (1.0 - NEARLY));
            Holds::when(low >= least && high <= most, high < least || low > most)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_decide() {
        use Relation::{Above, AtLeast, AtMost, Below, Near};
        for (relation, than, interval, answer) in [
            (AtLeast, 2.7, [2.7, 3.0], Holds::Yes),
            (AtLeast, 2.7, [2.0, 2.6], Holds::No),
            (AtLeast, 2.7, [2.6, 2.8], Holds::Open),
            (AtMost, 0.5, [0.4, 0.5], Holds::Yes),
            (AtMost, 0.5, [0.51, 0.6], Holds::No),
            (Above, 1.0, [1.01, 1.1], Holds::Yes),
            (Above, 1.0, [0.9, 1.0], Holds::No),
            (Above, 1.0, [0.9, 1.1], Holds::Open),
            (Below, 1.0, [0.8, 0.99], Holds::Yes),
            (Below, 1.0, [1.0, 1.2], Holds::No),
            (Near, 1.0, [0.95, 1.05], Holds::Yes),
            (Near, 1.0, [0.5, 0.89], Holds::No),
            (Near, 1.0, [1.2, 1.5], Holds::No),
            (Near, 1.0, [0.8, 1.05], Holds::Open),
        ] {
            assert_eq!(
                holds(relation, than, interval),
                answer,
                "{relation:?} {interval:?}"
            );
        }
    }
}
