//! Lines of strace: tasks, calls, arguments, results.

/// A line of a trace.
#[derive(Debug, PartialEq, Eq)]
pub struct Line<'a> {
    pub task: u32,
    /// When its call began, or went on, us since 1970: only of `-ttt`.
    pub at: Option<u64>,
    pub text: &'a str,
    /// `[pid 7]`, which strace writes to a terminal, and only while there are several tasks.
    pub in_brackets: bool,
}

impl Line<'_> {
    /// Whether it is a call that begins.
    pub fn is_call(&self) -> bool {
        let name = self.text.split_once('(').map_or("", |(name, _)| name);
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    }
}

/// The parts of a line. Accepts `-f` with and without `-o`, and any of `-t`, `-tt`, `-ttt`, `-r`.
pub fn split(line: &str) -> Option<Line<'_>> {
    let mut rest = line.trim_end().trim_start();
    let (mut task, mut at) = (0, None);
    let in_brackets = rest.starts_with("[pid");
    if let Some(inner) = rest.strip_prefix("[pid") {
        let (number, text) = inner.split_once(']')?;
        (task, rest) = (number.trim().parse().ok()?, text.trim_start());
    } else if let Some((word, text)) = rest.split_once(' ')
        && let Ok(number) = word.parse()
    {
        (task, rest) = (number, text.trim_start());
    }
    if let Some((word, text)) = rest.split_once(' ')
        && word
            .bytes()
            .all(|b| b.is_ascii_digit() || matches!(b, b'.' | b':' | b'+'))
        && word.contains(['.', ':'])
    {
        (at, rest) = (epoch(word), text.trim_start());
    }
    let text = rest;
    (!text.is_empty()).then_some(Line {
        task,
        at,
        text,
        in_brackets,
    })
}

/// `1732893000.123456` in microseconds. `None` of a time of day, and of one since the line before.
fn epoch(word: &str) -> Option<u64> {
    const DIGITS: usize = 10;
    let (seconds, micros) = word.split_once('.')?;
    (seconds.len() >= DIGITS && micros.len() == 6).then_some(())?;
    let seconds: u64 = seconds.parse().ok()?;
    seconds
        .checked_mul(1_000_000)?
        .checked_add(micros.parse().ok()?)
}

/// How long a call took, us: only of `-T`.
pub fn took(text: &str) -> Option<u64> {
    let (_, time) = text.trim_end().strip_suffix('>')?.rsplit_once('<')?;
    let (seconds, micros) = time.split_once('.')?;
    (micros.len() == 6).then_some(())?;
    let seconds: u64 = seconds.parse().ok()?;
    seconds
        .checked_mul(1_000_000)?
        .checked_add(micros.parse().ok()?)
}

/// A call that has ended.
#[derive(Debug, PartialEq)]
pub struct Ended<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its arguments, as strace writes them.
    pub args: Vec<&'a str>,
    /// What it returned; `None` if strace does not know it.
    pub returned: Option<i64>,
    /// The name of its error, or empty.
    pub error: &'a str,
    /// What follows the number, such as the path of a descriptor.
    pub shown: &'a str,
}

impl<'a> Ended<'a> {
    /// The call of a line without its task and times; `None` of anything else.
    pub fn read(text: &'a str) -> Option<Self> {
        let (name, rest) = text.split_once('(')?;
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        if name.is_empty() || !name.bytes().all(plain) {
            return None;
        }
        let (args, rest) = arguments(rest)?;
        let result = rest.trim_start().strip_prefix('=')?.trim_start();
        let end = result.find([' ', '<']).unwrap_or(result.len());
        let (number, rest) = result.split_at(end);
        if number.is_empty() {
            return None;
        }
        let shown = rest.trim_start();
        let error = shown.split(' ').next().unwrap_or_default();
        let is_error = error.starts_with('E')
            && error
                .bytes()
                .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit());
        Some(Self {
            name,
            args,
            returned: super::number::integer(number),
            error: if is_error { error } else { "" },
            shown,
        })
    }

    /// The text of an argument; empty if there is none.
    pub fn arg(&self, at: usize) -> &'a str {
        self.args.get(at).copied().unwrap_or_default()
    }

    /// Whether its texts in quotes are data, and no names.
    pub fn has_data(&self) -> bool {
        let moves = ["read", "write", "send", "recv"];
        moves.iter().any(|word| self.name.contains(word)) && !self.name.starts_with("readlink")
    }

    /// Whether it failed, or did not end as strace knows it.
    pub fn failed(&self) -> bool {
        self.returned.is_none_or(|returned| returned < 0)
    }

    /// What it returned, or its error number below 0. `None` if it was interrupted or is unknown.
    pub fn outcome(&self) -> Option<i64> {
        match self.returned? {
            -1 if !self.error.is_empty() => super::names::errno(self.error).map(|number| -number),
            returned => Some(returned),
        }
    }
}

/// Arguments up to the closing bracket, and what follows it.
fn arguments(text: &str) -> Option<(Vec<&str>, &str)> {
    let bytes = text.as_bytes();
    let (mut all, mut from, mut depth, mut at) = (Vec::new(), 0, 0u32, 0);
    let take = |from: usize, at: usize, all: &mut Vec<_>| {
        let argument = text[from..at].trim();
        if !argument.is_empty() || !all.is_empty() {
            all.push(argument);
        }
    };
    while at < bytes.len() {
        match bytes[at] {
            b'"' => at = end_of_quoted(bytes, at + 1)?,
            b'<' if is_annotation(bytes, at) => at = end_of_annotation(bytes, at + 1)?,
            b'(' | b'[' | b'{' => depth += 1,
            b')' if depth == 0 => {
                take(from, at, &mut all);
                return Some((all, &text[at + 1..]));
            }
            b')' | b']' | b'}' => depth = depth.checked_sub(1)?,
            b',' if depth == 0 => {
                take(from, at, &mut all);
                from = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Position of the closing quotation mark.
fn end_of_quoted(bytes: &[u8], mut at: usize) -> Option<usize> {
    while *bytes.get(at)? != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    Some(at)
}

/// Whether `<` begins the path of a descriptor: `3</a>`, `AT_FDCWD</a>`. `1<<3` is a shift.
fn is_annotation(bytes: &[u8], at: usize) -> bool {
    let before = at.checked_sub(1).map(|at| bytes[at]);
    before.is_some_and(|b| b.is_ascii_alphanumeric())
        && !matches!(bytes.get(at + 1), Some(b'<' | b' '))
}

/// Position of the closing `>`. Sockets have `->`, and devices `<char 1:3>` within.
fn end_of_annotation(bytes: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 1;
    loop {
        match *bytes.get(at)? {
            b'\\' => at += 1,
            b'<' => depth += 1,
            b'>' if at > 0 && bytes[at - 1] == b'-' => {}
            b'>' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
        at += 1;
    }
}

/// The value of a field: `flags=O_RDONLY` in `{flags=O_RDONLY, mode=0}`.
pub fn field<'a>(text: &'a str, key: &str) -> &'a str {
    let Some((_, rest)) = text.split_once(key) else {
        return "";
    };
    let end = rest.find([',', '}']).unwrap_or(rest.len());
    rest[..end].trim()
}

/// The number of a descriptor argument.
pub fn descriptor(text: &str) -> Option<i64> {
    let end = text.find('<').unwrap_or(text.len());
    text[..end].parse().ok()
}

/// What strace shows as the file of a descriptor.
pub fn annotation(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('<')?;
    let end = end_of_annotation(rest.as_bytes(), 0).or_else(|| rest.rfind('>'))?;
    Some(&rest[..end])
}

/// The path of a descriptor, if it is a file's.
pub fn path_of(text: &str) -> Option<Vec<u8>> {
    let shown = annotation(text)?;
    let shown = shown.split('<').next().unwrap_or(shown);
    let shown = shown.strip_suffix(" (deleted)").unwrap_or(shown);
    shown.starts_with('/').then(|| unescape(shown))
}

/// The text of an argument in quotes; `None` for `NULL`, addresses, and a text that strace has cut.
pub fn quoted(text: &str) -> Option<Vec<u8>> {
    let inner = text.strip_prefix('"')?;
    Some(unescape(inner.strip_suffix('"')?))
}

/// Whether strace shows only the beginning of a text: `"ab"...`.
pub fn is_cut(text: &str) -> bool {
    text.starts_with('"') && text.ends_with("\"...")
}

/// A text as it was before strace escaped it.
fn unescape(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(byte) = bytes.get(at) {
        at += 1;
        if *byte != b'\\' {
            out.push(*byte);
            continue;
        }
        let Some(next) = bytes.get(at) else { break };
        at += 1;
        let plain = match next {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'v' => 0x0b,
            b'f' => 0x0c,
            b'x' => {
                let digits = text.get(at..at + 2).unwrap_or_default();
                at += 2;
                u8::from_str_radix(digits, 16).unwrap_or(b'?')
            }
            b'0'..=b'7' => {
                let digits = bytes[at - 1..]
                    .iter()
                    .take(3)
                    .take_while(|b| (b'0'..=b'7').contains(b));
                let (mut value, mut count) = (0u32, 0);
                for digit in digits {
                    value = value * 8 + u32::from(digit - b'0');
                    count += 1;
                }
                at += count - 1;
                value as u8
            }
            other => *other,
        };
        out.push(plain);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_every_form_are_split() {
        for line in [
            "7 1700000000.123456 close(3)",
            "7 12:00:01.5 close(3)",
            "7 close(3)",
            "[pid  7] 1700000000.1 close(3)",
            "7     +0.000123 close(3)",
        ] {
            let found = split(line).map(|line| (line.task, line.text));
            assert_eq!(found, Some((7, "close(3)")), "{line}");
        }
        let line = split("1700000000.000012 close(3) = 0 <0.000007>").unwrap();
        assert_eq!((line.task, line.at), (0, Some(1_700_000_000_000_012)));
        assert_eq!(
            (line.text, took(line.text)),
            ("close(3) = 0 <0.000007>", Some(7))
        );
        for without in [
            "7 12:00:00.000012 close(3)",
            "7 +0.000012 close(3)",
            "7 close(3)",
        ] {
            assert_eq!(split(without).map(|line| line.at), Some(None), "{without}");
        }
        for without in [
            "close(3</a>) = 0",
            "close(3) = 0 <0.1>",
            "read(0</0.000012>",
        ] {
            assert_eq!(took(without), None, "{without}");
        }
        assert_eq!(split(" "), None);
    }

    #[test]
    fn calls_are_read() {
        let line = r#"openat(AT_FDCWD</a b>, "x\"y, (\303\244)", O_RDONLY|O_CLOEXEC) = 3</a b/x> <0.000012>"#;
        let call = Ended::read(line).unwrap();
        assert_eq!(
            (call.name, call.returned, call.error),
            ("openat", Some(3), "")
        );
        assert_eq!(call.args.len(), 3);
        assert_eq!(quoted(call.arg(1)).unwrap(), "x\"y, (ä)".as_bytes());
        assert_eq!(path_of(call.arg(0)).unwrap(), b"/a b");
        let failed =
            Ended::read(r#"stat("x", 0x7ffe) = -1 ENOENT (No such file or directory) <0.00001>"#)
                .unwrap();
        assert_eq!(failed.outcome(), Some(-2));
        let data = r#"statx(3</d>, "", AT_EMPTY_PATH, STATX_ALL, {stx_mask=STATX_ALL, stx_dev=makedev(0x8, 0x1)}) = 0"#;
        assert_eq!(Ended::read(data).unwrap().args.len(), 5);
        let socket = "read(5<TCP:[127.0.0.1:1->127.0.0.1:2]>, \"\"..., 4096) = 12";
        let socket = Ended::read(socket).unwrap();
        assert_eq!((socket.arg(2), path_of(socket.arg(0))), ("4096", None));
        let tty = Ended::read("write(1</dev/pts/0<char 136:0>>, \"\"..., 3) = 3").unwrap();
        assert_eq!(
            (tty.arg(2), path_of(tty.arg(0)).unwrap()),
            ("3", b"/dev/pts/0".to_vec())
        );
        assert!(is_cut("\"ab\"...") && !is_cut("\"ab...\""));
        assert_eq!(quoted("\"ab\"..."), None);
        let none = Ended::read("getpid() = 12").unwrap();
        assert!(none.args.is_empty());
        for bad in [
            "+++ exited with 0 +++",
            "openat(3",
            "--- SIGCHLD {si} ---",
            "close(3)",
            "close(3) =",
            "x y(1) = 2",
        ] {
            assert_eq!(Ended::read(bad), None, "{bad}");
        }
        assert_eq!(
            Ended::read("read(3) = ? ERESTARTSYS (To be)")
                .unwrap()
                .returned,
            None
        );
    }

    #[test]
    fn descriptors_are_read() {
        assert_eq!(annotation("3<>"), Some(""));
        assert_eq!(descriptor("12</a>"), Some(12));
        assert_eq!(descriptor("AT_FDCWD</a>"), None);
    }
}
