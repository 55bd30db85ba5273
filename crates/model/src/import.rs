use serde::{Deserialize, Serialize};

/// Results of another program, read from its file, for comparison with ours.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Import {
    /// ULID: sorts by time.
    pub id: String,
    /// When it was imported, milliseconds since 1970 UTC.
    pub imported_ms: i64,
    /// The file's path, as given.
    pub file: String,
    /// The format it was parsed as, such as `fio`.
    pub format: String,
    /// The program, with its version if the file names it: `fio-3.33`.
    pub tool: String,
    /// When it was measured, as written in the file.
    #[serde(default)]
    pub measured: Option<String>,
    /// Remarks: text that was skipped, jobs that failed.
    #[serde(default)]
    pub notes: Vec<String>,
    /// What was measured.
    pub points: Vec<ImportedPoint>,
}

/// One result of another program, in our terms where they fit. What the file does not say is
/// absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ImportedPoint {
    /// Its name in the file.
    pub name: String,
    /// The operation as the workload `file` calls it, `mix 67 % read 100 % random`, or `command`.
    #[serde(default)]
    pub op: Option<String>,
    /// Bytes of one operation.
    #[serde(default)]
    pub record: Option<u64>,
    /// Bytes of the file.
    #[serde(default)]
    pub file_size: Option<u64>,
    /// Operations in flight at once.
    #[serde(default)]
    pub queue_depth: Option<u64>,
    /// Threads or processes.
    #[serde(default)]
    pub threads: Option<u64>,
    /// Number of simultaneous jobs, if this is one of several that are reported separately. Its
    /// rates are then only a part of the total. Absent if it ran alone or is the total.
    #[serde(default)]
    pub one_of: Option<u64>,
    /// `O_DIRECT`.
    #[serde(default)]
    pub direct: Option<bool>,
    /// Flushes, in the terms of the workload `file`.
    #[serde(default)]
    pub sync: Option<String>,
    /// How a record is read or written, in our terms where they fit.
    #[serde(default)]
    pub engine: Option<String>,
    /// Bytes per second.
    #[serde(default)]
    pub bytes_per_s: Option<f64>,
    /// Operations per second.
    #[serde(default)]
    pub ops_per_s: Option<f64>,
    /// Microseconds per operation: the median of `samples` runs, or the mean if `samples` is
    /// absent.
    #[serde(default)]
    pub op_us: Option<f64>,
    /// 99th percentile of the operations, microseconds.
    #[serde(default)]
    pub p99_us: Option<f64>,
    /// The longest operation, microseconds.
    #[serde(default)]
    pub max_us: Option<f64>,
    /// Number of timed runs that `op_us` is the median of.
    #[serde(default)]
    pub samples: Option<u64>,
}

/// The name of a mix of operations, from its percentages of reads and of random accesses.
pub fn mix_name(reads: f64, random: f64) -> String {
    let is = |value: f64, wanted: f64| (value - wanted).abs() < 1e-9;
    match () {
        () if is(reads, 100.0) && is(random, 0.0) => "read".into(),
        () if is(reads, 100.0) && is(random, 100.0) => "rand-read".into(),
        () if is(reads, 0.0) && is(random, 0.0) => "write".into(),
        () if is(reads, 0.0) && is(random, 100.0) => "rand-write".into(),
        () => format!("mix {reads} % read {random} % random"),
    }
}

#[cfg(test)]
mod tests {
    use super::mix_name;

    #[test]
    fn pure_mixes_have_the_names_of_operations() {
        assert_eq!(mix_name(100.0, 100.0), "rand-read");
        assert_eq!(mix_name(0.0, 0.0), "write");
        assert_eq!(mix_name(67.0, 100.0), "mix 67 % read 100 % random");
    }
}
