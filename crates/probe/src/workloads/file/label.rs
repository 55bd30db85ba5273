//! What points are called.

use layermark_model::format_size;

use super::params::{Cache, FileParams, Op, Sync};
use crate::data::Pattern;

/// What a point is called when the user has given it no name.
pub fn full_label(p: &FileParams) -> String {
    let parts = parts(p);
    let (head, tail) = parts.split_at(3);
    let mut label = format!(
        "{} {} of {}",
        head[0],
        head[1],
        head[2].trim_start_matches("file ")
    );
    for part in tail.iter().filter(|p| !p.is_empty()) {
        label.push_str(", ");
        label.push_str(part);
    }
    label
}

/// One text for each parameter; empty where it is the default and need not be said.
pub fn parts(p: &FileParams) -> Vec<String> {
    let when = |on: bool, text: &str| if on { text.to_owned() } else { String::new() };
    let cache = if p.cache == Cache::Cold {
        "cold"
    } else {
        "warm"
    };
    vec![
        p.op.id().into(),
        format_size(p.record),
        format!("file {}", format_size(p.file_size)),
        when(
            p.cache == Cache::Cold || (!p.op.makes() && !p.direct),
            cache,
        ),
        when(p.op.writes() && p.sync != Sync::None, p.sync.id()),
        when(p.threads > 1, &format!("{} threads", p.threads)),
        when(p.files > 1, &format!("{} files", p.files)),
        when(p.direct, "O_DIRECT"),
        when(p.engine != "pread", &format!("engine {}", p.engine)),
        when(p.iodepth > 1, &format!("iodepth {}", p.iodepth)),
        when(
            p.vectors > 0 && p.vectors != 16,
            &format!("{} records a call", p.vectors),
        ),
        when(
            p.stride > 0 && p.stride != 17,
            &format!("stride {}", p.stride),
        ),
        when(
            p.distance > 0,
            &format!("distance {}", format_size(p.distance)),
        ),
        when(
            p.read_share > 0 && p.read_share != 50,
            &format!("{} % readers", p.read_share),
        ),
        when(
            p.passes > 0 && p.op != Op::FirstWrite,
            &format!("{} passes", p.passes),
        ),
        when(
            p.fill_record > 0,
            &format!("made with {}", format_size(p.fill_record)),
        ),
        when(p.no_advice, "no advice"),
        when(p.verify, "verified"),
        when(!p.latency, "no latency"),
        when(
            p.pattern != Pattern::Random,
            match p.pattern {
                Pattern::Zeros => "zeros",
                Pattern::A => "letter A",
                Pattern::ACrlf => "letter A and line ends",
                _ => "text",
            },
        ),
    ]
}
