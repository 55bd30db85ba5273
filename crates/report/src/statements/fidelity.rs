//! Where work that reproduces another tool's differs from it on purpose.

use layermark_model::{Plan, Settings, is_like_fio};

/// A difference from iozone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fidelity {
    /// Short cells are repeated, and their median counts.
    ShortCells,
    /// The clock's resolution is not taken off.
    Clock,
    /// Layers take turns, so tests do not follow each other on one file.
    Turns,
    /// `fwrite` writes a new file.
    Fwrite,
    /// All threads count in the minimum.
    Threads,
}

impl Fidelity {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::ShortCells,
        Self::Clock,
        Self::Turns,
        Self::Fwrite,
        Self::Threads,
    ];
}

/// The differences; none if the work does not reproduce another tool's.
pub fn differences(plan: &Plan) -> &'static [Fidelity] {
    let matrix = |s: &Settings| {
        let like_iozone = s.params.get("like").is_some_and(|like| !is_like_fio(like));
        like_iozone || s.params.get("matrix").is_some_and(|m| m == "iozone")
    };
    if plan.work.iter().any(matrix) {
        &Fidelity::ALL
    } else {
        &[]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_follows_iozone_says_where_it_differs() {
        let plan = |more: &str| {
            let text = format!("name = 'x'\n[[work]]\nworkload = 'file'\n{more}");
            differences(&Plan::from_toml(&text).unwrap()).len()
        };
        assert_eq!(plan("op = 'read'"), 0);
        assert_eq!(plan("matrix = 'none'"), 0);
        assert_eq!((plan("matrix = 'iozone'"), plan("like = '-Racb'")), (5, 5));
    }
}
