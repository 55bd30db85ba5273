/// The known word most similar to `word`, if it is similar enough to be meant.
///
/// Similar means a Damerau-Levenshtein distance of at most a third of the longer word, or that it is the only known word
/// that begins with `word`: `hist` is `history`.
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
    let beginning = || {
        let mut longer = known.iter().filter(|k| k.starts_with(word));
        match (longer.next(), longer.next()) {
            (Some(one), None) if word.chars().count() >= SHORTEST => Some(*one),
            _ => None,
        }
    };
    typo.or_else(beginning)
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
    fn finds_the_only_word_that_begins_so() {
        let known = ["history", "compare", "completions"];
        assert_eq!(nearest("hist", known), Some("history"));
        assert_eq!(nearest("hi", known), None);
        assert_eq!(nearest("comp", known), None);
        assert_eq!(nearest("tory", known), None);
    }
}
