//! Counters of block devices. Meaning of the fields: Documentation/block/stat.rst of the kernel.

use std::{
    fs::{self, File},
    io::Read,
    os::unix::fs::FileExt,
    path::Path,
};

use layermark_model::DeviceBytes;

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
        match self {
            Self::Stat(file) => {
                let mut room = [0; STAT];
                let length = file.read_at(&mut room, 0).ok()?;
                parse(str::from_utf8(&room[..length]).ok()?)
            }
            Self::Diskstats(number) => {
                parse_diskstats(&fs::read_to_string(DISKSTATS).ok()?, number)
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
        let all = fs::read_dir("/sys/block").into_iter().flatten().flatten();
        let real = all
            .map(|entry| entry.path())
            .filter(|block| block.join("device").exists());
        let numbers = real.filter_map(|block| fs::read_to_string(block.join("dev")).ok());
        let numbers: Vec<String> = numbers.map(|n| n.trim().to_owned()).collect();
        Self::open(&numbers)
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
    let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let (major, minor) = device.split_once(':')?;
    // The name comes from another process: only a device number may become part of a path.
    if !number(major) || !number(minor) {
        return None;
    }
    let by_number = File::open(Path::new("/sys/dev/block").join(device).join("stat"));
    let by_name = || in_class(Path::new("/sys/class/block"), device);
    if let Some(file) = by_number.ok().or_else(by_name) {
        return Some(Source::Stat(file));
    }
    let source = Source::Diskstats(device.into());
    source.read().is_some().then_some(source)
}

/// The `stat` of the device with this number in `class`.
fn in_class(class: &Path, device: &str) -> Option<File> {
    let is_it = |entry: &fs::DirEntry| {
        let dev = fs::read_to_string(entry.path().join("dev"));
        dev.is_ok_and(|number| number.trim() == device)
    };
    let entry = fs::read_dir(class).ok()?.flatten().find(is_it)?;
    File::open(entry.path().join("stat")).ok()
}

/// A line has major and minor number, name, and the fields of `stat`.
fn parse_diskstats(text: &str, device: &str) -> Option<DeviceBytes> {
    let (major, minor) = device.split_once(':')?;
    text.lines().find_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        let is_it = fields.next()? == major && fields.next()? == minor;
        let counters: Vec<&str> = fields.skip(1).collect();
        parse(&counters.join(" ")).filter(|_| is_it)
    })
}

/// The start of a file of `/proc` or `/sys`, up to the size of the buffer, in one read: the kernel
/// returns everything at once. Reading to the end takes three more calls, and these files are read
/// around each trial.
pub fn beginning<'a>(path: &Path, room: &'a mut [u8]) -> Option<&'a str> {
    let length = File::open(path).ok()?.read(room).ok()?;
    str::from_utf8(&room[..length]).ok()
}

/// Fields, counted from 1: 3 sectors read, 7 sectors written, 16 flushes completed (Linux 5.5).
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
    let mut room = [0; 8192];
    let text = beginning(Path::new("/proc/meminfo"), &mut room)?;
    let kib = |key: &str| -> Option<u64> {
        let line = text.lines().find(|l| l.starts_with(key))?;
        line.split_whitespace().nth(1)?.parse().ok()
    };
    Some((kib("Dirty:")? + kib("Writeback:")?) * 1024)
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
    fn only_a_device_number_becomes_a_path() {
        for device in ["", ":", "8", "../../etc:0", "8:../x", "999999:999999"] {
            assert!(open(device).is_none(), "{device}");
        }
        assert_eq!(sum(&["x".into()]), None);
    }

    #[test]
    fn a_container_that_hides_sys_dev_shows_the_counters_elsewhere() {
        let temp = tempfile::tempdir().unwrap();
        let vda = temp.path().join("vda");
        fs::create_dir(&vda).unwrap();
        fs::write(vda.join("dev"), "254:0\n").unwrap();
        fs::write(vda.join("stat"), "1 0 8 0 2 0 16 0 0 0 0 0 0 0 0 7 0\n").unwrap();
        let stat = in_class(temp.path(), "254:0").map(Source::Stat).unwrap();
        let expected = DeviceBytes {
            read: 4096,
            written: 8192,
            flushes: 7,
        };
        assert_eq!(stat.read(), Some(expected));
        assert!(in_class(temp.path(), "254:1").is_none());

        let text = " 7 0 loop0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n 254 0 vda 1 0 8 0 2 0 16 0 0 0 0 0 0 0 0 7 0\n";
        assert_eq!(parse_diskstats(text, "254:0"), Some(expected));
        assert_eq!(parse_diskstats(text, "254:1"), None);
    }

    #[test]
    fn meminfo_has_the_dirty_bytes() {
        assert!(dirty().is_some());
    }
}
