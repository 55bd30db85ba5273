//! How fast this machine is at this moment, as a forecast needs it before anything is measured.

use std::{
    fs::{self, File},
    hint::black_box,
    io::{self, Write},
    path::Path,
    time::{Duration, Instant},
};

use layermark_stats::{mean, trimmed_mean};
use rustix::time::{ClockId, clock_gettime};

use crate::decide::guess::Speed;

/// Files that are made at most, how many of them are flushed, and bytes in each.
const FILES: u32 = 400;
const ON_DISK: u32 = 16;
const SIZE: usize = 4096;
/// Bytes that are flushed.
const FLUSHED: usize = 2 << 20;
/// Time for each part.
const PART: Duration = Duration::from_millis(100);
/// No disk is taken for faster or slower than this, bytes/s.
const RATES: [f64; 2] = [20e6, 2e9];
/// Nor a machine for busier.
const BUSIEST: f64 = 8.0;

/// Makes files in a new directory for some tenths of a second, and removes them.
pub(crate) fn speed(work: &Path) -> io::Result<Speed> {
    let dir = work.join("rehearsal");
    fs::create_dir(&dir)?;
    let measured = (|| {
        Ok(Speed {
            file: files(&dir, FILES, false)?.iter().sum(),
            remove: files(&dir, ON_DISK, true)?[1],
            byte_s: byte_s(&dir.join("flushed"))?,
            busy: busy(),
        })
    })();
    fs::remove_dir_all(&dir).and(measured)
}

/// Time to make a small file, and to remove it again; flushed, if it has to be `on_disk`. Stalls are left out.
fn files(dir: &Path, most: u32, on_disk: bool) -> io::Result<[Duration; 2]> {
    let data = [0x5a; SIZE];
    let path = |n: usize| dir.join(n.to_string());
    let (begun, mut made, mut removed) = (Instant::now(), Vec::new(), Vec::new());
    while made.len() < most as usize && (made.is_empty() || begun.elapsed() < PART) {
        let before = Instant::now();
        let mut file = File::create_new(path(made.len()))?;
        file.write_all(&data)?;
        made.push(before.elapsed().as_secs_f64());
        if on_disk {
            file.sync_data()?;
        }
    }
    for n in 0..made.len() {
        let before = Instant::now();
        fs::remove_file(path(n))?;
        removed.push(before.elapsed().as_secs_f64());
    }
    let typical = |all: &[f64]| trimmed_mean(all).or(mean(all)).unwrap_or_default();
    Ok([&made, &removed].map(|all| Duration::from_secs_f64(typical(all))))
}

/// Time to write a byte of a large file and to have it on the disk, seconds.
fn byte_s(path: &Path) -> io::Result<f64> {
    let begun = Instant::now();
    let mut file = File::create(path)?;
    file.write_all(&vec![0x5a; FLUSHED])?;
    file.sync_data()?;
    let rate = FLUSHED as f64 / begun.elapsed().as_secs_f64();
    Ok(1.0 / rate.clamp(RATES[0], RATES[1]))
}

/// How many times longer a computation takes than the CPU time that it needs.
fn busy() -> f64 {
    let cpu = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    };
    let (begun, before) = (Instant::now(), cpu());
    let mut state = 1_u64;
    while begun.elapsed() < PART {
        state = black_box(state.wrapping_mul(3));
    }
    let took = begun.elapsed().as_secs_f64();
    (took / (cpu() - before).max(1e-3)).clamp(1.0, BUSIEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_is_removed() {
        let temp = tempfile::tempdir().unwrap();
        let speed = speed(temp.path()).unwrap();
        assert!(speed.file > Duration::ZERO && speed.remove > Duration::ZERO);
        assert!((1.0..=BUSIEST).contains(&speed.busy));
        assert!((1.0 / RATES[1]..=1.0 / RATES[0]).contains(&speed.byte_s));
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 0);
        assert!(super::speed(&temp.path().join("absent")).is_err());
    }
}
