//! The private cache of a CPU core.

use std::{fs, sync::OnceLock};

/// Assumed when the kernel does not report it, bytes.
const USUAL: u64 = 1 << 20;

/// Bytes of the largest cache private to a core: its level 2 cache. Read once.
pub fn own_cache() -> u64 {
    static SIZE: OnceLock<u64> = OnceLock::new();
    *SIZE.get_or_init(|| (0..8).find_map(second_level).unwrap_or(USUAL))
}

/// Size of cache number `index` of the first CPU, if it is of the second level.
fn second_level(index: u32) -> Option<u64> {
    let dir = format!("/sys/devices/system/cpu/cpu0/cache/index{index}");
    let read = |name: &str| fs::read_to_string(format!("{dir}/{name}")).ok();
    if read("level")?.trim() != "2" {
        return None;
    }
    let kib: u64 = read("size")?.trim().strip_suffix('K')?.parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_a_size_that_such_caches_have() {
        assert!((16 << 10..1 << 30).contains(&own_cache()));
    }
}
