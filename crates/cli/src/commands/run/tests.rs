use crate::args::{Parsed, parse};

use super::*;

/// The plan of a command.
fn planned(line: &str) -> Plan {
    requested(line).plan
}

fn requested(line: &str) -> Request {
    let words = format!("layermark {line}");
    let words = words.split(' ').map(Into::into);
    let order = match parse(words).unwrap_or_else(|e| panic!("{line}: {}", e.message)) {
        Parsed::Workload(settings, common) | Parsed::Launch(settings, common, _) => {
            new_order(settings, &common)
        }
        Parsed::Cli(_) | Parsed::Why(..) | Parsed::Checked(..) => panic!("{line}: not a workload"),
    };
    match order {
        Ok(Order::New(request)) => *request,
        _ => panic!("{line}: no new run"),
    }
}

#[test]
fn commands_end_by_themselves_unless_told_otherwise() {
    for (line, budget, blocks) in [
        ("file -l fuse", Some(COMMAND_BUDGET), None),
        ("iops -l fuse", Some(COMMAND_BUDGET), None),
        ("meta -l fuse", Some(COMMAND_BUDGET), None),
        ("launch -l fuse -- true", Some(COMMAND_BUDGET), None),
        ("launch -- true", Some(COMMAND_BUDGET), None),
        ("devload -l fuse", Some(COMMAND_BUDGET), Some(8)),
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

#[test]
fn layers_that_are_named_stay_unless_they_may_be_dropped() {
    let kept = |line: &str| {
        let kept = planned(line).keep.into_iter();
        kept.map(|l| l.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(kept("file -l fuse -l tmpfs --budget 9s"), ["fuse", "tmpfs"]);
    assert!(kept("file -l fuse -l tmpfs --budget 9s --drop").is_empty());
    assert!(kept("file --budget 9s").is_empty(), "nobody named them");
}

#[test]
fn only_a_budget_that_was_named_is_a_promise() {
    for (line, usual) in [
        ("file -l fuse", true),
        ("launch -- true", true),
        ("file -l fuse --budget 13s", false),
        ("file --blocks 30", false),
    ] {
        assert_eq!(requested(line).usual_budget, usual, "{line}");
    }
}
