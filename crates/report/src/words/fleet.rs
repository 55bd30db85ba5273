//! What is said about a fleet.

use layermark_model::RunStatus;

use crate::{
    number::{self, amount, count, list, percent},
    statements::fleet::{
        CheckAnswer, CurveSays, FleetAnswer, HostDiffers, HostPart, HostSays, HostsUnlike,
        NothingAt,
    },
    types::{Estimate, FleetHostRow, FleetPoint, FleetStep},
    words::{
        Names, Text, Words,
        lists::{coded, said_of},
        machine, text,
    },
};

/// Most reasons that a line names.
const REASONS: usize = 3;

/// What is said of a host, with its name.
pub fn line(host: &str, said: &str) -> Text {
    said_of(&Text::code(host), said)
}

/// What the curve of a point shows.
pub fn curve(of: &FleetPoint) -> Text {
    said_of(&of.label.as_str().into(), &of.text)
}

/// The slowest host of a point, if there is one.
pub fn slowest(of: &FleetPoint) -> Option<Text> {
    let slow = of.slowest.as_ref()?;
    let because = slow.because.as_ref().map(|why| text!("; {why}"));
    Some(text!(
        "{}: the slowest host is {}, {} beside the others{}",
        of.label,
        Text::code(&slow.name),
        number::times(&slow.ratio),
        because.unwrap_or_default()
    ))
}

/// How often a host did not do its part, and why the first time. The last turn of a lost host is that of its loss.
pub fn failed(of: &FleetHostRow) -> Option<Text> {
    let error = of.error.as_ref()?;
    (of.failed_turns > usize::from(of.lost)).then(|| {
        let (host, turns) = (Text::code(&of.name), count(of.failed_turns, "turn"));
        text!("{host}: {turns} failed; the first one: {error}")
    })
}

/// Rounds of a step in which all hosts did their part, and of how many if there are more.
pub fn rounds(of: &FleetStep) -> Text {
    let all = (of.incomplete > 0).then(|| text!(" of {}", of.rounds + of.incomplete));
    text!("{}{}", of.rounds, all.unwrap_or_default())
}

/// How far the starts of a step were apart, where its hosts are not proved to have worked at once.
pub fn not_at_once(of: &FleetStep) -> Text {
    let spread = number::time(of.start_spread_s * 1e6);
    text!("{spread}: not proved at once")
}

/// Hosts that work on their own disks.
pub fn on_own_disk(hosts: usize) -> Text {
    text!("{hosts}, own disk")
}

impl Words for HostSays<'_> {
    fn words(&self, names: &Names) -> Text {
        match self {
            Self::Like(of) => text!("like the others at all of {}", count(*of, "result")),
            Self::Odd(most, odd, of) => {
                let place = if most.layer == names.baseline {
                    names.natively()
                } else {
                    text!("in {}", Text::code(most.layer))
                };
                let more = (*odd > 1).then(|| text!(", and at {} more of {of}", odd - 1));
                text!(
                    "odd at {} {place} by {}{}",
                    most.point,
                    amount(most.ratio),
                    more.unwrap_or_default()
                )
            }
            Self::CannotTell(n) => text!(
                "cannot tell: like the others at {} of {}, not decided at {}",
                n.like,
                n.compared(),
                n.compared() - n.like
            ),
            Self::Lacks(like, missing) => text!(
                "cannot tell: like the others at {}; {missing} more could not be compared, because it or another host has none",
                count(*like, "result")
            ),
            Self::Lost(lost) => HostPart::Lost(lost).words(names),
            Self::Nothing => "cannot tell: it has no result that could be compared".into(),
        }
    }
}

impl Words for CheckAnswer<'_> {
    fn words(&self, _: &Names) -> Text {
        let lost = (!self.lost.is_empty()).then(|| {
            let were = number::verb(self.lost.len(), "was", "were");
            text!("; {} {were} lost", coded(&self.lost))
        });
        let lost = lost.unwrap_or_default();
        let nothing = (self.nothing > 0).then(|| {
            let results = count(self.nothing, "result");
            text!("; nothing could be measured on any host at {results}")
        });
        let lost = text!("{}{lost}", nothing.unwrap_or_default());
        if !self.compared {
            return text!("no answer: fewer than three hosts can be compared{lost}");
        }
        let of = count(self.hosts, "host");
        match self.odd.as_slice() {
            [] if self.like == self.hosts => text!("all {of} are alike"),
            [] => text!(
                "none of {of} is known to be odd; like the others at every result: {}{lost}",
                self.like
            ),
            [one] => text!("{} of {of} is the odd one{lost}", Text::code(one)),
            odd => text!("{} of {of} are odd: {}{lost}", odd.len(), coded(odd)),
        }
    }
}

impl Words for NothingAt<'_> {
    fn words(&self, names: &Names) -> Text {
        let place = if self.layer == names.baseline {
            names.natively()
        } else {
            text!("in {}", Text::code(self.layer))
        };
        let each = self.errors.iter().take(REASONS);
        let each = each.map(|(error, hosts)| text!("{error} ({})", count(*hosts, "host")));
        let more = self.errors.len().saturating_sub(REASONS);
        let more = (more > 0).then(|| text!("{}", count(more, "more reason")));
        let why = Text::joined(each.chain(more), "; ");
        let colon = if self.errors.is_empty() { "" } else { ": " };
        let point = self.point;
        text!("nothing could be measured on any host at {point} {place}{colon}{why}")
    }
}

impl Words for HostPart<'_> {
    fn words(&self, _: &Names) -> Text {
        match self {
            Self::Lost(lost) => text!("lost while {}: {}", lost.during, lost.why),
            Self::Until(RunStatus::Running) => "takes part".into(),
            Self::Until(RunStatus::Done) => "took part to the end".into(),
            Self::Until(RunStatus::Stopped) => "took part until the run was stopped".into(),
            Self::Until(RunStatus::Interrupted) => "took part until the run was interrupted".into(),
            Self::Until(RunStatus::Failed) => "took part until the run failed".into(),
        }
    }
}

/// `2.4 hosts (2.1 to 2.8)`.
fn hosts_of(knee: &Estimate) -> Text {
    let n = |value: f64| format!("{value:.1}");
    let span = knee
        .interval
        .map(|[low, high]| text!(" ({} to {})", n(low), n(high)));
    text!("{} hosts{}", n(knee.estimate), span.unwrap_or_default())
}

fn rate(step: &FleetStep) -> Text {
    let rate = step.rate.map_or(0.0, |rate| rate.estimate);
    number::value(rate, "ops/s").into()
}

impl Words for CurveSays<'_> {
    fn words(&self, _: &Names) -> Text {
        match self {
            Self::Bent(knee, one, best) => text!(
                "all together get no more than {} would get alone: {} to one host, at most {} to {}",
                hosts_of(knee),
                rate(one),
                rate(best),
                count(best.hosts, "host")
            ),
            Self::Straight(one, most) => text!(
                "no knee up to {}: {} to one host, {} to {}",
                count(most.hosts, "host"),
                rate(one),
                rate(most),
                count(most.hosts, "host")
            ),
            Self::Open(knee, most) => text!(
                "whether there is a knee up to {} is not decided: it would be at {}",
                count(most.hosts, "host"),
                hosts_of(knee)
            ),
            Self::NotAtOnce(step) => text!(
                "no knee is known: {} are not proved to have worked at once, because their starts were {} apart, and the shortest work took {}",
                count(step.hosts, "host"),
                number::time(step.start_spread_s * 1e6),
                number::time(step.turn_s * 1e6)
            ),
            Self::FewBlocks(blocks) => text!(
                "no knee is known: it needs six blocks in which all hosts did their part, and there {} {blocks}",
                number::verb(*blocks, "is", "are")
            ),
            Self::NoWholeRound(step) => text!(
                "no knee is known: in no round with {} at once did all of them do their part",
                count(step.hosts, "host")
            ),
            Self::NoCurve => "no knee: it needs one host alone and more of them at once".into(),
        }
    }
}

impl Words for FleetAnswer<'_> {
    fn words(&self, _: &Names) -> Text {
        let knees: Vec<Text> = self
            .reached
            .iter()
            .map(|(label, knee)| text!("{label} at {}", hosts_of(knee)))
            .collect();
        let reached = (!knees.is_empty()).then(|| text!("the share's knee: {}", list(&knees)));
        let straight = self.not_reached.iter().map(|(hosts, points)| {
            let (hosts, points) = (count(*hosts, "host"), count(*points, "point"));
            text!("no knee up to {hosts} at {points}")
        });
        let unknown = (self.unknown > 0)
            .then(|| text!("no knee is known at {}", count(self.unknown, "point")));
        let rest = [
            unknown,
            (self.lost > 0).then(|| {
                let were = number::verb(self.lost, "was", "were");
                text!("{} {were} lost", count(self.lost, "host"))
            }),
            match self.status {
                RunStatus::Done => None,
                RunStatus::Running => Some("in progress".into()),
                RunStatus::Stopped => Some("stopped by the user".into()),
                RunStatus::Interrupted => Some("interrupted".into()),
                RunStatus::Failed => Some("the run failed".into()),
            },
        ];
        let parts = reached.into_iter().chain(straight);
        let said = Text::joined(parts.chain(rest.into_iter().flatten()), "; ");
        if said.length() == 0 {
            return "nothing was measured".into();
        }
        said
    }
}

impl Words for HostDiffers<'_> {
    fn words(&self, _: &Names) -> Text {
        match self {
            Self::Waited(own, others) => text!(
                "it waited for a CPU {} of the time, the others {}",
                percent(*own),
                percent(*others)
            ),
            Self::Steal(own, others) => text!(
                "its hypervisor took {} of its CPUs, and {} of the others'",
                percent(*own),
                percent(*others)
            ),
            Self::Fact(fact, own, others) => text!(
                "{}: {}, of the others {}",
                machine::name(*fact),
                machine::value(*own),
                machine::value(*others)
            ),
            Self::Mount([fs, options], [other_fs, other_options]) => text!(
                "its share is mounted as {fs} with {options}, that of the others as {other_fs} with {other_options}"
            ),
        }
    }
}

impl Words for HostsUnlike<'_> {
    fn words(&self, _: &Names) -> Text {
        match self {
            Self::Values(fact, groups) => machine::values(*fact, groups),
            Self::Mounts(groups) => {
                let each = groups.iter();
                let each = each
                    .map(|([fs, options], hosts)| text!("{fs} with {options} in {}", coded(hosts)));
                text!("mount of the share: {}", Text::joined(each, "; "))
            }
            Self::OneMachine(hosts) => text!(
                "{} are on one machine, so they slow each other when they work at once",
                coded(hosts)
            ),
            Self::Clock(host, ahead) => {
                let side = if *ahead > 0.0 { "ahead" } else { "behind" };
                text!(
                    "the clock of {} is {} s {side}; no result depends on it",
                    Text::code(host),
                    number::sig3(ahead.abs())
                )
            }
            Self::Drift(host, seconds) => text!(
                "the clock of {} ran away by {} during the run; each round is timed by the comparison before it",
                Text::code(host),
                number::time(seconds * 1e6)
            ),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use layermark_model::{FleetPlace, LostHost};

    use super::*;
    use crate::{statements::odd::OddAt, types::Standings, words::said};

    pub fn step(hosts: usize, rate: f64) -> FleetStep {
        FleetStep {
            place: FleetPlace::Share,
            hosts,
            rounds: 6,
            incomplete: 0,
            rate: Some(Estimate::new(rate, None)),
            bytes_per_s: 0.0,
            ratio: None,
            first_done_s: 0.1,
            last_done_s: 0.2,
            start_spread_s: 0.0,
            turn_s: 0.0,
            at_once: None,
            fairness: 1.0,
            each_us: Vec::new(),
        }
    }

    #[test]
    fn hosts_have_a_word() {
        let slower = Estimate::new(1.3, None);
        let at = OddAt {
            layer: "native",
            point: "stat",
            ratio: &slower,
        };
        let lost = LostHost {
            during: "it had its turn".into(),
            why: "its launcher ended (exit status: 1)".into(),
        };
        let unknown = Standings {
            like: 4,
            unknown: 2,
            ..Standings::default()
        };
        for (says, text) in [
            (HostSays::Like(6), "like the others at all of 6 results"),
            (HostSays::Odd(at, 1, 6), "odd at stat natively by +30 %"),
            (
                HostSays::Odd(at, 3, 6),
                "odd at stat natively by +30 %, and at 2 more of 6",
            ),
            (
                HostSays::CannotTell(unknown),
                "cannot tell: like the others at 4 of 6, not decided at 2",
            ),
            (
                HostSays::Lost(&lost),
                "lost while it had its turn: its launcher ended (exit status: 1)",
            ),
        ] {
            assert_eq!(said(&says), text);
        }
    }

    #[test]
    fn a_check_names_odd_and_lost_hosts() {
        let answer = CheckAnswer {
            hosts: 3,
            odd: vec!["n2"],
            lost: Vec::new(),
            like: 2,
            compared: true,
            nothing: 0,
        };
        assert_eq!(said(&answer), "`n2` of 3 hosts is the odd one");
        let alike = CheckAnswer {
            odd: Vec::new(),
            like: 3,
            ..answer.clone()
        };
        assert_eq!(said(&alike), "all 3 hosts are alike");
        let nothing = CheckAnswer {
            odd: Vec::new(),
            like: 0,
            nothing: 2,
            ..answer.clone()
        };
        assert_eq!(
            said(&nothing),
            "none of 3 hosts is known to be odd; like the others at every result: 0; \
             nothing could be measured on any host at 2 results"
        );
        let lost = CheckAnswer {
            odd: Vec::new(),
            lost: vec!["n1"],
            compared: false,
            ..answer.clone()
        };
        assert_eq!(
            said(&lost),
            "no answer: fewer than three hosts can be compared; `n1` was lost"
        );
        let two = CheckAnswer {
            hosts: 5,
            odd: vec!["a", "b"],
            ..answer
        };
        assert_eq!(said(&two), "2 of 5 hosts are odd: `a` and `b`");
    }

    #[test]
    fn a_knee_is_said_only_where_the_curve_bends() {
        let knee = Estimate::new(2.41, Some([2.1, 2.84]));
        let (one, best) = (step(1, 1000.0), step(4, 2410.0));
        assert_eq!(
            said(&CurveSays::Bent(&knee, &one, &best)),
            "all together get no more than 2.4 hosts (2.1 to 2.8) would get alone: 1.00 kops/s to one host, at most 2.41 kops/s to 4 hosts"
        );
        assert_eq!(
            said(&CurveSays::Straight(&one, &best)),
            "no knee up to 4 hosts: 1.00 kops/s to one host, 2.41 kops/s to 4 hosts"
        );
        let apart = FleetStep {
            start_spread_s: 0.081,
            turn_s: 0.2,
            at_once: Some(false),
            ..step(3, 1200.0)
        };
        assert_eq!(
            said(&CurveSays::NotAtOnce(&apart)),
            "no knee is known: 3 hosts are not proved to have worked at once, because their starts were 81.0 ms apart, and the shortest work took 200 ms"
        );
        let answer = FleetAnswer {
            lost: 1,
            reached: vec![("read", &knee)],
            not_reached: vec![(2, 1), (4, 2)],
            unknown: 0,
            status: RunStatus::Done,
        };
        let text = "the share's knee: read at 2.4 hosts (2.1 to 2.8); no knee up to 2 hosts at 1 point; no knee up to 4 hosts at 2 points; 1 host was lost";
        assert_eq!(said(&answer), text);
        for (status, end) in [
            (RunStatus::Running, "in progress"),
            (RunStatus::Stopped, "stopped by the user"),
            (RunStatus::Interrupted, "interrupted"),
            (RunStatus::Failed, "the run failed"),
        ] {
            let answer = FleetAnswer {
                status,
                ..answer.clone()
            };
            assert_eq!(said(&answer), format!("{text}; {end}"));
        }
    }
}
