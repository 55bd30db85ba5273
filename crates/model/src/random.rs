use std::{
    fs::File,
    io::{self, Read},
};

/// An unpredictable number from the kernel's random source.
pub fn random() -> u64 {
    try_random().expect("neither getrandom(2) nor /dev/urandom gives a random number")
}

/// A random number, or an error: a sandbox may refuse the call and have no `/dev/urandom`.
pub fn try_random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    if !by_getrandom(&mut bytes) {
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    }
    Ok(u64::from_ne_bytes(bytes))
}

/// Whether getrandom(2) has filled the bytes. It needs no file.
#[cfg(target_os = "linux")]
fn by_getrandom(bytes: &mut [u8; 8]) -> bool {
    use rustix::{
        io::Errno,
        rand::{GetRandomFlags, getrandom},
    };
    loop {
        match getrandom(&mut bytes[..], GetRandomFlags::empty()) {
            // Up to 256 bytes are never truncated. A signal before the source is ready interrupts
            // the call.
            Err(Errno::INTR) => {}
            Ok(got) => return got == bytes.len(),
            Err(_) => return false,
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn by_getrandom(_: &mut [u8; 8]) -> bool {
    false
}

/// An unpredictable name for a file, directory or socket of ours. A name that others can predict,
/// they can create first.
pub fn random_name(prefix: &str) -> String {
    format!("{prefix}{:016x}", random())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_and_are_of_one_length() {
        let names: std::collections::BTreeSet<String> =
            (0..1000).map(|_| random_name("layermark-")).collect();
        assert_eq!(names.len(), 1000);
        assert!(names.iter().all(|n| n.len() == "layermark-".len() + 16));
    }
}
