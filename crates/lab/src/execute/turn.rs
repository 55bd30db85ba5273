//! The length of a turn.

use std::time::Duration;

use layermark_model::{Divided, TurnCost};
use layermark_probe::own_cache;

/// Length of a turn by default.
const SHORT: Duration = Duration::from_millis(2);
/// Length of a turn at points that make files. The fewer files a run removes again, the less it
/// slows its own later turns.
const SHORTEST: Duration = Duration::from_micros(500);
/// Maximum number of rounds at points that make files, for the same reason.
const FEW_ROUNDS: u32 = 25;
/// Length of a turn for large files, guests and teams of threads. In shorter turns a large file in
/// memory never gets warm in the CPU's shared cache. A guest, or a team of threads, would spend
/// more than a tenth of its time on starting turns.
const LONG: Duration = Duration::from_millis(10);
/// The lead-in lasts this part of a turn.
const LEAD_IN: u32 = 10;
/// The shortest lead-in where the data comes from memory. The other layers have used the CPU's
/// caches: a lead-in of 0.2 ms leaves ratios that are off by up to 5 %.
const WARM_UP: Duration = Duration::from_millis(1);

/// Length of a turn, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Length {
    /// 0: all work in one stretch.
    pub ns: u64,
    pub lead_in_ns: u64,
    /// Maximum number of rounds of a block, however short they are.
    pub most_rounds: u32,
}

impl Length {
    /// One stretch.
    pub(crate) const WHOLE: Self = Self {
        ns: 0,
        lead_in_ns: 0,
        most_rounds: u32::MAX,
    };

    /// Length for a point that can be divided. `guest`: a layer of the block is a guest. `asked`:
    /// the length that the user requests.
    pub(crate) fn of(point: Divided, guest: bool, asked: Option<Duration>) -> Self {
        let large = point.in_memory && point.working_set >= own_cache();
        let long = guest || large || point.cost.has_tasks();
        let usual = match point.cost {
            _ if long => LONG,
            TurnCost::Files => SHORTEST,
            _ => SHORT,
        };
        let length = asked.unwrap_or(usual);
        let part = length / LEAD_IN;
        let lead_in = match point {
            Divided { uses_up: true, .. } => Duration::ZERO,
            Divided {
                in_memory: true, ..
            } => part.max(WARM_UP),
            _ => part,
        };
        Self {
            ns: length.as_nanos() as u64,
            lead_in_ns: lead_in.as_nanos() as u64,
            most_rounds: if length < SHORT && asked.is_none() {
                FEW_ROUNDS
            } else {
                u32::MAX
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_large_in_memory_and_what_a_guest_does_takes_longer_turns() {
        let point = |in_memory, working_set| Divided {
            in_memory,
            uses_up: false,
            working_set,
            cost: TurnCost::Nothing,
            under_way: 0,
        };
        let ms = |point, guest| Length::of(point, guest, None).ns / 1_000_000;
        let short = Length::of(point(true, 64 << 10), false, None);
        assert_eq!((short.ns, short.lead_in_ns), (2_000_000, 1_000_000));
        let disk = Length::of(point(false, 64 << 10), false, None);
        assert_eq!((disk.ns, disk.lead_in_ns), (2_000_000, 200_000));
        assert_eq!(ms(point(true, 1 << 40), false), 10);
        assert_eq!(ms(point(false, 1 << 40), false), 2);
        assert_eq!(ms(point(false, 64 << 10), true), 10);
        let threads = Divided {
            cost: TurnCost::Threads,
            ..point(false, 64 << 10)
        };
        assert_eq!(ms(threads, false), 10);
        let create = Divided {
            cost: TurnCost::Files,
            ..point(false, 64 << 10)
        };
        let length = Length::of(create, false, None);
        assert_eq!((length.ns, length.lead_in_ns), (500_000, 50_000));
        assert_eq!((length.most_rounds, disk.most_rounds), (25, u32::MAX));
        assert_eq!(ms(create, true), 10);
        let asked = Some(Duration::from_millis(7));
        let length = Length::of(point(true, 1 << 40), true, asked);
        assert_eq!((length.ns, length.lead_in_ns), (7_000_000, 1_000_000));
    }

    #[test]
    fn what_is_used_up_has_no_lead_in() {
        let cold = Divided {
            in_memory: false,
            uses_up: true,
            working_set: 1 << 20,
            cost: TurnCost::Nothing,
            under_way: 0,
        };
        assert_eq!(Length::of(cold, false, None).lead_in_ns, 0);
    }
}
