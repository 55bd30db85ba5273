//! `ioprio_set(2)` and `ioprio_get(2)`, of a thread: the calling one for `None`.
#![allow(unsafe_code)]

use rustix::process::Pid;

/// From `linux/ioprio.h`.
const WHO_PROCESS: libc::c_int = 1;
const CLASS_SHIFT: libc::c_int = 13;
const CLASS_NONE: libc::c_int = 0;
/// "Best effort", and its middle: what nice value 0 stands for.
const USUAL: libc::c_int = 2 << CLASS_SHIFT | 4;

/// Whether it follows the nice value, because nobody has set it. `false` also where the kernel does not tell.
fn follows_nice(thread: Option<Pid>) -> bool {
    // SAFETY: all arguments are numbers.
    let it = unsafe { libc::syscall(libc::SYS_ioprio_get, WHO_PROCESS, Pid::as_raw(thread)) };
    it >= 0 && it >> CLASS_SHIFT == libc::c_long::from(CLASS_NONE)
}

fn set(thread: Option<Pid>, priority: libc::c_int) {
    // SAFETY: all arguments are numbers. If the kernel refuses, nothing changes.
    unsafe {
        libc::syscall(
            libc::SYS_ioprio_set,
            WHO_PROCESS,
            Pid::as_raw(thread),
            priority,
        )
    };
}

/// It stays that of nice value 0 whatever the nice value becomes, unless the user has set another one. Returns whether it
/// was set.
pub fn hold_usual(thread: Option<Pid>) -> bool {
    let free = follows_nice(thread);
    if free {
        set(thread, USUAL);
    }
    free
}

/// It follows the nice value again.
pub fn follow_nice(thread: Option<Pid>) {
    set(thread, CLASS_NONE << CLASS_SHIFT);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_held_until_it_follows_again_and_what_the_user_has_set_stays() {
        if !follows_nice(None) {
            return eprintln!("skipped: it is set, or this kernel does not tell");
        }
        assert!(hold_usual(None));
        assert!(!hold_usual(None), "it is set");
        assert!(!follows_nice(None));
        follow_nice(None);
        assert!(follows_nice(None));
    }
}
