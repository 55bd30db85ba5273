//! What a file may hold, and what it holds in words.

use super::super::{HOLE, UNIT};

/// Whether a file whose content is one of these, or on its way from the first to the last, may hold this.
pub(super) fn may_hold(contents: &[&Vec<u8>], runs: &[(u8, u64)]) -> bool {
    let largest = contents.iter().map(|c| c.len()).max().unwrap_or(0);
    // Before anything is made of them: the numbers are from a probe.
    let mut lengths = runs.iter().map(|(_, n)| *n);
    let total = lengths.try_fold(0_u64, u64::checked_add);
    let most = (largest * UNIT) as u64;
    if !total.is_some_and(|n| n <= most && n.is_multiple_of(UNIT as u64)) {
        return false;
    }
    let all = runs
        .iter()
        .flat_map(|(byte, n)| std::iter::repeat_n(*byte, *n as usize));
    let bytes: Vec<u8> = all.collect();
    let units = bytes.as_chunks::<UNIT>().0;
    let settled = contents.len() == 1;
    let smallest = contents.iter().map(|c| c.len()).min().unwrap_or(0);
    if units.len() < smallest {
        return false;
    }
    let is_allowed = |(at, unit): (usize, &[u8; UNIT])| {
        let byte = unit[0];
        let written = contents.iter().any(|c| c.get(at) == Some(&byte));
        unit.iter().all(|b| *b == byte) && (written || !settled && byte == HOLE)
    };
    units.iter().enumerate().all(is_allowed)
}

/// Runs of equal bytes: each byte, and how many of it.
pub(super) fn runs_of(units: &[u8]) -> Vec<(u8, u64)> {
    let runs = units.chunk_by(|a, b| a == b);
    runs.map(|run| (run[0], (run.len() * UNIT) as u64))
        .collect()
}

/// Runs that are named.
const NAMED: usize = 4;

/// Such as `8192 p, 4096 1`; what was never written is `0x00`.
pub(super) fn in_words(runs: &[(u8, u64)]) -> String {
    let run = |(byte, n): &(u8, u64)| match byte {
        b'!'..=b'~' => format!("{n} bytes `{}`", char::from(*byte)),
        _ => format!("{n} bytes 0x{byte:02x}"),
    };
    match runs {
        [] => "an empty file".into(),
        runs => {
            let mut all: Vec<String> = runs.iter().take(NAMED).map(run).collect();
            if runs.len() > NAMED {
                all.push("…".into());
            }
            all.join(", ")
        }
    }
}
