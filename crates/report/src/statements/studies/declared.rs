//! What the claims of a plan say.

use layermark_model::{Claim, Predicate, Quotient};

use crate::types::{Estimate, Holds, ResultRow, Verdict};

/// A claim of a plan about a layer.
#[derive(Debug)]
pub enum DeclaredClaim<'a> {
    /// Nothing that it is about was measured; whether one of its layers was.
    NotMeasured(&'a Claim, bool),
    /// The layer has no other one to compare it with.
    NoReference(&'a Claim, &'a str, NoReference<'a>),
    /// Its points.
    Points(Box<ClaimPoints<'a>>),
}

/// Why a layer is not compared.
#[derive(Debug, Clone, PartialEq)]
pub enum NoReference<'a> {
    /// Native was not measured.
    Native,
    /// No layer with its kind of CPU was measured.
    OfItsCpu,
    /// The named layer was not measured.
    Named(&'a str),
    /// The name is that of several layers.
    Several(&'a str, Vec<&'a str>),
}

/// Points of a claim in one layer, each with its counterpart.
#[derive(Debug)]
pub struct ClaimPoints<'a> {
    /// The claim.
    pub claim: &'a Claim,
    /// The layer.
    pub layer: &'a str,
    /// The layer that it is compared with.
    pub against: &'a str,
    /// The points.
    pub points: Vec<ClaimPoint<'a>>,
    /// Points of the plan that have no result in the layer.
    pub absent: Vec<MissingPoint<'a>>,
    /// Geometric mean of the ratios.
    pub mean: Option<f64>,
    /// Why it is not decided, as far as a reason is known.
    pub why: Option<NotDecided<'a>>,
    /// Whether that reason is needed to read the figures.
    pub why_is_needed: bool,
}

/// A point of a claim.
#[derive(Debug)]
pub struct ClaimPoint<'a> {
    /// The result.
    pub row: &'a ResultRow,
    /// Its counterpart.
    pub other: Result<&'a ResultRow, MissingPoint<'a>>,
    /// The ratio of both.
    pub ratio: Option<Estimate>,
    /// The verdict on it.
    pub verdict: Verdict,
    /// CPU time of this machine, for the counterpart and for the result, if the text asks for it.
    pub cpu: Option<[HostCpu; 2]>,
    /// Whether the claim holds here.
    pub holds: Holds,
}

/// CPU time of this machine, of all programs.
#[derive(Debug, Clone, Copy)]
pub struct HostCpu {
    /// Microseconds.
    pub us: f64,
    /// The unit of work.
    pub per: WorkUnit,
}

/// A unit of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkUnit {
    /// 1024 bytes.
    Kilobyte,
    /// An operation.
    Operation,
}

/// Why a point counts as open, and its label.
#[derive(Debug, Clone, PartialEq)]
pub struct MissingPoint<'a>(pub MissingWhy, pub &'a str);

/// Why a point counts as open, in the order of sentences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MissingWhy {
    /// It was not measured.
    NotMeasured,
    /// Its result is not trusted.
    NotTrusted,
    /// It has several counterparts.
    SeveralCounterparts,
    /// It has no counterpart.
    NoCounterpart,
}

/// Why a claim is not decided.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NotDecided<'a> {
    /// Points need more CPUs than this machine has.
    Cpus(u32),
    /// Only one CPU is emulated, and not that of this layer.
    Emulated(&'a str),
    /// The reason of the verdict on flushes.
    Flushes(&'a str),
    /// Other programs used the CPUs.
    OtherPrograms,
    /// A few operations take very long.
    Stalls,
    /// The ratio changes during the run.
    Changes,
    /// There are too few blocks for an interval.
    FewBlocks,
    /// Nothing shows that a file was copied.
    NoCopy,
}

impl NotDecided<'_> {
    /// Whether no figure could decide it.
    pub fn is_undecidable(&self) -> bool {
        matches!(self, Self::Cpus(_) | Self::Emulated(_))
    }
}

impl<'a> ClaimPoints<'a> {
    /// How many points it is about.
    pub fn count(&self) -> usize {
        self.points.len() + self.absent.len()
    }

    /// At how many points it holds.
    pub fn yes(&self) -> usize {
        let holds = |p: &&ClaimPoint| p.holds == Holds::Yes;
        self.points.iter().filter(holds).count()
    }

    /// How many points have this verdict.
    pub fn with(&self, verdict: Verdict) -> usize {
        let of = |p: &&ClaimPoint| p.verdict == verdict;
        self.points.iter().filter(of).count()
    }

    /// The known ratios.
    pub fn ratios(&self) -> Vec<f64> {
        let ratios = self.points.iter().filter_map(|p| p.ratio);
        ratios.map(|e| e.estimate).collect()
    }

    /// Its points that count as open.
    pub fn missing(&self) -> Vec<&MissingPoint<'a>> {
        let points = self.points.iter();
        let missing = points.filter_map(|p| p.other.as_ref().err());
        missing.chain(&self.absent).collect()
    }

    /// Whether no point has a counterpart.
    pub fn is_unknown(&self) -> bool {
        self.points.iter().all(|p| p.other.is_err())
    }

    /// Whether its points are of one operation: a mean of different ones is of nothing. To start a program is
    /// one operation, whatever the program.
    pub fn is_one_operation(&self) -> bool {
        let operation = |r: &'a ResultRow| {
            let named = !r.meaning.runs_programs();
            (&r.workload, named.then_some(&r.meaning.operation))
        };
        let mut all = self.points.iter().map(|p| operation(p.row));
        let first = all.next();
        all.all(|of| Some(of) == first)
    }

    /// Whether its ratio is one of times.
    pub fn is_of_time(&self) -> bool {
        !matches!(&self.claim.holds, Predicate::Ratio(of, ..) if *of != Quotient::Time)
    }
}
