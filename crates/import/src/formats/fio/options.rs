//! What a job was asked to do: fio's options, and what of them is not comparable with a point of ours.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

use crate::values;

/// Options by their names. Other programs that write such files have numbers and switches as such.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Options(BTreeMap<String, String>);

impl<'de> Deserialize<'de> for Options {
    fn deserialize<D: Deserializer<'de>>(of: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Value {
            Text(String),
            Switch(bool),
            Whole(i64),
            Number(f64),
            Other(serde::de::IgnoredAny),
        }
        let all = BTreeMap::<String, Value>::deserialize(of)?;
        let texts = all.into_iter().filter_map(|(name, value)| {
            let text = match value {
                Value::Text(text) => text,
                Value::Switch(on) => u8::from(on).to_string(),
                Value::Whole(number) => number.to_string(),
                Value::Number(number) => number.to_string(),
                Value::Other(_) => return None,
            };
            Some((name, text))
        });
        Ok(Self(texts.collect()))
    }
}

impl From<Vec<(&str, String)>> for Options {
    fn from(pairs: Vec<(&str, String)>) -> Self {
        let texts = pairs
            .into_iter()
            .map(|(name, text)| (name.to_owned(), text));
        Self(texts.collect())
    }
}

impl Options {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Engines with one call in flight, whatever `iodepth` says (fio's HOWTO, "I/O engine"). Every other
/// one has a queue.
const SYNCHRONOUS: &[&str] = &[
    "sync",
    "psync",
    "vsync",
    "pvsync",
    "pvsync2",
    "mmap",
    "splice",
    "libpmem",
    "dev-dax",
    "libhdfs",
    "ftruncate",
    "falloc",
];

/// Options with which a job does something that no point of ours does: its name, the value that has no
/// such effect, and what it does.
const APART: &[(&str, &str, &str)] = &[
    ("rate", "0", "its rate is limited"),
    ("rate_iops", "0", "its rate is limited"),
    ("rate_process", "linear", "its rate is limited"),
    ("thinktime", "0", "it waits between its operations"),
    ("flow", "0", "its rate depends on other jobs"),
    ("latency_target", "0", "its queue depth changes"),
    ("nrfiles", "1", "it works on several files"),
    (
        "random_distribution",
        "random",
        "its offsets are not evenly distributed",
    ),
    ("read_iolog", "", "it replays a recording"),
    ("zonemode", "none", "it works in zones"),
];

/// A job's own options first, then the global ones.
pub struct Asked<'a>(pub Option<&'a Options>, pub &'a Options);

impl Asked<'_> {
    /// Whether the file has any option of the job: older versions write none.
    pub fn is_known(&self) -> bool {
        self.0.is_some_and(|own| !own.is_empty()) || !self.1.is_empty()
    }

    pub fn text(&self, names: &[&str]) -> Option<&str> {
        let all = self.0.into_iter().chain([self.1]);
        let mut found = all.filter_map(|options| names.iter().find_map(|n| options.0.get(*n)));
        found.next().map(|text| text.trim())
    }

    /// A size in bytes of a direction (0 read, 1 write, 2 trim), where a list has one for each; `None`
    /// if `kb_base` makes `k` a thousand.
    pub fn size(&self, names: &[&str], direction: usize) -> Option<u64> {
        if self.text(&["kb_base"]) == Some("1000") {
            return None;
        }
        let mut list = self.text(names)?.split(',');
        let first = list.next()?;
        let own = list.nth(direction.checked_sub(1).unwrap_or(usize::MAX));
        values::size(own.filter(|size| !size.is_empty()).unwrap_or(first))
    }

    /// Bytes of an operation in a direction; `None` if they differ or are not told.
    pub fn record(&self, direction: usize) -> Option<u64> {
        const NAMES: &[&str] = &["bs", "blocksize"];
        let differ = ["bsrange", "blocksize_range", "bssplit", "bs_unaligned"];
        if self.text(&differ).is_some() || !self.is_known() {
            return None;
        }
        match self.text(NAMES) {
            Some(_) => self.size(NAMES, direction),
            None => Some(4096),
        }
    }

    pub fn count(&self, names: &[&str]) -> Option<u64> {
        self.text(names).map_or(Some(1), |t| t.parse().ok())
    }

    /// A switch without a value is on.
    pub fn on(&self, name: &str) -> bool {
        self.text(&[name]).is_some_and(|v| v != "0")
    }

    pub fn depth(&self) -> Option<u64> {
        match self.text(&["ioengine"]) {
            Some(engine) if !SYNCHRONOUS.contains(&engine) => self.count(&["iodepth"]),
            _ => Some(1),
        }
    }

    pub fn sync(&self) -> String {
        match self.text(&["sync"]) {
            Some("dsync") => return "odsync".into(),
            Some(v) if v != "0" && v != "none" => return "osync".into(),
            _ => {}
        }
        let after = |name| self.text(&[name]).filter(|v| *v != "0");
        let (all, data) = (after("fsync"), after("fdatasync"));
        let word = if let Some(writes) = all.or(data) {
            if !matches!(writes, "" | "1") {
                return format!("every {}", values::clean(writes));
            }
            if all.is_some() { "each" } else { "each-data" }
        } else if self.on("end_fsync") || self.on("fsync_on_close") {
            "fsync"
        } else {
            "none"
        };
        word.into()
    }

    pub fn engine(&self) -> Option<String> {
        let engine = self.text(&["ioengine"])?;
        let ours = match engine {
            "psync" => "pread",
            "io_uring" => "uring",
            "pvsync" | "pvsync2" => "preadv",
            other => other,
        };
        Some(values::clean(ours))
    }

    /// The word of `rw`.
    pub fn pattern(&self) -> Option<&str> {
        self.is_known()
            .then(|| self.text(&["rw", "readwrite"]).unwrap_or("read"))
    }

    /// Percentage of operations at random offsets in a direction.
    pub fn random(&self, direction: usize) -> Option<f64> {
        if !self.pattern()?.contains("rand") {
            return Some(0.0);
        }
        let Some(list) = self.text(&["percentage_random"]) else {
            return Some(100.0);
        };
        let all: Vec<&str> = list.split([',', ':']).collect();
        let own = all.get(direction).or(all.first())?;
        own.trim().parse().ok()
    }

    /// Percentage of reads of a job that reads and writes.
    pub fn reads(&self) -> Option<f64> {
        let percent = |name| self.text(&[name]).map(|t| t.parse::<f64>().ok());
        match (percent("rwmixread"), percent("rwmixwrite")) {
            (Some(reads), _) => reads,
            (None, Some(writes)) => writes.map(|writes| 100.0 - writes),
            (None, None) => Some(50.0),
        }
    }

    /// Why no point of ours does the same: the option, and what it does.
    pub fn apart(&self) -> Option<String> {
        APART.iter().find_map(|(name, harmless, why)| {
            let value = self.text(&[name])?;
            (value != *harmless).then(|| format!("{name}={}: {why}", values::clean(value)))
        })
    }
}
