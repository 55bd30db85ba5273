/// The known word most similar to `word`, if it is similar enough to be meant.
///
/// Similar means a Damerau-Levenshtein distance of at most a third of the longer word.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|k| (strsim::damerau_levenshtein(word, k), k))
        .filter(|(distance, k)| *distance * 3 <= word.chars().count().max(k.chars().count()) + 1)
        .min()
        .map(|(_, k)| k)
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
}
