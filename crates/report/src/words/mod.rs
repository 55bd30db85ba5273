//! The only sentences: each statement of [`crate::statements`] says here what it means. Lists, plurals, digits and marks
//! of names are written here and in [`crate::number`], and nothing is decided.

mod advice;
mod caveats;
mod checks;
mod findings;
pub mod headline;
mod late;
mod left_out;
pub mod limits;
pub mod lists;
mod marked;
pub mod stalls;
mod uses;
pub mod verdicts;

pub use marked::{Names, Text};

/// A statement that can be said.
pub trait Words {
    /// What it says. A sentence has no full stop where its format adds one.
    fn words(&self, names: &Names) -> Text;
}

/// A [`Text`] from a format string.
macro_rules! text {
    ($($part:tt)*) => { $crate::words::Text::from(format!($($part)*)) };
}
pub(crate) use text;
