//! Where work that reproduces another tool's differs from it on purpose.

use layermark_model::{Plan, Settings, is_like_fio};

/// One sentence for each difference; none if the work does not reproduce another tool's.
pub fn notes(plan: &Plan) -> Vec<String> {
    let matrix = |s: &Settings| {
        let like_iozone = s.params.get("like").is_some_and(|like| !is_like_fio(like));
        like_iozone || s.params.get("matrix").is_some_and(|m| m == "iozone")
    };
    if !plan.work.iter().any(matrix) {
        return Vec::new();
    }
    [
        "short cells of the matrix are repeated until they have lasted 1 ms (`min_ms`), and the median of the passes counts; iozone makes one pass, of microseconds for a file of 64 kB",
        "the clock's resolution is not taken off: iozone subtracts 1 us from each measurement",
        "layers take turns at each cell, so its tests do not follow each other on one file: reads have a packaged one that is warm, writes a new one, and rewrites one that is kept for all cells of its size and is on the disk before each",
        "`fwrite` writes a new file, as iozone's manual says; iozone itself goes over the one that the tests before have left, which here is `re-fwrite`",
        "with threads all of them count in the minimum, also one that moved nothing; the pass ends with the last thread, not with the first; the figure until the first was through is listed too",
    ]
    .map(str::to_owned)
    .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_follows_iozone_says_where_it_differs() {
        let plan = |more: &str| {
            let text = format!("name = 'x'\n[[work]]\nworkload = 'file'\n{more}");
            notes(&Plan::from_toml(&text).unwrap()).len()
        };
        assert_eq!(plan("op = 'read'"), 0);
        assert_eq!(plan("matrix = 'none'"), 0);
        assert_eq!((plan("matrix = 'iozone'"), plan("like = '-Racb'")), (5, 5));
    }
}
