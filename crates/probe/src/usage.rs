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

/// Adds what was used since `before`.
pub fn add_since(total: &mut CpuUse, before: CpuUse) {
    let now = now();
    total.user_ns += now.user_ns.saturating_sub(before.user_ns);
    total.sys_ns += now.sys_ns.saturating_sub(before.sys_ns);
}

#[cfg(test)]
mod tests {
    #[test]
    fn work_costs_cpu_time() {
        let before = super::now();
        let mut x = 1u64;
        let start = crate::clock::monotonic_ns();
        let mut used = layermark_model::CpuUse::default();
        // 5 ms of CPU may take a while on a busy machine.
        while used.user_ns + used.sys_ns <= 5_000_000
            && crate::clock::monotonic_ns() - start < 5_000_000_000
        {
            x = (0..100_000).fold(x, |x, i| std::hint::black_box(x.wrapping_mul(31) ^ i));
            used = layermark_model::CpuUse::default();
            super::add_since(&mut used, before);
        }
        assert!(used.user_ns + used.sys_ns > 5_000_000, "{used:?}");
    }
}
