//! `like = "-Racb"`: iozone's command-line arguments, translated to parameters. Those of fio begin with
//! two dashes, and are translated elsewhere.

use layermark_model::{IOZONE_TESTS, PointError, Settings, is_like_fio, parse_size};
use serde_json::{Map, Value};

use crate::workloads::fio_job::{self, FioJob, JobError};

/// Letters that take a value, and whether the value may be missing at the end of the text.
const WITH: [(char, bool); 16] = [
    ('b', true),
    ('f', true),
    ('U', true),
    ('i', false),
    ('r', false),
    ('s', false),
    ('g', false),
    ('n', false),
    ('y', false),
    ('q', false),
    ('t', false),
    ('j', false),
    ('V', false),
    ('S', false),
    ('L', false),
    ('F', false),
];

/// The settings with `like` replaced by the parameters that its arguments mean. A parameter that is
/// given as well takes precedence.
pub fn translate(settings: &Settings) -> Result<Settings, PointError> {
    let mut settings = settings.clone();
    if let Some(like) = settings.params.remove("like") {
        let meant = if is_like_fio(&like) {
            of_fio(like.as_str().unwrap_or_default())?
        } else {
            read(&like)?
        };
        for (key, value) in meant {
            settings.params.entry(key).or_insert(value);
        }
    }
    Ok(settings)
}

/// Parameters equivalent to fio's options.
fn of_fio(text: &str) -> Result<Map<String, Value>, PointError> {
    let within = |e: JobError| PointError::of("file", "like", format!(": {e}")).hint(e.hint);
    let FioJob { settings, notes } = fio_job::command(text).map_err(within)?;
    let Settings {
        workload, params, ..
    } = settings;
    // Here is no place for a note, so that all that has no effect is refused.
    match notes.first() {
        _ if workload != "file" => {}
        None => return Ok(params),
        Some(note) => {
            let option = note.replacen("[command] ", "--", 1);
            return Err(
                PointError::of("file", "like", format!(": {option}")).hint("leave that option out")
            );
        }
    }
    let flags: Vec<String> = params
        .iter()
        .map(|(name, value)| match value {
            Value::Bool(_) => format!(" --{}", name.replace('_', "-")),
            other => format!(
                " --{} {}",
                name.replace('_', "-"),
                other.to_string().trim_matches('"')
            ),
        })
        .collect();
    Err(PointError::of(
        "file",
        "like",
        ": a queue, a mix or a rate is work of `iops`",
    )
    .hint(format!("layermark {workload}{}", flags.concat())))
}

/// Parameters equivalent to the arguments.
fn read(like: &Value) -> Result<Map<String, Value>, PointError> {
    let text = like
        .as_str()
        .ok_or_else(|| PointError::of("file", "like", format!(" = {like}: it must be text")))?;
    let mut meant = Meant::default();
    let mut words = text.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let Some(letters) = word.strip_prefix('-').filter(|l| !l.is_empty()) else {
            return Err(PointError::of(
                "file",
                "like",
                format!(": `{word}` is not an option of iozone"),
            )
            .hint(HINT));
        };
        if let Some(long) = letters.strip_prefix('+') {
            let next = words.next_if(|w| !w.starts_with('-'));
            meant.plus(long, next)?;
            continue;
        }
        let mut rest = letters.chars();
        while let Some(letter) = rest.next() {
            let Some((_, optional)) = WITH.iter().find(|(l, _)| *l == letter) else {
                meant.alone(letter)?;
                continue;
            };
            let value = match rest.as_str() {
                "" => words.next_if(|w| !w.starts_with('-')),
                rest => Some(rest),
            };
            if value.is_none() && !optional {
                return Err(
                    PointError::of("file", "like", format!(": -{letter} needs a value"))
                        .hint(format!("write it after the letter: -{letter} 64k")),
                );
            }
            meant.with(letter, value.unwrap_or_default())?;
            break;
        }
    }
    meant.params()
}

const HINT: &str = "docs/src/iozone.md has the letters, and what to write instead of the others";

#[derive(Default)]
struct Meant {
    auto: bool,
    /// `close`, `fsync`, both, `osync` or `odsync`, with its letter.
    sync: Option<(&'static str, &'static str)>,
    tests: Vec<&'static str>,
    records: Vec<u64>,
    files: Vec<u64>,
    smallest_record: Option<u64>,
    largest_record: Option<u64>,
    params: Map<String, Value>,
}

impl Meant {
    /// A letter without a value.
    fn alone(&mut self, letter: char) -> Result<(), PointError> {
        match letter {
            'a' => self.auto = true,
            // Output format and place: `-o` and the report cover them. -T: our threads are always
            // threads.
            'R' | 'O' | 'N' | 'M' | 'C' | 'T' => {}
            'c' => self.sync("-c", "close")?,
            'e' => self.sync("-e", "fsync")?,
            'o' => self.sync("-o", "osync")?,
            'I' => self.switch("direct"),
            'z' => self.switch("no_cut_off"),
            'B' => {
                self.params.insert("engine".into(), "mmap".into());
            }
            'E' => self
                .tests
                .extend(["usual", "pwrite", "pread", "pwritev", "preadv"]),
            other => return Err(cannot(&format!("-{other}"))),
        }
        Ok(())
    }

    /// A letter with a value, which may be empty for letters that are ignored.
    fn with(&mut self, letter: char, value: &str) -> Result<(), PointError> {
        let bad = |must: &str| {
            PointError::of("file", "like", format!(": -{letter} {value}: {must}")).hint(HINT)
        };
        let number = || {
            value
                .parse::<u64>()
                .map_err(|_| bad("it takes a whole number"))
        };
        match letter {
            // iozone's file names do not apply: the layer decides where files are. Workbooks: `-o`.
            'b' | 'f' | 'F' => {}
            'U' => {
                self.params.insert("cache".into(), "cold".into());
            }
            'i' => {
                let number = number()?;
                let test = IOZONE_TESTS.iter().find(|t| t.number == number);
                self.tests
                    .push(test.ok_or_else(|| bad("tests are 0 to 12"))?.id);
            }
            'r' => self
                .records
                .push(kilobytes(value).ok_or_else(|| bad(SIZE))?),
            's' => self.files.push(kilobytes(value).ok_or_else(|| bad(SIZE))?),
            'y' => self.smallest_record = Some(kilobytes(value).ok_or_else(|| bad(SIZE))?),
            'q' => self.largest_record = Some(kilobytes(value).ok_or_else(|| bad(SIZE))?),
            'g' => self.size("max_file_size", kilobytes(value).ok_or_else(|| bad(SIZE))?),
            'n' => self.size("min_file_size", kilobytes(value).ok_or_else(|| bad(SIZE))?),
            't' => self.size("threads", number()?),
            'j' => self.size("stride", number()?),
            // The pattern is our own, and every record is checked.
            'V' => self.switch("verify"),
            other => return Err(cannot(&format!("-{other}"))),
        }
        Ok(())
    }

    /// An option with a plus.
    fn plus(&mut self, option: &str, value: Option<&str>) -> Result<(), PointError> {
        match (option, value) {
            ("D", None) => self.sync("-+D", "odsync"),
            ("n", None) => {
                self.switch("no_retest");
                Ok(())
            }
            ("p", Some(value)) => {
                let share = value.parse::<u64>().map_err(|_| {
                    PointError::of("file", "like", format!(": -+p {value}: it takes percent"))
                        .hint(HINT)
                })?;
                self.size("read_share", share);
                Ok(())
            }
            _ => Err(cannot(&format!("-+{option}"))),
        }
    }

    fn sync(&mut self, letter: &'static str, word: &'static str) -> Result<(), PointError> {
        match self.sync {
            // Both inside the clock, as in iozone.
            Some((_, before))
                if matches!((before, word), ("close", "fsync") | ("fsync", "close")) =>
            {
                self.sync = Some(("-c -e", "fsync-close"));
                Ok(())
            }
            Some((_, "fsync-close")) if matches!(word, "close" | "fsync") => Ok(()),
            Some((other, before)) if before != word => Err(PointError::of(
                "file",
                "like",
                format!(": {other} and {letter} together: a point is made durable in one way"),
            )
            .hint("choose one, or write sync = close,fsync: each becomes points of its own")),
            _ => {
                self.sync = Some((letter, word));
                Ok(())
            }
        }
    }

    fn switch(&mut self, name: &str) {
        self.params.insert(name.into(), Value::Bool(true));
    }

    fn size(&mut self, name: &str, value: u64) {
        self.params.insert(name.into(), value.into());
    }

    fn params(self) -> Result<Map<String, Value>, PointError> {
        let Self {
            auto,
            sync,
            tests,
            mut records,
            mut files,
            smallest_record,
            largest_record,
            mut params,
        } = self;
        // Without -a it is one file of 512 kB and one record of 4 kB.
        if !auto {
            if params.contains_key("max_file_size") || params.contains_key("min_file_size") {
                return Err(PointError::of("file", "like", ": -g and -n belong to -a")
                    .hint("add -a for the matrix, or use -s for one size of file"));
            }
            if files.is_empty() {
                files.push(512 << 10);
            }
            if records.is_empty() && smallest_record.is_none() && largest_record.is_none() {
                records.push(4 << 10);
            }
        }
        if records.is_empty() && (smallest_record.is_some() || largest_record.is_some()) {
            let least = smallest_record.unwrap_or(4 << 10);
            if least == 0 {
                return Err(PointError::of(
                    "file",
                    "like",
                    ": -y is 0: a record has at least 1 byte",
                ));
            }
            let most = largest_record.unwrap_or(16 << 20);
            records = std::iter::successors(Some(least), |r| r.checked_mul(2))
                .take_while(|r| *r <= most)
                .collect();
            if records.is_empty() {
                return Err(PointError::of("file", "like", ": -y is above -q")
                    .hint("-y is the smallest record, -q the largest"));
            }
        }
        params.insert("matrix".into(), "iozone".into());
        let mut list = |name: &str, values: Vec<Value>| {
            if !values.is_empty() {
                params.insert(name.into(), Value::Array(values));
            }
        };
        list("record", records.into_iter().map(Value::from).collect());
        list("file_size", files.into_iter().map(Value::from).collect());
        list("tests", tests.into_iter().map(Value::from).collect());
        if let Some((_, word)) = sync {
            params.insert("sync".into(), word.into());
        }
        Ok(params)
    }
}

const SIZE: &str = "it takes a size in kB, or with k, m or g";

/// iozone's sizes: kilobytes of 1024, unless a unit follows.
fn kilobytes(text: &str) -> Option<u64> {
    match text.parse::<u64>() {
        Ok(kb) => kb.checked_mul(1024),
        Err(_) => parse_size(&text.to_uppercase()).ok(),
    }
}

fn cannot(option: &str) -> PointError {
    PointError::of(
        "file",
        "like",
        format!(": {option} is not among the options of iozone that can be honoured here"),
    )
    .hint(HINT)
}
