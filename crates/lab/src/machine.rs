//! Describes this machine, from `/proc`, `/sys` and os-release. Values that cannot be read stay
//! empty.

use std::{
    fs,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use layermark_layers::{mounts, sandbox};
use layermark_model::Machine;

/// Describes this machine; `dir` is the base directory of a run.
pub fn read(dir: &Path) -> Machine {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpu = text("/proc/cpuinfo");
    let system = rustix::system::uname();
    Machine {
        kernel: system.release().to_string_lossy().into_owned(),
        os: os_name(&text("/etc/os-release")),
        cpu: cpu_name(&cpu).unwrap_or_else(|| system.machine().to_string_lossy().into_owned()),
        cpus: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
        memory: layermark_sys::meminfo(["MemTotal"]).map_or(0, |[bytes]| bytes),
        clocksource: layermark_sys::clocksource().unwrap_or_default(),
        hypervisor: has_flag(&cpu, "hypervisor"),
        privilege: match sandbox::privilege() {
            sandbox::Privilege::Root => "root",
            sandbox::Privilege::UserNamespace => "user namespace",
            sandbox::Privilege::None => "none",
        }
        .into(),
        base: mounts::holding(dir)
            .map(|m| format!("{} on {}", m.fs, m.source.to_string_lossy()))
            .unwrap_or_default(),
        label: None,
    }
}

/// Milliseconds since 1970 UTC.
pub fn now_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
}

fn os_name(os_release: &str) -> String {
    os_release
        .lines()
        .find_map(|l| l.strip_prefix("PRETTY_NAME="))
        .map(|v| v.trim_matches('"').to_owned())
        .unwrap_or_default()
}

/// Value of the first line of `/proc/cpuinfo` with this key.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|l| {
        let (k, v) = l.split_once(':')?;
        (k.trim() == key).then(|| v.trim())
    })
}

fn cpu_name(cpuinfo: &str) -> Option<String> {
    value(cpuinfo, "model name")
        .filter(|n| !n.is_empty())
        .map(str::to_owned)
}

fn has_flag(cpuinfo: &str, flag: &str) -> bool {
    value(cpuinfo, "flags").is_some_and(|flags| flags.split_ascii_whitespace().any(|f| f == flag))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_kernel_writes() {
        let cpuinfo =
            "processor\t: 0\nmodel name\t: Some CPU @ 2GHz\nflags\t\t: fpu hypervisor sse\n";
        assert_eq!(cpu_name(cpuinfo).as_deref(), Some("Some CPU @ 2GHz"));
        assert!(has_flag(cpuinfo, "hypervisor") && !has_flag(cpuinfo, "hyper"));
        assert_eq!(cpu_name("processor : 0\n"), None);
        assert_eq!(
            os_name("NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 12\"\n"),
            "Debian GNU/Linux 12"
        );
    }

    #[test]
    fn this_machine_has_a_kernel_cpus_and_memory() {
        let machine = read(Path::new("/"));
        assert!(!machine.kernel.is_empty() && machine.cpus > 0 && machine.memory > 1 << 20);
        assert!(!machine.base.is_empty(), "{machine:?}");
    }
}
