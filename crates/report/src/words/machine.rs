//! What a run ran on, and how it ended.

use layermark_model::{Machine, RunStatus};

use crate::{
    facts::machine::{FactValue, MachineFact},
    number,
    words::{Text, lists::coded, text},
};

/// The name of a fact, as a head.
pub fn name(of: MachineFact) -> &'static str {
    match of {
        MachineFact::Label => "machine",
        MachineFact::Cpu => "CPU",
        MachineFact::Cpus => "CPUs",
        MachineFact::Memory => "memory",
        MachineFact::Hypervisor => "hypervisor",
        MachineFact::Kernel => "kernel",
        MachineFact::System => "system",
        MachineFact::Directory => "directory on",
        MachineFact::Clock => "clock source",
        MachineFact::Privilege => "privilege",
        MachineFact::Version => "layermark",
    }
}

/// The words before its value in a sentence. The name of a system says what it is.
pub fn before(of: MachineFact) -> Text {
    match of {
        MachineFact::System => Text::default(),
        MachineFact::Version => "version ".into(),
        MachineFact::Cpus | MachineFact::Hypervisor | MachineFact::Privilege => {
            text!("{}: ", name(of))
        }
        _ => text!("{} ", name(of)),
    }
}

/// A value in a table; empty if it is not known.
pub fn cell(of: FactValue) -> Text {
    match of {
        FactValue::Name(name) => name.into(),
        FactValue::Count(n) => text!("{n}"),
        FactValue::Bytes(bytes) => number::bytes(bytes as f64).into(),
        FactValue::Flag(true) => "yes".into(),
        FactValue::Flag(false) => "no".into(),
    }
}

/// A value in a sentence.
pub fn value(of: FactValue) -> Text {
    match of {
        FactValue::Name("") => "unknown".into(),
        known => cell(known),
    }
}

/// A fact that is not the same of all hosts or runs: each value, and of which.
pub fn values(of: MachineFact, groups: &[(FactValue, Vec<&str>)]) -> Text {
    let each = groups.iter();
    let each = each.map(|(known, names)| text!("{} in {}", value(*known), coded(names)));
    text!("{}: {}", name(of), Text::joined(each, "; "))
}

/// A machine in one line.
pub fn line(of: &Machine) -> Text {
    text!(
        "{}, {} CPUs, {}, kernel {}; {}.",
        of.cpu,
        of.cpus,
        of.os,
        of.kernel,
        of.base
    )
}

/// How a run ended, if it did.
pub fn status(of: RunStatus) -> &'static str {
    match of {
        RunStatus::Running => "going on",
        RunStatus::Done => "done",
        RunStatus::Stopped => "stopped by the user",
        RunStatus::Failed => "ended by an error",
        RunStatus::Interrupted => "interrupted: its process is gone",
    }
}
