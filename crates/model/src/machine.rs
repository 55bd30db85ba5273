use serde::{Deserialize, Serialize};

/// The machine a run was made on. Runs of unlike machines are compared only with the difference shown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Machine {
    /// Kernel release.
    pub kernel: String,
    /// Distribution, from os-release.
    pub os: String,
    /// CPU model.
    pub cpu: String,
    /// CPUs the run could use.
    pub cpus: u32,
    /// Memory, bytes.
    pub memory: u64,
    /// Clock source of the kernel.
    pub clocksource: String,
    /// A hypervisor below, when the CPU says so.
    pub hypervisor: bool,
    /// Privilege the run had: `root`, `user namespace` or `none`.
    pub privilege: String,
    /// File system and device of the base directory.
    pub base: String,
}

impl Machine {
    /// Whether the memory is the same, to 2 %: the kernel takes some for itself, and not always as
    /// much.
    pub fn same_memory(&self, other: &Self) -> bool {
        self.memory.abs_diff(other.memory) <= self.memory.max(other.memory) / 50
    }

    /// Whether CPUs, memory and a hypervisor are the same.
    pub fn same_hardware(&self, other: &Self) -> bool {
        self.same_memory(other)
            && (&self.cpu, self.cpus, self.hypervisor) == (&other.cpu, other.cpus, other.hypervisor)
    }
}
