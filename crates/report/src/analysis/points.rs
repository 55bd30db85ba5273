//! What kind of work a point is, from its parameters.

use layermark_model::{Point, format_size};

/// The groups words are made for, in the order they are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Reads data.
    Reading,
    /// Reads and writes data in turn.
    Mixed,
    /// Writes data and does not wait for the device.
    Writing,
    /// Writes data and waits for the device.
    Flushing,
    /// Changes a file that the layer came with.
    Changing,
    /// Names and attributes: open, stat, create, unlink.
    Names,
    /// Starts a program.
    Launching,
}

impl Kind {
    /// `the same as native for ...`.
    pub fn words(self) -> &'static str {
        match self {
            Self::Reading => "reading",
            Self::Mixed => "reading and writing",
            Self::Writing => "writing",
            Self::Flushing => "writing with a flush",
            Self::Changing => "changing packaged files",
            Self::Names => "names and attributes",
            Self::Launching => "launching",
        }
    }
}

/// The kind of a point.
pub fn kind(point: &Point) -> Kind {
    let op = point.text("op");
    if point.workload == "launch" {
        return Kind::Launching;
    }
    if changes_packaged(point) {
        Kind::Changing
    } else if op == "read-write" {
        Kind::Mixed
    } else if op.contains("read") {
        Kind::Reading
    } else if op.contains("write") || matches!(op, "append" | "mix") {
        if asks_for_flush(point) {
            Kind::Flushing
        } else {
            Kind::Writing
        }
    } else {
        Kind::Names
    }
}

/// The point opens a file that came with the layer and changes it.
pub fn changes_packaged(point: &Point) -> bool {
    point.text("op") == "first-write"
}

/// The point flushes to the device inside the clock.
pub fn asks_for_flush(point: &Point) -> bool {
    !matches!(point.text("sync"), "" | "none" | "close")
}

/// What counts is bytes a second; elsewhere it is operations a second.
pub fn is_bulk(point: &Point) -> bool {
    point.workload == "file" && !changes_packaged(point)
}

/// Operations under way at once, over all threads: each of them waits this many times the time
/// that passes for one operation of all (Little's law). 1 where the pace is set from outside: there
/// a trial's value is the time that one waits.
pub fn threads(point: &Point) -> f64 {
    if point.number("rate") > 0 || point.number("delay") > 0 {
        return 1.0;
    }
    let each = ["threads", "workers", "iodepth"].map(|key| point.number(key).max(1));
    each.iter().product::<u64>() as f64
}

/// The point looks at what is there and changes nothing, so that a cache matters to it.
fn reads(point: &Point) -> bool {
    let changes = ["create", "unlink", "rename", "mkdir"];
    matches!(kind(point), Kind::Reading | Kind::Names) && !changes.contains(&point.text("op"))
}

/// The parameters worth a line: `read, 64M file, 4K records, warm`.
pub fn describe(point: &Point) -> String {
    if point.workload == "launch" {
        return crate::analysis::launch::describe(point);
    }
    // A specification says more than the parameters that sum it up.
    let spec = point.text("spec");
    let mut parts = vec![
        if spec.is_empty() {
            point.text("op")
        } else {
            spec
        }
        .to_owned(),
    ];
    for (key, suffix) in [("file_size", " file"), ("record", " records"), ("size", "")] {
        if point.number(key) > 0 && (spec.is_empty() || key == "file_size") {
            parts.push(format!("{}{suffix}", format_size(point.number(key))));
        }
    }
    if point.number("threads") > 1 {
        parts.push(format!("{} threads", point.number("threads")));
    }
    for key in ["cache", "sync", "engine"] {
        let idle = key == "cache" && !(point.asks_for_cache() && reads(point));
        if !idle && !matches!(point.text(key), "" | "none") {
            parts.push(point.text(key).to_owned());
        }
    }
    if point.number("workers") > 1 {
        parts.push(format!("{} workers", point.number("workers")));
    }
    if point.number("iodepth") > 1 {
        parts.push(format!("iodepth {}", point.number("iodepth")));
    }
    if point.number("distance") > 0 {
        parts.push(format!(
            "distance {}",
            format_size(point.number("distance"))
        ));
    }
    for (key, words) in [
        ("stride", "records a stride"),
        ("vectors", "records a call"),
        ("read_share", "% of threads read"),
    ] {
        if point.number(key) > 0 {
            parts.push(format!("{} {words}", point.number(key)));
        }
    }
    if point.number("rate") > 0 {
        parts.push(format!("{} a second", point.number("rate")));
    }
    if point.flag("direct") {
        parts.push("O_DIRECT".into());
    }
    parts.retain(|p| !p.is_empty());
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn point(params: &serde_json::Value) -> Point {
        Point::new("file", "x".into(), params).unwrap()
    }

    #[test]
    fn tells_kinds_apart() {
        let cases = [
            (json!({"op": "rand-read"}), Kind::Reading),
            (json!({"op": "write", "sync": "close"}), Kind::Writing),
            (json!({"op": "rand-write", "sync": "each"}), Kind::Flushing),
            (json!({"op": "first-write"}), Kind::Changing),
            (json!({"op": "append"}), Kind::Writing),
            (json!({"op": "mix", "sync": "fsync"}), Kind::Flushing),
            (json!({"op": "seek-read"}), Kind::Reading),
            (json!({"op": "open-stat"}), Kind::Names),
        ];
        for (params, expected) in cases {
            assert_eq!(kind(&point(&params)), expected, "{params}");
        }
    }

    #[test]
    fn describes_what_matters() {
        let at = point(
            &json!({"op": "read", "file_size": 16 << 20, "record": 4096, "threads": 1, "cache": "warm", "sync": "none", "direct": true}),
        );
        assert_eq!(describe(&at), "read, 16M file, 4K records, warm, O_DIRECT");
        let at = point(&json!({"op": "seek-read", "distance": 65536, "stride": 0, "vectors": 4}));
        assert_eq!(describe(&at), "seek-read, distance 64K, 4 records a call");
        for (op, expected) in [
            ("rand-write", "rand-write, each"),
            ("first-write", "first-write, each"),
            ("unlink", "unlink, each"),
            ("open-stat", "open-stat, warm, each"),
        ] {
            let at = point(&json!({"op": op, "cache": "warm", "sync": "each"}));
            assert_eq!(describe(&at), expected);
        }
    }
}
