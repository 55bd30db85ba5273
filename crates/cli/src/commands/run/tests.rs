use crate::args::{Parsed, parse};

use super::*;

/// The plan of a command.
fn planned(line: &str) -> Plan {
    let words = format!("layermark {line}");
    let words = words.split(' ').map(Into::into);
    let order = match parse(words).unwrap_or_else(|e| panic!("{line}: {}", e.message)) {
        Parsed::Workload(settings, common) | Parsed::Launch(settings, common, _) => {
            new_order(settings, &common)
        }
        Parsed::Cli(_) => panic!("{line}: not a workload"),
    };
    match order {
        Ok(Order::New(request)) => request.plan,
        _ => panic!("{line}: no new run"),
    }
}

#[test]
fn commands_end_by_themselves_unless_told_otherwise() {
    for (line, budget, blocks) in [
        ("file -l fuse", Some(COMMAND_BUDGET), None),
        ("iops -l fuse", Some(COMMAND_BUDGET), None),
        ("meta -l fuse", Some(COMMAND_BUDGET), None),
        ("launch -l fuse -- true", Some(COMMAND_BUDGET), Some(10)),
        ("launch -- true", Some(COMMAND_BUDGET), Some(10)),
        ("file --budget 2m", Some("2m"), None),
        ("launch --budget 2m -- true", Some("2m"), None),
        ("meta --precision 2%", None, None),
        ("launch --precision 2% -- true", None, None),
        ("iops --profile standard", None, None),
        ("file --blocks 30", None, Some(30)),
        ("launch --runs 30 -- true", None, Some(30)),
        ("file --matrix iozone", None, Some(3)),
    ] {
        let plan = planned(line);
        assert_eq!(
            (plan.budget.as_deref(), plan.blocks),
            (budget, blocks),
            "{line}"
        );
    }
}
