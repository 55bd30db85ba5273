//! What the kernel logs about a device while it is used: mount(2) says `EINVAL`, and the log says why.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use rustix::fs::OFlags;

const LOG: &str = "/dev/kmsg";
/// A record of the kernel is no longer.
const RECORD: usize = 8192;
/// Most records that are looked at: others log too.
const MOST: usize = 1000;
/// Levels up to this one are warnings or worse. What is added for a facility makes the number larger: records of programs have
/// one, and those of the kernel have none.
const WARNING: u32 = 4;

/// The kernel's log from a moment on. Where this user may not read it, it says nothing.
#[derive(Debug)]
pub struct KernelLog(Option<File>);

impl KernelLog {
    /// From now on.
    pub fn from_now() -> Self {
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let file = File::options().read(true).custom_flags(flags).open(LOG);
        Self(file.ok().and_then(|mut file| {
            file.seek(SeekFrom::End(0)).ok()?;
            Some(file)
        }))
    }

    /// The kernel's first warning or error since then that names this device.
    pub fn about(self, device: &Path) -> Option<String> {
        let device = device.file_name()?.to_str()?.to_owned();
        self.first(|record| complaint(record, &device))
    }

    /// The first record since then of which something is said.
    fn first(mut self, said: impl Fn(&str) -> Option<String>) -> Option<String> {
        let file = self.0.as_mut()?;
        let mut room = vec![0; RECORD];
        for _ in 0..MOST {
            // At its end there is an error, since it does not wait. Records that were overwritten are one as well.
            let length = match file.read(&mut room) {
                Ok(0) => return None,
                Ok(length) => length,
                Err(e) if e.raw_os_error() == Some(libc::EPIPE) => continue,
                Err(_) => return None,
            };
            let said = said(&String::from_utf8_lossy(&room[..length]));
            if said.is_some() {
                return said;
            }
        }
        None
    }
}

/// The text of a record such as `3,1234,5678,-;BTRFS error (device loop6): ...` if it is a complaint of the kernel's about a device.
fn complaint(record: &str, device: &str) -> Option<String> {
    let (head, text) = record.split_once(';')?;
    let facility_and_level: u32 = head.split(',').next()?.parse().ok()?;
    let text = text.lines().next()?;
    let mut words = text.split(|c: char| !c.is_ascii_alphanumeric());
    let is_about = words.any(|word| word == device);
    (facility_and_level <= WARNING && is_about).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_complaint_is_a_warning_or_an_error_about_the_device() {
        let text = "BTRFS error (device loop6): superblock checksum mismatch";
        let of =
            |head: &str, device| complaint(&format!("{head};{text}\n SUBSYSTEM=block\n"), device);
        assert_eq!(of("3,12,345,-", "loop6").as_deref(), Some(text));
        // A program wrote it, such as systemd or udev: the kernel lets none of them write without a facility.
        assert_eq!(of("28,12,345,-", "loop6"), None);
        assert_eq!(of("11,12,345,-", "loop6"), None);
        assert_eq!(of("6,12,345,-", "loop6"), None);
        assert_eq!(of("3,12,345,-", "loop"), None);
        assert_eq!(complaint("rubbish", "loop6"), None);
    }

    #[test]
    fn what_was_logged_before_is_not_read() {
        let Ok(mut log) = File::options().write(true).open(LOG) else {
            eprintln!("skipped: {LOG} cannot be written");
            return;
        };
        let name = format!("lm{}", std::process::id());
        let device = Path::new("/dev").join(&name);
        // Each write(2) is a record.
        let mut say = |text: &str| {
            let record = format!("<28>layermark's test: {name}: {text}\n");
            log.write_all(record.as_bytes())
        };
        if say("before").is_err() || File::options().read(true).open(LOG).is_err() {
            eprintln!("skipped: {LOG} cannot be read and written");
            return;
        }
        let [since, nothing, kernels] = [(); 3].map(|()| KernelLog::from_now());
        let named = |record: &str| record.contains(&name).then(|| record.to_owned());
        assert_eq!(nothing.first(named), None);
        say("after").unwrap();
        let said = since.first(named).unwrap_or_default();
        assert!(said.trim_end().ends_with(": after"), "{said}");
        // The kernel did not say it.
        assert_eq!(kernels.about(&device), None);
    }
}
