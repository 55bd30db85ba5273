//! The mount namespace of a run that was killed.
//!
//! Its descriptors are closed before it leaves the namespace, and its probes end after it. A directory that is removed
//! meanwhile from outside takes what is mounted there away *with* what is mounted below (`__detach_mounts` in the kernel's
//! fs/namespace.c). A loop device over a file of the upper mount then keeps that mount, which keeps the mount of the device
//! below it, which keeps the device: no process sees them, and they stay until the machine is started again. Where a
//! namespace ends by itself, its mounts are parted first.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use layermark_sys::process::{self, Stat};

/// The name of no namespace.
pub(super) const NONE: &str = "mnt:[]";

/// That of this process, such as `mnt:[4026531841]` (namespaces(7)).
pub(super) fn own() -> Option<OsString> {
    Some(fs::read_link("/proc/self/ns/mnt").ok()?.into())
}

/// Whether this can be the name of one.
pub(super) fn is_name(text: &OsStr) -> bool {
    let number = text
        .to_str()
        .and_then(|text| text.strip_prefix("mnt:[")?.strip_suffix(']'));
    number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Waits until no thread is in it, but not after `until`.
pub(super) fn wait_for_end(name: &OsStr, until: Instant) {
    while name != OsStr::new(NONE) && is_used(name) && Instant::now() < until {
        thread::sleep(Duration::from_millis(2));
    }
}

fn is_used(name: &OsStr) -> bool {
    process::all()
        .flat_map(process::threads)
        .any(|thread| is_in(&thread, name))
}

/// Whether a thread is in it, or leaves one at this moment: then it has no name, and the mounts may not be parted yet.
fn is_in(thread: &Path, name: &OsStr) -> bool {
    match fs::read_link(thread.join("ns/mnt")) {
        Ok(its) => its == Path::new(name),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let stat = File::open(thread.join("stat")).ok();
            stat.and_then(|file| Stat::read(&file))
                .is_some_and(|stat| !"ZX".contains(stat.state))
        }
        // Another user's.
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_used_while_a_thread_is_in_it() {
        let own = own().expect("a namespace");
        assert!(is_name(&own) && is_name(NONE.as_ref()));
        for other in ["", "mnt:[", "mnt:[1", "net:[1]", "mnt:[x]", "/mnt:[1]"] {
            assert!(!is_name(other.as_ref()), "{other}");
        }
        let this = Path::new("/proc/thread-self");
        assert!(is_in(this, &own) && !is_in(this, "mnt:[1]".as_ref()));
        assert!(!is_in(Path::new("/proc/0"), &own));
        assert!(is_used(&own));
    }
}
