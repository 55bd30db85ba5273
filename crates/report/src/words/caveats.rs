//! Limits of all other sentences.

use layermark_model::{Cut, Run, StoreOption};

use crate::{
    number::{self, count, list},
    statements::caveats::{BusyMachine, Caveat, Ended, Limited, Waited},
    words::{Names, Text, Words, limits, text},
};

impl Words for Caveat<'_> {
    fn words(&self, names: &Names) -> Text {
        match self {
            Self::Emulated { layers, estimated } => {
                let each: Vec<Text> = layers.iter().map(|l| Text::code(l)).collect();
                let each = list(&each);
                let estimates = if *estimated {
                    "; the estimate of a program there does not include that its own computing takes longer"
                } else {
                    ""
                };
                text!(
                    "{each} ran on an emulated CPU (without KVM): ratios to {} include what the emulation costs; compare \
                     such guests with each other; the sentences about fsync hold{estimates}",
                    names.baseline()
                )
            }
            Self::Busy(busy) => busy.words(names),
            Self::Limits(all) => {
                let each = Text::joined(all.iter().map(limited), "; ");
                text!(
                    "Limits that refill: {each}; they refill between short turns, so work without pauses may be slower than shown"
                )
            }
            Self::Locks(why, layers) => {
                let layers: Vec<Text> = layers.iter().map(|l| Text::code(l)).collect();
                let layers = list(&layers);
                text!(
                    "Locks in {layers} are not proved between machines: {}",
                    why.words(names)
                )
            }
            Self::CutShort(run, ended) => {
                let why = match ended {
                    Ended::ByUser => "Stopped by the user",
                    Ended::ByError => "Ended by an error",
                    Ended::Interrupted => "Interrupted",
                };
                text!("{why}: {}", go_on(run, ""))
            }
            Self::CutByBudget(run, cut) => cut_by_budget(run, cut),
            Self::Waited(waited) => waited.words(names),
        }
    }
}

impl BusyMachine {
    /// What other programs did, as the rest of a sentence about them.
    pub(super) fn disturbed(&self) -> Text {
        let share = number::percent(self.share());
        let cells = match self.wholly {
            0 => String::new(),
            n => format!(", in {n} of {} all of them", count(self.cells, "result")),
        };
        text!("disturbed {share} of the measurements{cells}")
    }
}

impl Words for BusyMachine {
    fn words(&self, _: &Names) -> Text {
        text!("Busy machine: other programs {}", self.disturbed())
    }
}

impl Words for Waited {
    fn words(&self, _: &Names) -> Text {
        let which = if self.everywhere {
            "Times"
        } else {
            "Times of one thread in layers that only the kernel serves"
        };
        let share = number::percent(self.share);
        text!("{which} are without {share} of the time, which waited for a CPU")
    }
}

fn limited(of: &Limited) -> Text {
    let Some(layers) = &of.layers else {
        return limits::limit(of.limit, "each probe");
    };
    let layers: Vec<Text> = layers.iter().map(|l| Text::code(l)).collect();
    let whose = if of.limit.helper { "program" } else { "probe" };
    limits::limit(of.limit, &format!("the {whose} of {}", list(&layers)))
}

fn cut_by_budget(run: &Run, cut: &Cut) -> Text {
    let point = cut.point.as_deref();
    let point = point.map(|point| format!("{} ", Text::code(point)));
    let layer = cut.layer.as_deref();
    let layer = layer.map(|layer| format!("in {} ", Text::code(layer)));
    let block = cut.block.map(|block| format!("in repeat {block} "));
    let at = match (&point, &layer, &block) {
        (None, None, None) => "the run ".to_owned(),
        _ => [point, layer, block]
            .map(Option::unwrap_or_default)
            .concat(),
    };
    let budget = run.plan.budget.as_deref().unwrap_or_default();
    // A set-up takes as long again.
    let smaller = if cut.in_set_up() {
        let smaller = Text::code("--scale 0.1");
        format!("{smaller} makes the files that layers take in smaller, ")
    } else {
        String::new()
    };
    text!(
        "The budget of {budget} was spent: {at}was cut after {} s, while {}; {smaller}{}",
        cut.at_s,
        cut.during,
        go_on(run, &format!(" --budget {}s", cut.enough_s))
    )
}

/// The command that continues a run. One that was sent can only be made anew.
fn go_on(run: &Run, more: &str) -> Text {
    let sent = run.sent || matches!(run.store, StoreOption::Archive(_));
    let (flag, does) = if sent {
        ("--replay", "makes it anew")
    } else {
        ("--resume", "continues it")
    };
    let found = run.store.find(&run.id);
    // What starts its hosts is a command, and the run may be of another user.
    let command = match run.fleet {
        None => format!("layermark run {flag} {found}{more}"),
        Some(_) if sent => {
            "layermark fleet run PLAN --share DIR --launcher LAUNCHER --hosts HOSTS".to_owned()
        }
        Some(_) => {
            format!("layermark fleet run --resume {found} --launcher LAUNCHER --hosts HOSTS{more}")
        }
    };
    text!("{} {does}", Text::code(&command))
}
