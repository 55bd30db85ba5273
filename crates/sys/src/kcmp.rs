//! `kcmp(2)`.
#![allow(unsafe_code)]

/// From `linux/kcmp.h`.
const KCMP_FILE: libc::c_int = 0;

/// A process and the number of one of its descriptors.
pub type Descriptor = (u32, u32);

/// Whether two descriptors have one open file, with one position: by dup(2), or inherited over fork(2). `false` also
/// where the kernel does not tell, or this user may not ask.
pub fn is_same_open_file(one: Descriptor, other: Descriptor) -> bool {
    let (own_pid, other_pid) = (one.0.cast_signed(), other.0.cast_signed());
    let (own, other) = (u64::from(one.1), u64::from(other.1));
    // SAFETY: all arguments are numbers.
    unsafe { libc::syscall(libc::SYS_kcmp, own_pid, other_pid, KCMP_FILE, own, other) == 0 }
}

#[cfg(test)]
mod tests {
    use std::{fs::File, os::fd::AsRawFd};

    use super::*;

    #[test]
    fn a_duplicate_has_the_same_open_file_and_a_second_open_has_not() {
        let own = |file: &File| (std::process::id(), file.as_raw_fd().cast_unsigned());
        let first = File::open("/dev/null").unwrap();
        let twin = first.try_clone().unwrap();
        let second = File::open("/dev/null").unwrap();
        assert!(!is_same_open_file(own(&first), own(&second)));
        if !is_same_open_file(own(&first), own(&first)) {
            return eprintln!("skipped: this kernel has no kcmp(2)");
        }
        assert!(is_same_open_file(own(&first), own(&twin)));
    }
}
