/// The known word most similar to `word`, if it is similar enough to be meant.
///
/// Similar means a Damerau-Levenshtein distance of at most a third of the longer word, or that it is the only known word
/// that begins with `word`: `hist` is `history`. Or the only one that has its letters in their order and the same first one:
/// `ovrl` is `overlay`.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    /// Shorter beginnings say too little.
    const SHORTEST: usize = 3;
    let known: Vec<&str> = known.into_iter().collect();
    let typo = known
        .iter()
        .map(|k| (strsim::damerau_levenshtein(word, k), *k))
        .filter(|(distance, k)| *distance * 3 <= word.chars().count().max(k.chars().count()) + 1)
        .min()
        .map(|(_, k)| k);
    let only = |fits: &dyn Fn(&str) -> bool| {
        let mut longer = known.iter().filter(|k| fits(k));
        match (longer.next(), longer.next()) {
            (Some(one), None) if word.chars().count() >= SHORTEST => Some(*one),
            _ => None,
        }
    };
    let shortened = |k: &str| {
        let mut letters = k.chars();
        k.chars().next() == word.chars().next() && word.chars().all(|c| letters.any(|l| l == c))
    };
    typo.or_else(|| only(&|k| k.starts_with(word)))
        .or_else(|| only(&shortened))
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn finds_a_typo_and_refuses_a_stranger() {
        let known = ["record", "file_size", "threads"];
        assert_eq!(nearest("recrod", known), Some("record"));
        assert_eq!(nearest("filesize", known), Some("file_size"));
        assert_eq!(nearest("colour", known), None);
    }

    #[test]
    fn finds_the_only_word_that_it_is_short_for() {
        let known = ["overlay", "overmount", "image"];
        assert_eq!(nearest("ovrl", known), Some("overlay"));
        assert_eq!(nearest("ovr", known), None);
        assert_eq!(nearest("vrl", known), None);
    }

    #[test]
    fn finds_the_only_word_that_begins_so() {
        let known = ["history", "compare", "completions"];
        assert_eq!(nearest("hist", known), Some("history"));
        assert_eq!(nearest("hi", known), None);
        assert_eq!(nearest("comp", known), None);
        assert_eq!(nearest("tory", known), None);
    }
}
