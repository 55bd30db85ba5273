/// Precedes what a program printed, in the error of the work that ran it.
pub const IT_SAID: &str = "; it said: ";

/// An error in one line, for a sentence: its first line, and the last line of what a program printed.
///
/// Programs print a summary last: the first line of Python is always `Traceback (most recent call last):`.
pub fn brief(error: &str) -> String {
    let mut lines = error.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or("no reason was given");
    let text = match (lines.next_back(), first.split_once(IT_SAID)) {
        (None, _) => first.to_owned(),
        (Some(last), Some((what, _))) => format!("{what}{IT_SAID}{last}"),
        (Some(last), None) => format!("{}: {last}", first.trim_end_matches([':', '.'])),
    };
    text.trim_end_matches(['.', ' ']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::brief;

    #[test]
    fn the_last_line_of_a_programs_error_is_quoted() {
        let python = "`db` ended with exit code 1; it said: Traceback (most recent call last):\n  File \"x.py\", line 3\n\
                      sqlite3.OperationalError: disk I/O error\n";
        assert_eq!(
            brief(python),
            "`db` ended with exit code 1; it said: sqlite3.OperationalError: disk I/O error"
        );
        let helper = "mkfs.xfs failed (exit code 1)\n  usage: mkfs.xfs\n  too small.";
        assert_eq!(brief(helper), "mkfs.xfs failed (exit code 1): too small");
        assert_eq!(brief("no QEMU.\nPATH=/bin"), "no QEMU: PATH=/bin");
        assert_eq!(brief("one; it said: broken."), "one; it said: broken");
        assert_eq!(brief(" \n"), "no reason was given");
    }
}
