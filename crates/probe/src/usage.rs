//! Resources used by this process, in all threads.
#![allow(unsafe_code)] // getrusage(2) is not in rustix

use layermark_model::{CpuUse, Faults};

/// Since its start, ended threads included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessUsage {
    pub cpu: CpuUse,
    pub faults: Faults,
}

/// CPU time of this process and of its children that have ended and were waited for, ns.
pub fn with_children_ns() -> u64 {
    [libc::RUSAGE_SELF, libc::RUSAGE_CHILDREN]
        .map(|who| of(who).cpu)
        .iter()
        .map(|cpu| cpu.user_ns + cpu.sys_ns)
        .sum()
}

/// Reads all of it with one call.
pub fn now() -> ProcessUsage {
    of(libc::RUSAGE_SELF)
}

fn of(who: libc::c_int) -> ProcessUsage {
    // SAFETY: all-zero bytes are a valid `rusage`, which is plain integers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live `rusage` that only this call writes to.
    let result = unsafe { libc::getrusage(who, &raw mut usage) };
    if result != 0 {
        return ProcessUsage::default();
    }
    let ns = |t: libc::timeval| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1000;
    ProcessUsage {
        cpu: CpuUse {
            user_ns: ns(usage.ru_utime),
            sys_ns: ns(usage.ru_stime),
        },
        faults: Faults {
            minor: usage.ru_minflt as u64,
            major: usage.ru_majflt as u64,
        },
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn work_costs_cpu_time() {
        let before = super::now().cpu;
        let mut x = 1u64;
        let start = crate::clock::monotonic_ns();
        let mut used = 0;
        // 5 ms of CPU may take a while on a busy machine.
        while used <= 5_000_000 && crate::clock::monotonic_ns() - start < 5_000_000_000 {
            x = (0..100_000).fold(x, |x, i| std::hint::black_box(x.wrapping_mul(31) ^ i));
            let now = super::now().cpu;
            used = now.user_ns + now.sys_ns - before.user_ns - before.sys_ns;
        }
        assert!(used > 5_000_000, "{used}");
    }

    #[test]
    fn a_page_that_is_touched_for_the_first_time_is_a_minor_fault() {
        let before = super::now().faults;
        // Larger than the memory that the allocator reuses. Each page is written.
        let pages: Vec<u8> = vec![1; 16 << 20];
        let after = super::now().faults;
        std::hint::black_box(pages);
        assert!(after.minor > before.minor, "{before:?} {after:?}");
    }
}
