//! What a row says of itself.

use crate::{
    number::{self, times},
    statements::remarks::{Crossed, Quick, Remark},
    types::{FewerBytes, SlowOperations, Stalls, TwoKinds},
    words::{Names, Text, Words, text},
};

/// What the sign of stalls says of a ratio.
pub const STALLS: &str = "a few operations take so long that the average is far from it";

/// Slow operations get a single time if their longest is at most this much longer than their
/// shortest.
const ALIKE: f64 = 1.25;

impl Words for Remark<'_> {
    fn words(&self, names: &Names) -> Text {
        match self {
            Self::Stalls(ratio, average, stalls) => {
                let both = text!("usually {}; {} on average", times(ratio), times(average));
                match stalls {
                    Some(stalls) => text!("{both}: {}", counted(stalls, names)),
                    None => both,
                }
            }
            Self::WithWaiting(with) => {
                let shown = number::noisy(with).unwrap_or_else(|| times(with));
                text!("{shown} with the time that waited for a CPU")
            }
            Self::ReadFrom(place, because) => text!("read from {}: {because}", place.word()),
            Self::FewerBytes(bytes, crossed) => fewer_bytes(bytes, *crossed),
            Self::TwoKinds(kinds, quick) => two_kinds(kinds, *quick),
            Self::FromMemory(share) => {
                text!(
                    "about {} of the data came from memory",
                    number::percent(*share)
                )
            }
        }
    }
}

/// Both sides of stalls, the one with the larger share first.
fn counted(Stalls { here, native }: &Stalls, names: &Names) -> Text {
    let theirs = text!("{}'s", names.baseline());
    let share = |of: &SlowOperations| of.slow as f64 / of.operations as f64;
    let (stalls, other, name, than) = if share(here) >= share(native) {
        (here, native, "its".into(), theirs)
    } else {
        (native, here, theirs, "its own".into())
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

/// `2.3 of 67 MB reached the device: this measures the data`.
fn fewer_bytes(bytes: &FewerBytes, crossed: Crossed) -> Text {
    let counted = bytes.device.map(|device| {
        let bytes = number::bytes_of(device, bytes.application);
        match crossed {
            Crossed::From => text!("{bytes} came from the device"),
            Crossed::To => text!("{bytes} reached the device"),
        }
    });
    let told = if counted.is_some() {
        "this measures the data"
    } else {
        "this may depend on the data"
    };
    let mounted = bytes.mounted.as_deref();
    let how = mounted.map(|option| text!("its mount has {}", Text::code(option)));
    let found = Text::joined(counted.into_iter().chain(how), ", ");
    text!("{found}: {told}")
}

fn two_kinds(kinds: &TwoKinds, quick: Quick) -> Text {
    let [from_memory, from_device] = match quick {
        Quick::FromMemory => ["came from memory, in", "from the device, in "],
        Quick::Unknown => ["took", ""],
    };
    let share = number::percent(kinds.quick as f64 / kinds.operations as f64);
    text!(
        "operations of two kinds: {} of {} ({share}) {from_memory} about {}, the others {from_device}about {}",
        kinds.quick,
        kinds.operations,
        number::time(kinds.quick_us),
        number::time(kinds.slow_us)
    )
}
