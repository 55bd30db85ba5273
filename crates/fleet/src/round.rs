//! A round: some hosts prepare the same work, begin it at a barrier, and prove it.

use std::time::Instant;

use layermark_model::{Cell, FleetPlace, FleetTurn, Point, TrialRecord};

use crate::{
    coordinator::Fleet,
    protocol::{Answer, Order, PrepareOrder, with_hint},
};

/// Steps, in words: what was done when a host was lost.
pub(crate) const MAKING: &str = "its files were made";
const TURN: &str = "it had its turn";
const ENDING: &str = "its results were read";

/// What each host is to do.
#[derive(Debug, Clone)]
pub struct RoundWork {
    /// Number of the trial; the same on all hosts.
    pub seq: u64,
    /// Its place in the schedule.
    pub cell: Cell,
    /// The point.
    pub point: Point,
    /// Seed of data and random offsets.
    pub seed: u64,
    /// Length of the turn, nanoseconds; 0: all of the work in one stretch.
    pub ns: u64,
    /// Uncounted work before it, nanoseconds.
    pub lead_in_ns: u64,
    /// Fewest milliseconds and operations of one stretch. Absent: the usual ones.
    pub least: Option<(u64, u64)>,
}

/// What came of a host.
#[derive(Debug, Clone)]
pub struct HostTrial {
    /// Its part of the round.
    pub turn: FleetTurn,
    /// When the barrier opened, milliseconds since 1970 UTC by the coordinator's clock.
    pub at_ms: i64,
    /// The trial with its proofs. Absent if it could not be made.
    pub record: Option<TrialRecord>,
}

impl Fleet {
    /// Runs a round on these hosts. Each of them is in the answer, in their order, also those that were lost.
    pub fn round(&mut self, hosts: &[usize], work: &RoundWork) -> Vec<HostTrial> {
        let mut made: Vec<HostTrial> = hosts
            .iter()
            .map(|host| HostTrial {
                turn: FleetTurn {
                    host: *host,
                    ..FleetTurn::default()
                },
                at_ms: 0,
                record: None,
            })
            .collect();
        let prepare = Order::Prepare(Box::new(PrepareOrder {
            seq: work.seq,
            cell: work.cell,
            point: work.point.clone(),
            seed: work.seed,
            least: work.least,
        }));
        let is_own = work.cell.layer == FleetPlace::Own as usize;
        let ready = self.step((hosts, is_own), MAKING, &prepare, &mut made, |answer, _| {
            matches!(answer, Answer::Ready)
        });
        let turn = Order::Turn {
            round: 0,
            ns: work.ns,
            lead_in_ns: work.lead_in_ns,
        };
        let opened = self.now_ns(Instant::now());
        let at_ms = layermark_lab::now_ms();
        for this in &mut made {
            this.at_ms = at_ms;
        }
        let clocks = self.hosts.iter().map(|h| (h.offset_ns, h.error_ns));
        let clocks: Vec<(i64, u64)> = clocks.collect();
        let turned = self.step((&ready, is_own), TURN, &turn, &mut made, |answer, this| {
            let Answer::Turned { span_ns } = answer else {
                return false;
            };
            let (offset, error) = clocks[this.turn.host];
            let since = |ns: u64| {
                let ns = i64::try_from(ns).unwrap_or(i64::MAX);
                ns.saturating_add(offset).saturating_sub(opened)
            };
            this.turn.clock_error_ns = Some(error);
            (this.turn.began_ns, this.turn.ended_ns) = (since(span_ns[0]), since(span_ns[1]));
            true
        });
        self.step(
            (&turned, is_own),
            ENDING,
            &Order::Finish,
            &mut made,
            |answer, this| {
                let Answer::Finished(record) = answer else {
                    return false;
                };
                this.keep(*record);
                true
            },
        );
        for this in &mut made {
            if let Some(lost) = &self.hosts[this.turn.host].lost
                && this.record.is_none()
            {
                this.turn.error = Some(format!("lost while {}: {}", lost.during, lost.why));
            }
        }
        made
    }

    /// Gives an order to hosts. Returns those whose answer was `taken`. Those are lost whose layer was lost, or that have no
    /// room on their own disk.
    fn step(
        &mut self,
        (hosts, is_own): (&[usize], bool),
        during: &str,
        order: &Order,
        made: &mut [HostTrial],
        mut taken: impl FnMut(Answer, &mut HostTrial) -> bool,
    ) -> Vec<usize> {
        let mut went_on = Vec::with_capacity(hosts.len());
        for answered in self.order(hosts, during, order) {
            let host = answered.host;
            let Some(this) = made.iter_mut().find(|m| m.turn.host == host) else {
                continue;
            };
            match answered.answer {
                Answer::Failed {
                    message,
                    hint,
                    no_room,
                    lost,
                } => {
                    let message = with_hint(message, hint);
                    if lost {
                        // It would fail in each round that it is in, and so would the round.
                        self.lose(host, during, &message);
                    } else if no_room && is_own {
                        // Nothing that it measures there from now on could be trusted.
                        let why = format!("its own disk has no room: {message}");
                        self.lose(host, during, &why);
                    } else {
                        this.turn.error = Some(message);
                    }
                }
                answer if taken(answer.clone(), this) => went_on.push(host),
                _ => self.lose(host, during, "it answered something else"),
            }
        }
        went_on.sort_unstable();
        went_on
    }
}

impl HostTrial {
    fn keep(&mut self, record: TrialRecord) {
        self.turn.steal = record.steal;
        self.turn.error.clone_from(&record.error);
        if let Some(trial) = &record.trial {
            self.turn.elapsed_ns = trial.elapsed_ns();
            self.turn.ops = trial.ops();
            self.turn.bytes = trial.bytes();
            self.turn.waited_ns = trial.waited_ns();
        }
        self.record = Some(record);
    }
}
