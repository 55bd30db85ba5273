//! The rate of a load generator without the path. A result close to it is limited by the generator,
//! not by the path.

use std::sync::Mutex;

use super::lock;

/// Number of stretches, of which the best counts: other load can only slow them.
const STRETCHES: u32 = 4;
/// Length of each stretch, and of the uncounted time before it, nanoseconds.
const STRETCH_NS: u64 = 10_000_000;

/// Maximum size of all files or bodies in flight, bytes. Larger ones would measure how fast memory
/// is copied.
pub const LARGEST: u64 = 64 << 20;

/// CPUs of the near and of the far end.
pub type Cpus = [Vec<u32>; 2];

/// Rates measured in this process, each with the kind of work on which it depends.
pub type Ceilings<K> = Mutex<Vec<(K, f64)>>;

/// The rate, measured once for each kind of work; `None` if it cannot be measured.
pub fn of<K: PartialEq, E>(
    known: &Ceilings<K>,
    kind: K,
    measure: impl FnOnce(&K) -> Result<f64, E>,
) -> Option<f64> {
    if let Some((_, rate)) = lock(known).iter().find(|(known, _)| *known == kind) {
        return Some(*rate);
    }
    let rate = measure(&kind).ok()?;
    lock(known).push((kind, rate));
    Some(rate)
}

/// The best rate of several stretches, per second. `stretch` gets its length, ns, and whether it
/// counts. It returns an amount of work and its duration, ns.
pub fn best<E>(mut stretch: impl FnMut(u64, bool) -> Result<(u64, u64), E>) -> Result<f64, E> {
    stretch(STRETCH_NS, false)?;
    let mut best = 0.0f64;
    for _ in 0..STRETCHES {
        let (work, elapsed_ns) = stretch(STRETCH_NS, true)?;
        best = best.max(work as f64 * 1e9 / elapsed_ns as f64);
    }
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_measured_once_and_the_best_stretch_counts() {
        let ceilings = Ceilings::default();
        let measure = |works: &[u64]| {
            let mut works = works.iter();
            let mut next = |_, _| works.next().map(|n| (*n, 1000)).ok_or(());
            of(&ceilings, "kind", |_| best(&mut next))
        };
        assert_eq!(measure(&[9, 1]), None, "one stretch is missing");
        assert_eq!(measure(&[9, 1, 3, 2, 1]), Some(3e6));
        assert_eq!(measure(&[9, 7, 7, 7, 7]), Some(3e6), "it is known");
    }
}
