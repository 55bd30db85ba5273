//! Study of emulated against paravirtual I/O (HP Integrity VM, VIO against AVIO): bars of the three
//! stacks, and the study's claims.
//!
//! Guests with an emulated CPU are compared with each other. A comparison with native would show
//! the cost of emulation.

use layermark_model::{Point, Quantity, StudyId, Target, Unit};
use layermark_stats::{Comparison, compare_all};

use super::{
    Data, Study,
    rows::{is_emulated, marked, usable},
};
use crate::{
    analysis::LEVEL,
    code_span::code,
    number as text,
    types::{Conclusion, Estimate, Holds, ResultRow, Section},
};

mod stacks;

use stacks::{Stack, is_path, stacks};

/// See the module.
pub struct VirtualIo;

impl Study for VirtualIo {
    fn id(&self) -> StudyId {
        StudyId::VirtualIoStack
    }

    fn section(&self, data: &Data) -> Section {
        let mut conclusions: Vec<Conclusion> =
            CLAIMS.iter().flat_map(|c| c.conclusions(data)).collect();
        for conclusion in &mut conclusions {
            conclusion.text = marked(data, std::mem::take(&mut conclusion.text));
        }
        Section {
            name: self.id().id().into(),
            title: "Study: emulated against paravirtual I/O".into(),
            about: "Throughput of the same work natively, through emulated hardware and through paravirtual devices: more is better. Guests on an emulated CPU (TCG) are compared with each other. The figures do not apply to KVM.".into(),
            tables: [stacks(data, false), stacks(data, true)].concat(),
            conclusions,
            ..Section::default()
        }
    }

    fn headline(&self, _: &Data, section: &Section) -> Option<String> {
        super::counted(&section.conclusions)
    }
}

/// A claim of the study.
struct Claim {
    /// The sentence with its figure.
    text: &'static str,
    /// The points that it is about.
    about: fn(&Point) -> bool,
    /// The stack that paravirtual throughput is compared with.
    over: Stack,
    /// Whether it is about paths from guest to guest.
    paths: bool,
    says: Says,
}

/// The claim about the ratio of throughputs.
#[derive(Clone, Copy)]
enum Says {
    AtLeast(f64),
    Above,
    /// Equal within [`NEARLY`].
    Equal,
}

/// Largest difference between throughputs that the study calls equal, as a share.
const NEARLY: f64 = 0.1;

impl Says {
    fn holds(self, [low, high]: [f64; 2]) -> Holds {
        match self {
            Self::AtLeast(factor) => Holds::when(low >= factor, high < factor),
            Self::Above => Holds::when(low > 1.0, high <= 1.0),
            Self::Equal => {
                let (least, most) = (1.0 - NEARLY, 1.0 / (1.0 - NEARLY));
                Holds::when(low >= least && high <= most, high < least || low > most)
            }
        }
    }
}

/// Network work with all CPUs: netperf's `stream`, the `get` and `put` of FTP, the `GET` of HTTP.
fn network(at: &Point, operation: &str) -> bool {
    let said = &at.meaning;
    said.target == Target::Network && said.operation == operation && said.cpus().is_none()
}

fn stream(at: &Point, buffer: u64) -> bool {
    network(at, "stream") && at.meaning.value(Quantity::SocketBuffer) == Some(buffer)
}

const CLAIMS: &[Claim] = &[
    Claim {
        text: "32 KB sockets, guest and host: paravirtual carries 2.7x of emulated",
        about: |at| stream(at, 32 << 10),
        over: Stack::Emulated,
        paths: false,
        says: Says::AtLeast(2.7),
    },
    Claim {
        text: "256 KB sockets, guest and host: paravirtual carries 2.3x of emulated",
        about: |at| stream(at, 256 << 10),
        over: Stack::Emulated,
        paths: false,
        says: Says::AtLeast(2.3),
    },
    Claim {
        text: "256 KB sockets, guest and host: paravirtual is nearly native",
        about: |at| stream(at, 256 << 10),
        over: Stack::Native,
        paths: false,
        says: Says::Equal,
    },
    Claim {
        text: "256 KB sockets, guest to guest: paravirtual is above native",
        about: |at| stream(at, 256 << 10),
        over: Stack::Native,
        paths: true,
        says: Says::Above,
    },
    Claim {
        text: "FTP get: paravirtual carries 1.8x of emulated",
        about: |at| network(at, "get"),
        over: Stack::Emulated,
        paths: false,
        says: Says::AtLeast(1.8),
    },
    Claim {
        text: "FTP put: paravirtual and emulated are equal",
        about: |at| network(at, "put"),
        over: Stack::Emulated,
        paths: false,
        says: Says::Equal,
    },
    Claim {
        text: "web server: paravirtual serves 2.2x of emulated",
        about: |at| network(at, "GET"),
        over: Stack::Emulated,
        paths: false,
        says: Says::AtLeast(2.2),
    },
    Claim {
        text: "web server: paravirtual is equal to native",
        about: |at| network(at, "GET"),
        over: Stack::Native,
        paths: false,
        says: Says::Equal,
    },
    Claim {
        text: "SDET at 4 CPUs: paravirtual does 20 % more than emulated",
        about: |at| at.meaning.target == Target::Script && at.meaning.cpus() == Some(4),
        over: Stack::Emulated,
        paths: false,
        says: Says::AtLeast(1.2),
    },
];

impl Claim {
    /// One conclusion for each layer that paravirtual devices are compared with.
    fn conclusions(&self, data: &Data) -> Vec<Conclusion> {
        let points = || data.run.points.iter().filter(|p| (self.about)(p));
        let rows = |stack: Stack, paths: bool| -> Vec<&ResultRow> {
            let labels: Vec<&str> = points().map(|p| p.label.as_str()).collect();
            let own = data.results.iter().filter(|r| usable(r));
            own.filter(|r| labels.contains(&r.label.as_str()))
                .filter(|r| place(data, r) == Some((stack, paths)))
                .collect()
        };
        let ours = rows(Stack::Paravirtual, self.paths);
        let theirs = rows(self.over, self.paths && self.over != Stack::Native);
        let mut layers: Vec<&str> = Vec::new();
        for row in &theirs {
            if !layers.contains(&row.layer.as_str()) {
                layers.push(&row.layer);
            }
        }
        let Some(first) = ours.first().filter(|_| !layers.is_empty()) else {
            return vec![self.not_measured(data)];
        };
        let set_against = |layer: &&str| {
            let sides = ours
                .iter()
                .filter(|r| r.layer == first.layer)
                .filter_map(|here| {
                    let mut there = theirs.iter();
                    let there = there.find(|r| r.layer == *layer && r.label == here.label)?;
                    Some((*here, *there))
                });
            self.decide(data, &sides.collect::<Vec<_>>())
        };
        layers.iter().map(set_against).collect()
    }

    /// In the column of the first layer of the other stack.
    fn not_measured(&self, data: &Data) -> Conclusion {
        let mut layers = data.run.layers.iter();
        let over = layers.find(|l| Stack::of(&l.spec, Target::Network) == Some(self.over));
        Conclusion {
            text: format!("{}: cannot be decided: not measured", self.text),
            claim: self.text.into(),
            layer: over.map_or_else(String::new, |l| l.name.clone()),
            holds: Holds::Open,
            evidence: Vec::new(),
        }
    }

    /// Decides from results in the paravirtual stack, each with that of the other stack at the same
    /// point.
    fn decide(&self, data: &Data, sides: &[(&ResultRow, &ResultRow)]) -> Conclusion {
        let Some((here, there)) = sides.first() else {
            return self.not_measured(data);
        };
        let compared = compared(data, sides);
        let told = sides.iter().zip(&compared);
        let told: Vec<String> = told
            .map(|(side, c)| in_words(data, *side, c.as_ref()))
            .collect();
        let all: Vec<Holds> = compared.iter().map(|c| self.holds(c.as_ref())).collect();
        let (layer, other) = (code(&here.layer), code(&there.layer));
        let (holds, why) = if let Some(why) = self.undecidable(data, here) {
            (Holds::Open, format!("; cannot be decided: {why}"))
        } else {
            let yes = all.iter().all(|h| *h == Holds::Yes);
            let few = compared.iter().any(|c| interval(c.as_ref()).is_none());
            let why = if few {
                "; too few blocks for an interval"
            } else {
                ""
            };
            (Holds::when(yes, all.contains(&Holds::No)), why.to_owned())
        };
        let evidence = sides.iter().flat_map(|(a, b)| [a.id.clone(), b.id.clone()]);
        Conclusion {
            text: format!(
                "{}: {layer} over {other}: {}{why}",
                self.text,
                text::list(&told)
            ),
            claim: self.text.into(),
            layer: there.layer.clone(),
            holds,
            evidence: evidence.collect(),
        }
    }

    fn holds(&self, compared: Option<&Comparison>) -> Holds {
        interval(compared).map_or(Holds::Open, |i| self.says.holds(i))
    }

    /// Why the figures do not give an answer.
    fn undecidable(&self, data: &Data, here: &ResultRow) -> Option<String> {
        let there = data.run.machine.cpus;
        if here.meaning.cpus().is_some_and(|asked| asked > there) {
            return Some(format!("this machine has {there} CPUs"));
        }
        let emulated = self.over == Stack::Native && is_emulated(data, &here.layer);
        emulated.then(|| "its CPU is emulated (TCG), and native's is not".into())
    }
}

/// The stack of a result's layer for its point's target, and whether it is a path from guest to
/// guest.
fn place(data: &Data, row: &ResultRow) -> Option<(Stack, bool)> {
    let layer = data.run.layers.iter().find(|l| l.name == row.layer)?;
    let stack = Stack::of(&layer.spec, row.meaning.target)?;
    Some((stack, is_path(layer)))
}

/// Ratios of throughputs, from the blocks in which both have a number.
fn compared(data: &Data, sides: &[(&ResultRow, &ResultRow)]) -> Vec<Option<Comparison>> {
    let site = |row: &ResultRow| data.run.site(&row.layer, &row.label);
    let pairs = |(here, there): &(&ResultRow, &ResultRow)| {
        // The comparison is of times, so the order is reversed.
        let both = site(there).zip(site(here));
        both.map_or_else(Vec::new, |(there, here)| data.index.pairs_of(there, here))
    };
    let pairs: Vec<_> = sides.iter().map(pairs).collect();
    compare_all(&pairs, LEVEL, data.run.seed)
}

/// `2.41x (2.30-2.52) at ..., with 3.1 us of this host's CPU a KB against 9.8 us`.
fn in_words(
    data: &Data,
    (here, there): (&ResultRow, &ResultRow),
    c: Option<&Comparison>,
) -> String {
    let ratio = c.map_or_else(
        || "an unknown part".into(),
        |c| text::share_with(&estimate(c)),
    );
    let cost = host_cpu(data, here).zip(host_cpu(data, there));
    let cost = cost.map_or_else(String::new, |((ours, per), (theirs, _))| {
        let (ours, theirs) = (text::time(ours), text::time(theirs));
        format!(", with {ours} of this host's CPU {per} against {theirs}")
    });
    format!("{ratio} at `{}`{cost}", here.label)
}

fn estimate(c: &Comparison) -> Estimate {
    Estimate {
        estimate: c.ratio,
        interval: interval(Some(c)),
        average: None,
    }
}

fn interval(c: Option<&Comparison>) -> Option<[f64; 2]> {
    let interval = c?.ratio_interval?;
    Some([interval.low, interval.high])
}

/// CPU time of this machine in microseconds, of all programs, and the unit of work.
fn host_cpu(data: &Data, row: &ResultRow) -> Option<(f64, &'static str)> {
    let (layer, point) = data.run.site(&row.layer, &row.label)?;
    let trials = data.index.trials(layer, point).into_iter();
    let trials: Vec<_> = trials.filter_map(|t| t.trial.as_ref()).collect();
    let busy: Option<u64> = trials.iter().map(|t| t.busy_ns).sum();
    let (units, per) = match row.meaning.unit {
        Unit::Byte => (
            trials.iter().map(|t| t.bytes()).sum::<u64>() as f64 / 1024.0,
            "a KB",
        ),
        _ => (
            trials.iter().map(|t| t.ops()).sum::<u64>() as f64,
            "an operation",
        ),
    };
    let us = busy? as f64 / 1e3 / units;
    us.is_finite().then_some((us, per))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_decide() {
        for (says, interval, holds) in [
            (Says::AtLeast(2.7), [2.7, 3.0], Holds::Yes),
            (Says::AtLeast(2.7), [2.0, 2.6], Holds::No),
            (Says::AtLeast(2.7), [2.6, 2.8], Holds::Open),
            (Says::Above, [1.01, 1.1], Holds::Yes),
            (Says::Above, [0.9, 1.0], Holds::No),
            (Says::Above, [0.9, 1.1], Holds::Open),
            (Says::Equal, [0.95, 1.05], Holds::Yes),
            (Says::Equal, [0.5, 0.89], Holds::No),
            (Says::Equal, [1.2, 1.5], Holds::No),
            (Says::Equal, [0.8, 1.05], Holds::Open),
        ] {
            assert_eq!(says.holds(interval), holds, "{interval:?}");
        }
    }
}
