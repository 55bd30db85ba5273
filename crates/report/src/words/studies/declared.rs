//! What the claims of a plan say: its own text, whose placeholders are filled here.

use layermark_model::{Claim, Predicate, Quantity, format_size};

use super::Claimed;
use crate::{
    code_span,
    number::{self, count, list},
    statements::studies::declared::{
        ClaimPoint, ClaimPoints, DeclaredClaim, HostCpu, MissingWhy, NoReference, NotDecided,
        WorkUnit,
    },
    types::{Holds, Verdict},
    words::{Names, Text, Words, remarks::STALLS, text},
};

/// Most ratios that a sentence lists one by one.
const LISTED: usize = 4;

impl Words for DeclaredClaim<'_> {
    fn words(&self, names: &Names) -> Text {
        let claim = self.claim(names);
        match self {
            Self::NotMeasured(_, some) => {
                let why = match some {
                    true => "not measured",
                    false => "none of its layers was measured",
                };
                text!("{claim}: {why}")
            }
            Self::NoReference(_, layer, why) => open(&claim, layer, &why.words(names)),
            Self::Points(of) if of.is_unknown() => open(&claim, of.layer, &missing(of)),
            Self::Points(of) => points(of, &claim, names),
        }
    }
}

impl Claimed for DeclaredClaim<'_> {
    fn claim(&self, _: &Names) -> Text {
        let named = |of: &Claim| {
            of.against
                .as_ref()
                .map_or("native", |l| l.as_str())
                .to_owned()
        };
        let (claim, against) = match self {
            Self::NotMeasured(claim, _) | Self::NoReference(claim, ..) => (*claim, named(claim)),
            Self::Points(of) => (of.claim, of.against.to_owned()),
        };
        claim.says.fill(|_| against.clone()).into()
    }
}

fn open(claim: &Text, layer: &str, why: &Text) -> Text {
    text!("{claim} in {}: {why}", Text::code(layer))
}

impl Words for NoReference<'_> {
    fn words(&self, _: &Names) -> Text {
        match self {
            Self::Native => "native was not measured".into(),
            Self::OfItsCpu => "no layer with its kind of CPU was measured".into(),
            Self::Named(name) => text!("{} was not measured", Text::code(name)),
            Self::Several(name, all) => {
                let all: Vec<Text> = all.iter().map(|l| Text::code(l)).collect();
                text!("{} is each of {}", Text::code(name), list(&all))
            }
        }
    }
}

/// The claim's own text, or a sentence with its ratios.
fn points(of: &ClaimPoints, claim: &Text, names: &Names) -> Text {
    let missing = missing(of);
    let why = of
        .why
        .map_or_else(Text::default, |w| text!("; {}", w.words(names)));
    let why = if of.missing().is_empty() {
        why
    } else {
        text!("{why}; {missing}")
    };
    let fill = |word: &str| String::from(placeholder(of, word, &why));
    let refuted = of.points.iter().filter(|p| p.holds == Holds::No);
    let refuted: Vec<Text> = refuted.map(|p| Text::code(&p.row.label)).collect();
    let layer = Text::code(of.layer);
    match &of.claim.text {
        Some(own) if of.why_is_needed && !own.has("why") => text!("{}{why}", own.fill(fill)),
        Some(own) => own.fill(fill).into(),
        None if of.count() > LISTED && !refuted.is_empty() => {
            let refuted = match refuted.len() {
                1..=3 => list(&refuted).into(),
                n => text!("{n} of them"),
            };
            text!(
                "{claim} in {layer}: {}; not so at {refuted}{why}",
                fill("ratios")
            )
        }
        None => text!("{claim} in {layer}: {}{why}", fill("ratios")),
    }
}

/// What a placeholder stands for.
fn placeholder(of: &ClaimPoints, word: &str, why: &Text) -> Text {
    let all = count(of.count(), each(of.claim));
    match word {
        "layer" => Text::code(of.layer),
        "against" => Text::code(of.against),
        "n" => all.into(),
        "yes" => text!("{}", of.yes()),
        "same" => text!("{}", of.with(Verdict::Same)),
        "slower" => text!("{}", of.with(Verdict::Slower)),
        "faster" => text!("{}", of.with(Verdict::Faster)),
        "mean" => mean(of),
        "spread" if of.ratios().len() < of.count() => spread(of, &all),
        "spread" => spread(of, ""),
        "verdicts" => verdicts(of, &all),
        "costs" => listed(of, cost),
        "ratios" if matches!(of.claim.holds, Predicate::Flushes) => listed(of, flushes),
        "ratios" if of.count() > LISTED => spread(of, &all),
        "ratios" => {
            let written = if of.is_of_time() {
                number::ratio_with
            } else {
                number::share_with
            };
            listed(of, |p| {
                let ratio = p.ratio.as_ref().map_or_else(unknown, written);
                text!("{ratio} at {}", Text::code(&p.row.label))
            })
        }
        "why" => why.clone(),
        _ => Text::default(),
    }
}

fn each(claim: &Claim) -> &str {
    claim.each.as_deref().unwrap_or("operation")
}

fn unknown() -> String {
    "an unknown part".into()
}

fn listed(of: &ClaimPoints, one: impl Fn(&ClaimPoint) -> Text) -> Text {
    list(&of.points.iter().map(one).collect::<Vec<_>>()).into()
}

/// ``not measured: `a` and `b` ``; empty if no point is missing.
fn missing(of: &ClaimPoints) -> Text {
    let all = of.missing();
    let mut reasons: Vec<MissingWhy> = all.iter().map(|m| m.0).collect();
    reasons.sort_unstable();
    reasons.dedup();
    let told = reasons.into_iter().map(|why| {
        let points = all.iter().filter(|m| m.0 == why);
        let points: Vec<Text> = crate::group::distinct(points.map(|m| Text::code(m.1)));
        let points = match points.len() {
            1..=LISTED => list(&points),
            n => count(n, each(of.claim)),
        };
        text!("{}: {points}", why.word())
    });
    Text::joined(told, "; ")
}

impl MissingWhy {
    fn word(self) -> &'static str {
        match self {
            Self::NotMeasured => "not measured",
            Self::NotTrusted => "not trusted",
            Self::SeveralCounterparts => "with several counterparts",
            Self::NoCounterpart => "without a counterpart",
        }
    }
}

impl Words for NotDecided<'_> {
    fn words(&self, _: &Names) -> Text {
        match self {
            Self::Cpus(n) => text!("this machine has {n} CPUs"),
            Self::Emulated(other) => {
                text!("its CPU is emulated (TCG), and {other}'s is not")
            }
            Self::Flushes(because) => (*because).into(),
            Self::OtherPrograms => "other programs used the CPUs as well".into(),
            Self::Stalls => STALLS.into(),
            Self::Changes => "the ratio changes late in the run".into(),
            Self::FewBlocks => "too few repeats for an interval".into(),
            Self::NoCopy => "nothing shows that the file was copied".into(),
        }
    }
}

/// `1.20x in the mean (1.02 to 3.40), at 7 points`, or `1.02x to 3.40x, at 5 of 7 points`.
fn spread(of: &ClaimPoints, points: &str) -> Text {
    let ratios = of.ratios();
    let some = ratios.len() < of.count();
    let low = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let high = ratios.iter().copied().fold(0.0, f64::max);
    let told = match of.mean {
        None => return text!("no ratio, at {points}"),
        Some(mean) if !some && of.is_one_operation() => super::spread(mean, [low, high]),
        Some(_) => text!("{}x to {}x", number::ratio(low), number::ratio(high)),
    };
    match points {
        "" => told,
        points if some => text!("{told}, at {} of {points}", ratios.len()),
        points => text!("{told}, at {points}"),
    }
}

/// `, 1.80x native's time in the mean`, if every point has a ratio.
fn mean(of: &ClaimPoints) -> Text {
    let whole = of.ratios().len() == of.count() && of.is_one_operation();
    let mean = of.mean.filter(|_| whole);
    mean.map_or_else(Text::default, |mean| {
        let baseline = code_span::baseline(of.against);
        text!(", {} in the mean", number::of_baseline(mean, &baseline))
    })
}

/// `64 device flushes for 64 syncs`.
fn flushes(of: &ClaimPoint) -> Text {
    let durability = &of.row.durability;
    match durability.flushes {
        Some(n) => text!(
            "{n} device flushes for {}",
            count(durability.syncs as usize, "sync")
        ),
        None => durability.because.as_deref().unwrap_or_default().into(),
    }
}

/// `the same at 2 of 4 record sizes; slower 1.80x at 4K`.
fn verdicts(of: &ClaimPoints, all: &str) -> Text {
    let is_apart = |v: Verdict| matches!(v, Verdict::Slower | Verdict::Faster);
    let known = of.points.iter().filter(|p| p.other.is_ok()).count();
    let same = of.with(Verdict::Same);
    let apart = of.points.iter().filter(|p| is_apart(p.verdict));
    let open = known - same - apart.clone().count();
    let counted = [(same, "the same"), (open, "too noisy")].into_iter();
    let counted = counted.filter(|(n, _)| *n > 0);
    let counted = counted.map(|(n, word)| text!("{word} at {n} of {all}"));
    let differing = apart.filter_map(|p| {
        let ratio = match p.verdict {
            Verdict::Faster => 1.0 / p.ratio?.estimate,
            _ => p.ratio?.estimate,
        };
        let at: Text = match p.row.meaning.value(Quantity::RequestSize) {
            None | Some(0) => Text::code(&p.row.label),
            Some(size) => format_size(size).into(),
        };
        let (word, ratio) = (p.verdict.word(), number::ratio(ratio));
        Some(text!("{word} {ratio}x at {at}"))
    });
    Text::joined(counted.chain(differing), "; ")
}

/// `2.41x (2.30-2.52) at ..., with 3.1 us of this host's CPU a KB against 9.8 us`. The ratio is that of
/// throughputs.
fn cost(of: &ClaimPoint) -> Text {
    let here = of.other.as_ref().unwrap_or(&of.row);
    let ratio = of.ratio.as_ref().map_or_else(unknown, number::share_with);
    let cpu = of.cpu.map(|[ours, theirs]| {
        text!(
            ", with {} of this host's CPU {} against {}",
            number::time(ours.us),
            ours.per.word(),
            number::time(theirs.us)
        )
    });
    text!("{ratio} at `{}`{}", here.label, cpu.unwrap_or_default())
}

impl WorkUnit {
    fn word(self) -> &'static str {
        match self {
            Self::Kilobyte => "a KB",
            Self::Operation => "an operation",
        }
    }
}

/// `3.1 us a KB`.
impl Words for HostCpu {
    fn words(&self, _: &Names) -> Text {
        text!("{} {}", number::time(self.us), self.per.word())
    }
}
