//! A cell of the matrix in words.

use crate::{
    number::Written,
    statements::remarks,
    types::ResultRow,
    words::{Names, Text, Words, locks, text},
};

/// The half-width of an interval behind the word of its estimate, which may be empty: `faster \u{b1}5%`.
pub fn noise(word: &str, noise: &str) -> String {
    match word {
        "" => format!("\u{b1}{noise}"),
        word => format!("{word} \u{b1}{noise}"),
    }
}

/// A result: `slower: 1.80 times native's time, 1.75 to 1.85`. `of` names what its time is compared with.
pub fn cell(row: Option<&ResultRow>, of: &str) -> Text {
    let Some(row) = row else {
        return "not measured".into();
    };
    let word = row.word();
    if let Some(never) = locks::never(row) {
        return never;
    }
    let Some(written) = Written::in_row(row) else {
        return word.into();
    };
    let joint = if word.is_empty() { "" } else { ": " };
    let times = written.ratio();
    let ratio = if written.is_inverse() {
        text!("{times} than {of}")
    } else {
        text!("{times} times {of}'s time")
    };
    let span = written.ends();
    let span = span.map(|[low, high]| text!(", {low} to {high}"));
    let names = Names { baseline: of };
    let stalls = remarks::stalls(row).map(|remark| remark.words(&names).unmarked());
    let stalls = stalls.map(|words| text!("; {words}"));
    let unflushed = if row.durability.skips() {
        "; fsync does not wait for the disk"
    } else {
        ""
    };
    text!(
        "{word}{joint}{ratio}{}{}{unflushed}",
        span.unwrap_or_default(),
        stalls.unwrap_or_default()
    )
}
