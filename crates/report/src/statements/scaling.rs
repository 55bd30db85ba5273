//! Why results with several numbers of CPUs show no scaling.

/// Why a result does not show scaling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotScaling {
    /// Its rate is given.
    RateGiven,
    /// The machine has so few CPUs.
    FewCpus(u32),
    /// CPUs of two guests together, and those of the machine.
    TwoGuests([u32; 2]),
}
