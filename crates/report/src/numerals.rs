//! Numbers that sentences print, for tests: each is one of its data, rounded to its last digit, in the unit behind it.

/// A number in a text.
#[derive(Debug, Clone, PartialEq)]
pub struct Printed {
    /// As it is written.
    pub value: f64,
    /// The value of its last digit.
    pub last: f64,
    /// What its data may be multiplied with.
    factors: &'static [f64],
}

impl Printed {
    /// Whether it is one of these, rounded and in its unit.
    pub fn is_of<'a>(&self, data: impl IntoIterator<Item = &'a f64>) -> bool {
        data.into_iter().any(|of| {
            let mut factors = self.factors.iter();
            factors.any(|factor| (of * factor - self.value).abs() <= self.last * 0.500_001)
        })
    }
}

/// Words between two numbers of one unit.
const JOINTS: [&str; 6] = [" to ", "-", " -> ", " of ", " and ", ", "];

/// The units of sentences, and what data may be multiplied with: times are stored in seconds, milliseconds, microseconds
/// or nanoseconds, and shares as parts of 1.
const UNITS: [(&str, &[f64]); 21] = [
    ("%", &[100.0, 1.0]),
    ("percent", &[100.0]),
    ("ns", &[1.0, 1e3, 1e6, 1e9]),
    ("us", &[1.0, 1e-3, 1e3, 1e6]),
    ("ms", &[1.0, 1e-3, 1e-6, 1e3]),
    ("s", &[1.0, 1e-3, 1e-6, 1e-9]),
    ("min", &[1.0 / 60.0, 1.0 / 60e3, 1.0 / 60e6, 1.0 / 60e9]),
    ("B", &[1.0]),
    ("kB", &[1e-3, 1.0]),
    ("MB", &[1e-6, 1.0]),
    ("GB", &[1e-9, 1.0]),
    ("TB", &[1e-12, 1.0]),
    ("kops", &[1e-3, 1.0]),
    ("Mops", &[1e-6, 1.0]),
    ("K", &[1.0 / 1024.0, 1.0]),
    ("KB", &[1.0 / 1024.0, 1.0]),
    ("M", &[1.0 / 1_048_576.0, 1.0]),
    ("MiB", &[1.0 / 1_048_576.0, 1.0]),
    ("G", &[1.0 / 1_073_741_824.0, 1.0]),
    ("GiB", &[1.0 / 1_073_741_824.0, 1.0]),
    ("", &[1.0]),
];

/// The places of numbers in a text, without exponents. Commas stand between thousands.
fn places(text: &str) -> Vec<(usize, &str)> {
    let is_thousand = |comma: &str| {
        let digits = comma[1..].bytes().take_while(u8::is_ascii_digit);
        digits.count() == 3
    };
    let (mut found, mut from) = (Vec::new(), 0);
    while let Some(start) = text[from..].find(|c: char| c.is_ascii_digit()) {
        let start = from + start;
        let mut end = start;
        while let Some(c) = text[end..].chars().next() {
            let goes_on = match c {
                '0'..='9' | '.' => true,
                ',' => is_thousand(&text[end..]),
                _ => false,
            };
            if !goes_on {
                break;
            }
            end += 1;
        }
        from = end;
        found.push((start, text[start..end].trim_end_matches('.')));
    }
    found
}

/// The factors of the unit that a text begins with.
fn factors(rest: &str) -> &'static [f64] {
    let rest = rest.strip_prefix(' ').unwrap_or(rest);
    let end = rest.find(|c: char| !(c.is_alphabetic() || c == '%'));
    let word = &rest[..end.unwrap_or(rest.len())];
    let known = UNITS.iter().find(|(unit, _)| *unit == word);
    known.map_or(&[1.0], |(_, factors)| factors)
}

/// The numbers of a text. The digits of a name are no number of their own.
pub fn printed(text: &str) -> Vec<Printed> {
    let all = places(text);
    let number = |(n, (start, digits)): (usize, &(usize, &str))| {
        if text[..*start].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            return None;
        }
        let plain = digits.replace(',', "");
        let zeros = plain.len() - plain.trim_end_matches('0').len();
        let last = match plain.split_once('.') {
            Some((_, places)) => 0.1f64.powf(places.len() as f64),
            None if zeros == plain.len() => 1.0,
            None => 10f64.powf(zeros as f64),
        };
        // `40.1 to 42.3 ms`
        let (mut end, mut next) = (start + digits.len(), n + 1);
        while let Some((start, digits)) = all.get(next)
            && JOINTS.contains(&&text[end..*start])
        {
            (end, next) = (start + digits.len(), next + 1);
        }
        let own = factors(&text[start + digits.len()..]);
        let is_own = own != [1.0] || next == n + 1;
        Some(Printed {
            value: plain.parse().ok()?,
            last,
            factors: if is_own { own } else { factors(&text[end..]) },
        })
    };
    all.iter().enumerate().filter_map(number).collect()
}

#[test]
fn a_number_is_its_datum_in_its_unit() {
    let is = |text: &str, data: f64| printed(text).iter().all(|n| n.is_of(&[data]));
    for (text, data) in [
        ("12.3 ms", 12_312.0),
        ("took 1,204 s", 1204.3),
        ("4 %", 0.043),
        ("1200 calls", 1249.0),
        ("2.5x", 2.46),
        ("64K", 65536.0),
        ("16.8 MB/s", 16.78e6),
    ] {
        assert!(is(text, data), "{text} is {data}");
    }
    for (text, data) in [
        ("12.3 ms", 12.39),
        ("12.3", 12_300.0),
        ("1,204 s", 1206.0),
        ("4 calls", 0.04),
        ("2.5x", 2500.0),
        ("1.2x", 0.012),
    ] {
        assert!(!is(text, data), "{text} is not {data}");
    }
    let span = printed("40.1 to 42.3 ms, sha256");
    assert!(span.len() == 2 && span[0].is_of(&[40_100.0]) && span[1].is_of(&[42_300.0]));
    // No more than a number without a unit.
    assert!(!printed("12 or 3 ms")[0].is_of(&[12_000.0]));
}
