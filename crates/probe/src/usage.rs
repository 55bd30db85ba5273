//! CPU time of this process, all threads.
#![allow(unsafe_code)] // getrusage(2) is not in rustix

use layermark_model::CpuUse;

/// User and system time of this process since it started, ended threads included.
pub fn now() -> CpuUse {
    // SAFETY: all-zero bytes are a valid `rusage`, which is plain integers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live `rusage` that only this call writes to.
    let result = unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    if result != 0 {
        return CpuUse::default();
    }
    let ns = |t: libc::timeval| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1000;
    CpuUse {
        user_ns: ns(usage.ru_utime),
        sys_ns: ns(usage.ru_stime),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn work_costs_cpu_time() {
        let before = super::now();
        let mut x = 1u64;
        let start = crate::clock::monotonic_ns();
        let mut used = 0;
        // 5 ms of CPU may take a while on a busy machine.
        while used <= 5_000_000 && crate::clock::monotonic_ns() - start < 5_000_000_000 {
            x = (0..100_000).fold(x, |x, i| std::hint::black_box(x.wrapping_mul(31) ^ i));
            let now = super::now();
            used = now.user_ns + now.sys_ns - before.user_ns - before.sys_ns;
        }
        assert!(used > 5_000_000, "{used}");
    }
}
