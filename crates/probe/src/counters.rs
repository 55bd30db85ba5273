//! Counters of block devices. Meaning of the fields: Documentation/block/stat.rst of the kernel.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
};

use layermark_model::DeviceBytes;
use layermark_sys::block;

/// Sectors in these files are always 512 bytes, whatever the device's own size is.
const SECTOR: u64 = 512;

/// Size of a buffer for the `stat` of one device: 17 numbers.
const STAT: usize = 512;

/// Devices that are read repeatedly: around each pass of a trial.
pub struct Devices(Vec<Source>);

/// The file that has a device's counters.
enum Source {
    /// Its `stat` in sysfs.
    Stat(File),
    /// `/proc/diskstats`, in lines that begin with the device's number. A container can read it
    /// even without sysfs.
    Diskstats(String),
}

impl Source {
    fn read(&self) -> Option<DeviceBytes> {
        self.fields(parse)
    }

    /// Requests that the device has not completed.
    fn in_flight(&self) -> Option<u64> {
        self.fields(|text| text.split_ascii_whitespace().nth(8)?.parse().ok())
    }

    fn fields<T>(&self, parse: fn(&str) -> Option<T>) -> Option<T> {
        match self {
            Self::Stat(file) => {
                let mut room = [0; STAT];
                let length = file.read_at(&mut room, 0).ok()?;
                parse(str::from_utf8(&room[..length]).ok()?)
            }
            Self::Diskstats(number) => {
                let text = fs::read_to_string(DISKSTATS).ok()?;
                parse(&fields_of(&text, number)?)
            }
        }
    }
}

const DISKSTATS: &str = "/proc/diskstats";

impl Devices {
    /// The devices `major:minor` of this list for which the kernel has counters.
    pub fn open(devices: &[String]) -> Self {
        Self(devices.iter().filter_map(|d| open(d)).collect())
    }

    /// The devices of this machine that store bytes themselves. Loop devices and others that depend
    /// on a device or on memory are left out.
    pub fn of_this_machine() -> Self {
        let real = block::all().filter(|block| block.join("device").exists());
        let numbers: Vec<String> = real.filter_map(|b| block::read(&b.join("dev"))).collect();
        Self::open(&numbers)
    }

    /// Whether they have completed all requests.
    pub fn are_idle(&self) -> bool {
        let mut all = self.0.iter().filter_map(Source::in_flight);
        all.all(|requests| requests == 0)
    }

    /// The sum of their counters; `None` when no device is known.
    pub fn sum(&self) -> Option<DeviceBytes> {
        self.0
            .iter()
            .filter_map(Source::read)
            .reduce(|a, b| DeviceBytes {
                read: a.read + b.read,
                written: a.written + b.written,
                flushes: a.flushes + b.flushes,
            })
    }
}

fn open(device: &str) -> Option<Source> {
    let stat = block::directory(device).map(|dir| File::open(dir.join("stat")));
    if let Some(Ok(file)) = stat {
        return Some(Source::Stat(file));
    }
    let source = Source::Diskstats(device.into());
    source.read().is_some().then_some(source)
}

/// A line has major and minor number, name, and the fields of `stat`.
fn fields_of(text: &str, device: &str) -> Option<String> {
    let (major, minor) = device.split_once(':')?;
    text.lines().find_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        let is_it = fields.next()? == major && fields.next()? == minor;
        let counters: Vec<&str> = fields.skip(1).collect();
        is_it.then(|| counters.join(" "))
    })
}

/// Fields, counted from 1: 3 sectors read, 7 sectors written, 9 requests in flight, 16 flushes completed
/// (Linux 5.5).
fn parse(text: &str) -> Option<DeviceBytes> {
    let fields: Vec<u64> = text
        .split_whitespace()
        .map(|f| f.parse().ok())
        .collect::<Option<_>>()?;
    Some(DeviceBytes {
        read: fields.get(2)?.checked_mul(SECTOR)?,
        written: fields.get(6)?.checked_mul(SECTOR)?,
        flushes: fields.get(15).copied().unwrap_or(0),
    })
}

/// The sum of several devices' counters; `None` when no device is known.
pub fn sum(devices: &[String]) -> Option<DeviceBytes> {
    Devices::open(devices).sum()
}

/// Bytes between two readings. Counters that went back (a replaced device) count as 0.
pub fn between(before: DeviceBytes, after: DeviceBytes) -> DeviceBytes {
    DeviceBytes {
        read: after.read.saturating_sub(before.read),
        written: after.written.saturating_sub(before.written),
        flushes: after.flushes.saturating_sub(before.flushes),
    }
}

/// Bytes written between two readings; `None` when a device is unknown.
pub fn written(before: Option<DeviceBytes>, after: Option<DeviceBytes>) -> Option<u64> {
    Some(between(before?, after?).written)
}

/// Bytes in memory that still have to be written: Dirty and Writeback of `/proc/meminfo`.
pub fn dirty() -> Option<u64> {
    let [dirty, under_way] = layermark_sys::meminfo(["Dirty", "Writeback"]).ok()?;
    Some(dirty + under_way)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_kernels_format() {
        let new = "53499 9676 4600346 30512 15496 46705 4460008 28619 0 16160 60094 6904 25 1240760 890 1769 72\n";
        let expected = DeviceBytes {
            read: 4_600_346 * 512,
            written: 4_460_008 * 512,
            flushes: 1769,
        };
        assert_eq!(parse(new), Some(expected));
        let old = "1 0 8 0 2 0 16 0 0 0 0";
        assert_eq!(
            parse(old),
            Some(DeviceBytes {
                read: 4096,
                written: 8192,
                flushes: 0
            })
        );
        assert_eq!(parse("1 2"), None);
        assert_eq!(parse("a b c d e f g"), None);
    }

    #[test]
    fn an_unknown_device_has_no_counters() {
        for device in ["x", "999999:999999", "../../etc:0"] {
            assert!(open(device).is_none(), "{device}");
        }
        assert_eq!(sum(&["x".into()]), None);
    }

    #[test]
    fn without_sysfs_all_counters_are_in_one_file() {
        let expected = DeviceBytes {
            read: 4096,
            written: 8192,
            flushes: 7,
        };
        let text = " 7 0 loop0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n 254 0 vda 1 0 8 0 2 0 16 0 0 0 0 0 0 0 0 7 0\n";
        let fields = fields_of(text, "254:0").unwrap();
        assert_eq!(parse(&fields), Some(expected));
        assert_eq!(fields_of(text, "254:1"), None);
    }

    #[test]
    fn meminfo_has_the_dirty_bytes() {
        assert!(dirty().is_some());
    }
}
