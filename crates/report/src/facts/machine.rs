//! What a run ran on: one list of facts for every comparison of runs.

use layermark_model::Machine;

use crate::Report;

/// A fact of a run's machine, or the version that measured it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MachineFact {
    /// Name that the user gave the machine.
    Label,
    /// Model of the CPU.
    Cpu,
    /// Number of CPUs.
    Cpus,
    /// Memory.
    Memory,
    /// Whether a hypervisor is below it.
    Hypervisor,
    /// Version of the kernel.
    Kernel,
    /// Name of the system.
    System,
    /// File system and device of the run's directory.
    Directory,
    /// The kernel's clock source.
    Clock,
    /// The user's privilege.
    Privilege,
    /// Version of layermark.
    Version,
}

use MachineFact::{
    Clock, Cpu, Cpus, Directory, Hypervisor, Kernel, Label, Memory, Privilege, System, Version,
};

/// What two runs must have in common to have had the same machine.
pub const HARDWARE: [MachineFact; 4] = [Cpu, Cpus, Memory, Hypervisor];
/// And the same system on it.
pub const SYSTEM: [MachineFact; 4] = [System, Directory, Clock, Privilege];
/// All that runs are compared by.
pub const COMPARED: [MachineFact; 10] = [
    Cpu, Cpus, Memory, Hypervisor, Kernel, System, Directory, Clock, Privilege, Version,
];
/// The lines of a table of machines.
pub const LISTED: [MachineFact; 8] = [
    Label, Cpu, Cpus, Memory, Kernel, System, Directory, Privilege,
];

/// The value of a fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FactValue<'a> {
    /// A name; empty if it is not known.
    Name(&'a str),
    /// A number.
    Count(u32),
    /// An amount of memory.
    Bytes(u64),
    /// Yes or no.
    Flag(bool),
}

/// What a run ran on.
#[derive(Debug, Clone, Copy)]
pub struct RanOn<'a> {
    /// The machine.
    pub machine: &'a Machine,
    /// Version of layermark; empty if it is not known.
    pub version: &'a str,
}

impl<'a> RanOn<'a> {
    /// Of a report's run.
    pub fn of(report: &'a Report) -> Self {
        Self {
            machine: &report.machine,
            version: &report.run_version,
        }
    }
}

impl MachineFact {
    /// Its value in a run.
    pub fn of(self, run: RanOn<'_>) -> FactValue<'_> {
        let m = run.machine;
        match self {
            Label => FactValue::Name(m.label.as_deref().unwrap_or_default()),
            Cpu => FactValue::Name(&m.cpu),
            Cpus => FactValue::Count(m.cpus),
            Memory => FactValue::Bytes(m.memory),
            Hypervisor => FactValue::Flag(m.hypervisor),
            Kernel => FactValue::Name(&m.kernel),
            System => FactValue::Name(&m.os),
            Directory => FactValue::Name(&m.base),
            Clock => FactValue::Name(&m.clocksource),
            Privilege => FactValue::Name(&m.privilege),
            Version => FactValue::Name(run.version),
        }
    }

    /// Whether two runs have the same. Of memory the kernel reserves some, so a little less is the same.
    pub fn is_same(self, one: RanOn, other: RanOn) -> bool {
        match self {
            Memory => one.machine.same_memory(other.machine),
            _ => self.of(one) == self.of(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_compared_fact_tells_two_machines_apart() {
        let machine = Machine {
            cpu: "one".into(),
            memory: 1_000_000,
            ..Machine::default()
        };
        let one = RanOn {
            machine: &machine,
            version: "1",
        };
        let other = Machine {
            kernel: "6.1".into(),
            os: "Debian".into(),
            cpu: "two".into(),
            cpus: 7,
            memory: 1_030_000,
            clocksource: "tsc".into(),
            hypervisor: true,
            privilege: "root".into(),
            base: "ext4".into(),
            label: Some("lab".into()),
        };
        let other = RanOn {
            machine: &other,
            version: "2",
        };
        for fact in COMPARED.into_iter().chain(LISTED) {
            assert!(
                fact.is_same(one, one) && !fact.is_same(one, other),
                "{fact:?}"
            );
        }
        let little_less = Machine {
            memory: 990_000,
            ..machine.clone()
        };
        let little_less = RanOn {
            machine: &little_less,
            ..one
        };
        assert!(Memory.is_same(one, little_less));
    }
}
