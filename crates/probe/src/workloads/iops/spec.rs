//! Access specifications as in Iometer: the properties of an I/O, and mixes of several kinds.
//!
//! An example: `4K 67% read 100% random; 64K 100% read 0% random @20%`. Lines are separated by
//! semicolons. Each has a size and, in any order, the share of reads and of random places, `burst
//! N`, `delay TIME`, `align SIZE`, and the line's own share of the mix.

use std::{fmt, time::Duration};

use layermark_model::{format_size, parse_milliseconds, parse_size};

/// Specifications with a name.
pub const PRESETS: &[(&str, &str)] = &[
    // Iometer 1.1: its `Default`, and its lines `4 KiB; 100% Read; 0% random` and the like.
    ("iometer-default", "2K 67% read 100% random align 512"),
    ("4k-read", "4K 100% read 0% random"),
    ("4k-write", "4K 0% read 0% random"),
    ("4k-rand-read", "4K 100% read 100% random"),
    ("4k-rand-write", "4K 0% read 100% random"),
    // The patterns that Intel shipped with Iometer and storage reviews have used since.
    ("database", "8K 67% read 100% random"),
    ("workstation", "8K 80% read 80% random"),
    (
        "fileserver",
        "512 80% read 100% random @10%; 1K 80% read 100% random @5%; 2K 80% read 100% random @5%; \
         4K 80% read 100% random @60%; 8K 80% read 100% random @2%; 16K 80% read 100% random @4%; \
         32K 80% read 100% random @4%; 64K 80% read 100% random @10%",
    ),
    (
        "webserver",
        "512 100% read 100% random @22%; 1K 100% read 100% random @15%; \
         2K 100% read 100% random @8%; 4K 100% read 100% random @23%; \
         8K 100% read 100% random @15%; 16K 100% read 100% random @2%; \
         32K 100% read 100% random @6%; 64K 100% read 100% random @7%; \
         128K 100% read 100% random @1%; 512K 100% read 100% random @1%",
    ),
];

/// One kind of I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpecLine {
    /// Bytes of a transfer.
    pub size: u64,
    /// Share of reads, percent; the others write. Drawn for each I/O.
    pub read: u64,
    /// Share of I/Os at a random place, percent; the others continue after the last one. Drawn for
    /// each.
    pub random: u64,
    /// Number of I/Os before each delay.
    pub burst: u64,
    /// Delay without a new I/O after a burst has completed, ms.
    pub delay_ms: u64,
    /// Places are multiples of this many bytes; 0: of the size.
    pub align: u64,
    /// Share of the mix, percent.
    pub share: u64,
}

impl SpecLine {
    /// Bytes between two places.
    pub fn step(&self) -> u64 {
        if self.align == 0 {
            self.size
        } else {
            self.align
        }
    }
}

/// Lines whose shares add up to 100.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessSpec(pub Vec<SpecLine>);

impl AccessSpec {
    /// Reads a specification or a preset's name. The error says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let named = PRESETS.iter().find(|(name, _)| *name == text);
        let mut lines = Vec::new();
        for part in named.map_or(text, |(_, text)| text).split(';') {
            let (line, share) = line(part.trim())?;
            lines.push((line, share));
        }
        share_out(lines).map(Self)
    }

    /// Largest transfer, bytes.
    pub fn largest(&self) -> u64 {
        self.0.iter().map(|l| l.size).max().unwrap_or(0)
    }

    /// Mean of a property over the mix.
    pub fn mean(&self, of: impl Fn(&SpecLine) -> u64) -> u64 {
        let part = |l: &SpecLine| u128::from(of(l)) * u128::from(l.share);
        let mean = self.0.iter().map(part).sum::<u128>() / 100;
        u64::try_from(mean).unwrap_or(u64::MAX)
    }

    /// Whether any I/O reads.
    pub fn reads(&self) -> bool {
        self.0.iter().any(|l| l.read > 0)
    }

    /// Whether any I/O writes.
    pub fn writes(&self) -> bool {
        self.0.iter().any(|l| l.read < 100)
    }

    /// Whether there are pauses between bursts.
    pub fn pauses(&self) -> bool {
        self.0.iter().any(|l| l.delay_ms > 0)
    }
}

fn line(text: &str) -> Result<(SpecLine, Option<u64>), String> {
    let mut words = text.split_ascii_whitespace();
    let size = words
        .next()
        .ok_or("a line is empty: it starts with a size, as in `4K 67% read`")?;
    let mut line = SpecLine {
        size: parse_size(size).map_err(|e| e.to_string())?,
        read: 100,
        random: 100,
        burst: 1,
        delay_ms: 0,
        align: 0,
        share: 0,
    };
    let mut share = None;
    let mut seen: Vec<&str> = Vec::new();
    while let Some(word) = words.next() {
        let mut value = || {
            words
                .next()
                .ok_or(format!("`{text}`: nothing follows `{word}`"))
        };
        let kind = if let Some(percentage) = word.strip_prefix('@') {
            share = Some(percent(percentage)?);
            "@"
        } else if word.ends_with('%') {
            set_share(&mut line, percent(word)?, value()?)?
        } else {
            match word {
                "burst" => line.burst = whole(value()?)?,
                "delay" => {
                    line.delay_ms = parse_milliseconds(value()?).map_err(|e| e.to_string())?;
                }
                "align" => line.align = parse_size(value()?).map_err(|e| e.to_string())?,
                _ => set_share(&mut line, 100, word).map(|_| ())?,
            }
            match word {
                "write" => "read",
                "sequential" => "random",
                other => other,
            }
        };
        if seen.contains(&kind) {
            return Err(format!("`{text}` says twice what its `{kind}` is"));
        }
        seen.push(kind);
    }
    if seen.contains(&"burst") && !seen.contains(&"delay") {
        return Err(format!(
            "`{text}`: a burst has no effect without a delay, as in `burst 8 delay 5ms`"
        ));
    }
    if line.align == line.size {
        line.align = 0; // what it is without a word
    }
    Ok((line, share))
}

/// Sets a share: `67% read`, `33% write`, `100% random`, `0% sequential`. Returns which one.
fn set_share<'a>(line: &mut SpecLine, percent: u64, what: &str) -> Result<&'a str, String> {
    match what {
        "read" => line.read = percent,
        "write" => line.read = 100 - percent,
        "random" => line.random = percent,
        "sequential" => line.random = 100 - percent,
        _ => {
            return Err(format!(
                "`{what}` is not known: there are N% read, write, random, sequential; burst N, delay TIME, align SIZE and @N%"
            ));
        }
    }
    Ok(if what == "read" || what == "write" {
        "read"
    } else {
        "random"
    })
}

fn percent(text: &str) -> Result<u64, String> {
    let number = text.strip_suffix('%').and_then(|n| n.parse().ok());
    number
        .filter(|n| *n <= 100)
        .ok_or_else(|| format!("`{text}` is not a whole percentage between 0% and 100%"))
}

fn whole(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| format!("`{text}` is not a whole number"))
}

/// Lines without a share divide the rest equally.
fn share_out(lines: Vec<(SpecLine, Option<u64>)>) -> Result<Vec<SpecLine>, String> {
    let given: u64 = lines.iter().filter_map(|(_, share)| *share).sum();
    let open = lines.iter().filter(|(_, share)| share.is_none()).count() as u64;
    if given > 100 || (open == 0 && given != 100) {
        return Err(format!(
            "the shares of its lines add up to {given}% instead of 100%"
        ));
    }
    let left = 100 - given;
    if open > 0 && (left == 0 || !left.is_multiple_of(open)) {
        return Err(format!(
            "{left}% cannot be divided among {open} lines without a share: write @N% after each"
        ));
    }
    Ok(lines
        .into_iter()
        .map(|(line, share)| SpecLine {
            share: share.unwrap_or_else(|| left / open.max(1)),
            ..line
        })
        .collect())
}

impl fmt::Display for AccessSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, line) in self.0.iter().enumerate() {
            if n > 0 {
                f.write_str("; ")?;
            }
            let size = format_size(line.size);
            write!(f, "{size} {}% read {}% random", line.read, line.random)?;
            if line.align > 0 && line.align != line.size {
                write!(f, " align {}", format_size(line.align))?;
            }
            if line.delay_ms > 0 {
                let delay = Duration::from_millis(line.delay_ms);
                write!(f, " burst {} delay {}ms", line.burst, delay.as_millis())?;
            }
            if self.0.len() > 1 {
                write!(f, " @{}%", line.share)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_what_it_writes() {
        for (text, canonical) in [
            ("4K", "4K 100% read 100% random"),
            ("4K 33% write sequential", "4K 67% read 0% random"),
            ("512 100% random 67% read", "512 67% read 100% random"),
            ("4K align 4K", "4K 100% read 100% random"),
            (
                "4K 67% read; 64K sequential @20%",
                "4K 67% read 100% random @80%; 64K 100% read 0% random @20%",
            ),
            (
                "2K align 512 burst 8 delay 5ms",
                "2K 100% read 100% random align 512 burst 8 delay 5ms",
            ),
            ("database", "8K 67% read 100% random"),
        ] {
            let spec = AccessSpec::parse(text).unwrap();
            assert_eq!(spec.to_string(), canonical, "{text}");
            assert_eq!(AccessSpec::parse(canonical).unwrap(), spec, "{text}");
        }
    }

    #[test]
    fn presets_add_up_to_what_they_are_known_for() {
        for (name, _) in PRESETS {
            let spec = AccessSpec::parse(name).unwrap();
            assert_eq!(spec.0.iter().map(|l| l.share).sum::<u64>(), 100, "{name}");
        }
        let server = AccessSpec::parse("fileserver").unwrap();
        assert_eq!((server.0.len(), server.largest()), (8, 64 << 10));
        assert_eq!(server.mean(|l| l.read), 80);
        assert!(!AccessSpec::parse("webserver").unwrap().writes());
    }

    #[test]
    fn says_what_is_wrong() {
        for (text, says) in [
            ("", "a line is empty"),
            ("4K; ", "a line is empty"),
            ("x", "x"),
            ("4K 101% read", "not a whole percentage"),
            ("4K -1% read", "not a whole percentage"),
            ("4K 50%", "nothing follows `50%`"),
            ("4K 50% red", "`red` is not known"),
            ("4K slow", "`slow` is not known"),
            ("4K burst x", "not a whole number"),
            ("4K delay 5 parsecs", "parsecs"),
            ("4K delay 0.5ms", "shorter than 1ms"),
            ("4K read 20% write", "says twice"),
            ("4K @50%; 8K @40%", "90% instead of 100%"),
            ("4K @150%", "not a whole percentage"),
            ("4K @60%; 8K @60%", "120% instead of 100%"),
            ("4K; 8K; 16K", "cannot be divided among 3"),
            ("4K @100%; 8K", "cannot be divided among 1"),
        ] {
            let e = AccessSpec::parse(text).expect_err(text);
            assert!(e.contains(says), "{text}: {e}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[0-9KMG%@; a-z.-]{0,40}") {
            if let Ok(spec) = AccessSpec::parse(&text) {
                prop_assert_eq!(AccessSpec::parse(&spec.to_string()).unwrap(), spec);
            }
        }
    }
}
