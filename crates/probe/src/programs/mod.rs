//! Programs that workloads start, with their process groups and how they end.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

mod apart;
pub mod daemon;
pub mod guard;
pub mod last_output;
pub mod spawn;
pub mod strace;
pub mod sys;
pub mod tree;
pub mod user;

/// Directories searched for programs. The user's own `PATH` does not influence the measurement.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Where a place gets programs that it lacks, for every place: the measuring process says which one holds
/// ([`from_elsewhere`]), since a program cannot tell whether layermark itself runs in a container.
pub const ELSEWHERE: &str = "in a guest, have the programs of this host: vm:root=host; in a container, an image that has them: image=NAME";

/// A hint with what holds for a layer instead of [`ELSEWHERE`].
pub fn from_elsewhere(hint: &str, guest: bool, container: bool) -> String {
    let own = match (guest, container) {
        (true, false) => "have the programs of this host: vm:root=host",
        (false, true) => "name an image that has it: image=NAME",
        _ => ELSEWHERE,
    };
    hint.replace(ELSEWHERE, own)
}

/// The path of a program, searched in directories separated by colons.
pub fn which(program: &str, path: &str) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| {
        fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    };
    let mut candidates = path.split(':').map(|dir| Path::new(dir).join(program));
    candidates.find(is_program)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// npm was missing in a container, and the hint was about guests.
    #[test]
    fn a_container_without_a_program_needs_another_image() {
        let hint = format!("name a program; {ELSEWHERE}");
        assert_eq!(from_elsewhere(&hint, false, false), hint);
        let container = from_elsewhere(&hint, false, true);
        assert_eq!(
            container,
            "name a program; name an image that has it: image=NAME"
        );
        let guest = from_elsewhere(&hint, true, false);
        assert!(guest.contains("vm:root=host") && !guest.contains("image="));
    }
}
