use rustix::rand::{GetRandomFlags, getrandom};

/// A number from the kernel's random source, which nobody can foresee.
pub fn random() -> u64 {
    let mut bytes = [0; 8];
    // Up to 256 bytes come whole; only a signal before the source is ready interrupts the call.
    while getrandom(&mut bytes, GetRandomFlags::empty()) != Ok(bytes.len()) {}
    u64::from_ne_bytes(bytes)
}

/// A name for a file, directory or socket of ours: what others can foresee, they can make first.
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
