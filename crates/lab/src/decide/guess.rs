//! What a trial takes before any was timed, from what its workload says and from how fast this machine is
//! at this moment.

use std::time::Duration;

use layermark_layers::Group;
use layermark_model::Needs;

/// Minimum duration of a trial in one stretch, ms.
pub(crate) const MIN_MS: u64 = 50;
/// Duration of a trial without the time for its files.
const TRIAL: Duration = Duration::from_millis(MIN_MS);

/// How fast this machine makes files.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Speed {
    /// To make a small file and to remove it again, before it is on the disk.
    pub file: Duration,
    /// To remove one that is on the disk.
    pub remove: Duration,
    /// To write one byte and to have it on the disk, seconds.
    pub byte_s: f64,
    /// How many times longer work takes because other programs want the CPUs.
    pub busy: f64,
}

impl Speed {
    /// How many times longer a trial takes. Much of it is a share of time, which does not grow: beside a load
    /// of eleven on two CPUs, where a computation took six times as long, trials took two to three times.
    pub(crate) fn longer(self) -> f64 {
        1.0 + (self.busy - 1.0) / 3.0
    }
}

impl Default for Speed {
    /// An idle machine with an ordinary disk.
    fn default() -> Self {
        Self {
            file: Duration::from_micros(40),
            remove: Duration::from_micros(20),
            byte_s: 1.0 / 500e6,
            busy: 1.0,
        }
    }
}

/// Assumed duration of a native trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Guess {
    /// Without the work on many files.
    pub work: Duration,
    /// The part that belongs to many files.
    pub files: Duration,
}

impl Default for Guess {
    fn default() -> Self {
        Self {
            work: TRIAL,
            files: Duration::ZERO,
        }
    }
}

impl Guess {
    /// From what a point needs. What only the first trial of a session does is divided over `blocks`.
    pub(crate) fn of(needs: &Needs, blocks: u32, speed: Speed) -> Self {
        let bytes = needs.space as f64 * speed.byte_s;
        let first = needs.first_files.div_ceil(u64::from(blocks.max(1)));
        Self {
            work: (TRIAL + needs.lasts).mul_f64(speed.longer()) + Duration::from_secs_f64(bytes),
            files: times(speed.file + speed.remove, needs.files) + times(speed.file, first),
        }
    }

    /// The same in a layer.
    pub(crate) fn at(self, slowdown: Slowdown) -> Duration {
        self.work.mul_f64(slowdown.work) + self.files.mul_f64(slowdown.files.max(slowdown.work))
    }
}

/// A duration for each of many files; at most a year.
pub(crate) fn times(each: Duration, count: u64) -> Duration {
    let seconds = each.as_secs_f64() * count as f64;
    Duration::from_secs_f64(seconds.min(31.0 * 86_400.0))
}

/// How many times longer a trial takes in a layer than natively.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Slowdown {
    pub work: f64,
    /// Of work on many files.
    pub files: f64,
}

impl Default for Slowdown {
    fn default() -> Self {
        Self {
            work: 1.0,
            files: 1.0,
        }
    }
}

/// How many times longer it takes to make a file where files are served in this way. Orders of magnitude:
/// measuring tells.
pub(crate) fn files_in(group: Group) -> f64 {
    match group {
        Group::ThisKernel | Group::Containers | Group::Yours => 1.2,
        Group::Guests => 3.0,
        Group::UserSpace | Group::Network => 6.0,
    }
}

/// What setting a layer up takes, without its files.
pub(crate) fn set_up_in(group: Group) -> Duration {
    Duration::from_millis(match group {
        Group::ThisKernel | Group::Yours => 50,
        Group::UserSpace => 150,
        Group::Network => 400,
        Group::Containers => 800,
        Group::Guests => 2500,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_of_many_files_takes_as_long_as_this_machine_makes_them() {
        let needs = Needs {
            files: 20_000,
            first_files: 30_000,
            space: 500_000_000,
            lasts: Duration::from_secs(1),
            ..Needs::default()
        };
        let guess = Guess::of(&needs, 3, Speed::default());
        assert_eq!(guess.work, Duration::from_millis(2050));
        assert_eq!(guess.files, Duration::from_millis(1600));
        // Five times slower for files, beside programs that take three quarters of the CPUs.
        let slow = Speed {
            file: Duration::from_micros(200),
            remove: Duration::from_micros(100),
            busy: 4.0,
            ..Speed::default()
        };
        let guess = Guess::of(&needs, 3, slow);
        assert_eq!(guess.work, Duration::from_millis(3100));
        assert_eq!(guess.files, Duration::from_secs(8));
        let fuse = Slowdown {
            work: 1.0,
            files: 6.0,
        };
        assert_eq!(guess.at(fuse), Duration::from_millis(51_100));
        let none = Guess::of(&Needs::default(), 8, Speed::default());
        assert_eq!(none, Guess::default());
        assert!(times(Duration::MAX, u64::MAX) < Duration::from_hours(24 * 366));
    }
}
