use serde::{Deserialize, Serialize};

/// The machine of a run. A comparison of runs on unlike machines shows the difference.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Machine {
    /// Kernel release.
    pub kernel: String,
    /// Distribution, from os-release.
    pub os: String,
    /// CPU model.
    pub cpu: String,
    /// Number of CPUs that the run could use.
    pub cpus: u32,
    /// Memory, bytes.
    pub memory: u64,
    /// Clock source of the kernel.
    pub clocksource: String,
    /// Whether the CPU reports a hypervisor below.
    pub hypervisor: bool,
    /// Privilege of the run: `root`, `user namespace` or `none`.
    pub privilege: String,
    /// File system and device of the base directory.
    pub base: String,
    /// The user's name for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

impl Machine {
    /// Whether the memory is the same within 2 %: the kernel reserves some, and the amount varies.
    pub fn same_memory(&self, other: &Self) -> bool {
        self.memory.abs_diff(other.memory) <= self.memory.max(other.memory) / 50
    }

    /// Whether CPUs, memory and hypervisor are the same.
    pub fn same_hardware(&self, other: &Self) -> bool {
        self.same_memory(other)
            && (&self.cpu, self.cpus, self.hypervisor) == (&other.cpu, other.cpus, other.hypervisor)
    }
}
