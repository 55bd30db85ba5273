//! What several runs do not have in common.

use layermark_model::{Machine, RunStatus};

use crate::{
    Report, group, number,
    statements::{caveats::BusyMachine, odd::Unlike},
    views::rows::status,
};

/// What the runs do not have in common, and the limits of each.
pub fn unlike<'a>(runs: &[(&'a str, &'a Report)], baseline: Option<&str>) -> Vec<Unlike<'a>> {
    let machine = |of: fn(&Machine) -> String| grouped(runs, |run| of(&run.machine));
    let values = [
        ("CPU", machine(|m| m.cpu.clone())),
        ("CPUs", machine(|m| m.cpus.to_string())),
        ("memory", memory(runs)),
        ("hypervisor", machine(|m| yes_or_no(m.hypervisor).into())),
        ("kernel", machine(|m| m.kernel.clone())),
        ("system", machine(|m| m.os.clone())),
        ("directory on", machine(|m| m.base.clone())),
        ("clock source", machine(|m| m.clocksource.clone())),
        ("privilege", machine(|m| m.privilege.clone())),
        ("layermark", grouped(runs, |run| run.run_version.clone())),
    ];
    let values = values.into_iter().filter(|(_, groups)| groups.len() > 1);
    let values = values.map(|(what, groups)| Unlike::Values(what, groups));
    let none = baseline.is_none().then_some(Unlike::NoBaseline);
    let limits = runs.iter().flat_map(|(name, run)| {
        let untrusted = Unlike::Untrusted(name, &run.run, &run.store);
        let untrusted = (!run.trustworthy()).then_some(untrusted);
        let unfinished = Unlike::Unfinished(name, status(run));
        let unfinished = (run.status != RunStatus::Done).then_some(unfinished);
        let busy = BusyMachine::of_report(run).map(|busy| Unlike::Busy(name, busy));
        untrusted.into_iter().chain(unfinished).chain(busy)
    });
    let once = runs.iter();
    let once = once.filter(|(_, run)| run.trials.iter().all(|t| t.session == 0));
    let once: Vec<&str> = once.map(|(name, _)| *name).collect();
    let once = (!once.is_empty()).then_some(Unlike::SetUpOnce(once));
    none.into_iter()
        .chain(values)
        .chain(limits)
        .chain(once)
        .collect()
}

fn yes_or_no(yes: bool) -> &'static str {
    if yes { "yes" } else { "no" }
}

/// The values of one thing in the order of the runs, each with the names of its runs.
fn grouped<'a>(
    runs: &[(&'a str, &'a Report)],
    of: impl Fn(&Report) -> String,
) -> Vec<(String, Vec<&'a str>)> {
    group::grouped(runs.iter().map(|(name, run)| (of(run), *name)))
}

/// Sizes of memory; those that differ by little are the same.
fn memory<'a>(runs: &[(&'a str, &'a Report)]) -> Vec<(String, Vec<&'a str>)> {
    grouped(runs, |run| {
        let like = runs.iter().map(|(_, other)| &other.machine);
        let first = like.into_iter().find(|m| m.same_memory(&run.machine));
        let memory = first.map_or(run.machine.memory, |m| m.memory);
        number::bytes(memory as f64)
    })
}
