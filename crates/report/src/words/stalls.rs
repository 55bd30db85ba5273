//! Rare operations that take much longer than the others.

use crate::{
    number::{self, times},
    types::{Estimate, ResultRow, SlowOperations, Stalls},
    words::{Text, text},
};

/// Slow operations get a single time if their longest is at most this much longer than their
/// shortest.
const ALIKE: f64 = 1.25;

/// `baseline` is its name in a sentence. `usually 1.3x; 2.8x on average: 2 % of its operations take 20 ms, native's none above 1.5 ms`.
pub fn words(row: &ResultRow, baseline: &str) -> Option<Text> {
    let ratio = row.ratio.filter(|_| row.has_stalls())?;
    let average = Estimate::from(ratio.average?);
    let both = text!("usually {}; {} on average", times(&ratio), times(&average));
    Some(match &row.stalls {
        Some(stalls) => text!("{both}: {}", counted(stalls, baseline)),
        None => both,
    })
}

/// Both sides in words, the one with the larger share first.
fn counted(Stalls { here, native }: &Stalls, baseline: &str) -> Text {
    let theirs = format!("{baseline}'s");
    let share = |of: &SlowOperations| of.slow as f64 / of.operations as f64;
    let (stalls, other, name, than) = if share(here) >= share(native) {
        (here, native, "its", theirs.as_str())
    } else {
        (native, here, theirs.as_str(), "its own")
    };
    let long = stalls.slow_us.map(|[least, middle, most]| {
        if most <= ALIKE * least {
            number::time_about(middle)
        } else {
            number::time_span([least, most])
        }
    });
    let rest = match other.slow_us {
        None => {
            let most = other.longest_other_us.map(number::time);
            format!("none above {}", most.unwrap_or_default())
        }
        Some(_) => number::percent_of(other.slow, other.operations),
    };
    text!(
        "{} of {name} operations take {}, {than} {rest}",
        number::percent_of(stalls.slow, stalls.operations),
        long.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_side_with_the_larger_share_comes_first() {
        let side = |slow, slow_us, longest_other_us| SlowOperations {
            operations: 1000,
            slow,
            slow_us,
            longest_other_us,
        };
        let said = |here, native| counted(&Stalls { here, native }, "native").to_string();
        let quiet = side(0, None, Some(1500.0));
        assert_eq!(
            said(side(20, Some([20e3, 20e3, 20.1e3]), Some(1500.0)), quiet),
            "2 % of its operations take 20 ms, native's none above 1.50 ms"
        );
        assert_eq!(
            said(quiet, side(10, Some([15e3, 15e3, 40e3]), Some(300.0))),
            "1 % of native's operations take 15.0 to 40.0 ms, its own none above 1.50 ms"
        );
    }
}
