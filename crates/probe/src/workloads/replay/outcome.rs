//! Whether a call has ended as it was recorded, and what may be the reason if it has not.

use layermark_recording::{Call, CallKind, open_flag};

use super::trace::ReadyCall;

/// Errors of a file system that cannot share the data of two files.
const NO_CLONE: [i32; 4] = [libc::EOPNOTSUPP, libc::EXDEV, libc::ENOTTY, libc::EINVAL];
/// Errors of a file system that does not have a call, or a flag of it.
const NOT_THERE: [i32; 6] = [
    libc::EOPNOTSUPP,
    libc::EXDEV,
    libc::ENOTTY,
    libc::EINVAL,
    libc::ENOSYS,
    libc::EISDIR,
];

fn is_one_of(outcome: i64, errors: &[i32]) -> bool {
    errors.iter().any(|error| outcome == -i64::from(*error))
}

impl ReadyCall {
    /// Whether the program shared the data of two files, and the layer cannot.
    pub fn is_clone_refused(&self, outcome: i64) -> bool {
        self.call.kind == CallKind::Clone && self.call.outcome == 0 && is_one_of(outcome, &NO_CLONE)
    }

    /// Whether this outcome is the recorded one, or one that a replay accepts in its place.
    pub fn is_as_recorded(&self, outcome: i64) -> bool {
        let recorded = self.call.outcome;
        if outcome == recorded {
            return true;
        }
        let are = |errors: &[i32]| is_one_of(outcome, errors) && is_one_of(recorded, errors);
        let may_be = |errors: &[i32]| {
            let mut both = [outcome, recorded].into_iter();
            both.all(|one| one == 0 || is_one_of(one, errors))
        };
        match self.call.kind {
            // `cp` tries it, and copies the data itself where it fails. Where it does not fail, it is done twice. Where it
            // failed only in the layer, the data was copied.
            CallKind::Clone => is_one_of(recorded, &NO_CLONE) && may_be(&NO_CLONE),
            // What files had before is not recorded. One without attributes has an empty list, or an error.
            kind if kind.lists_xattrs() => may_be(&[libc::EOPNOTSUPP, libc::ERANGE]),
            // Such as SELinux's label: whether a file has one depends on the machine.
            _ if self.of_machine => may_be(&[libc::EOPNOTSUPP, libc::ENODATA, libc::ERANGE]),
            kind if kind.is_xattr() => are(&[libc::EOPNOTSUPP, libc::ENODATA]),
            _ => false,
        }
    }

    /// What to do about another outcome than the recorded one.
    pub fn hint(&self, outcome: i64) -> Option<&'static str> {
        let either =
            |errors: &[i32]| is_one_of(outcome, errors) || is_one_of(self.call.outcome, errors);
        if is_asked_of_file_system(&self.call) && either(&NOT_THERE) {
            return Some(
                "the program goes another way on this file system: record it there, with TMPDIR there too",
            );
        }
        either(&[libc::EACCES, libc::EPERM])
            .then_some("record and replay as the same user, or both as root")
    }
}

/// Whether programs try a call to see whether the file system has it.
fn is_asked_of_file_system(call: &Call) -> bool {
    use CallKind as K;
    match call.kind {
        K::Clone | K::Fallocate | K::CopyRange | K::LinkFile => true,
        K::Rename => call.a != 0,
        K::Open => call.a & i64::from(open_flag("O_TMPFILE")) != 0,
        kind => kind.is_xattr(),
    }
}
