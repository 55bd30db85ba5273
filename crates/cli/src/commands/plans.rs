//! `layermark plans`: the plans that come with layermark.

use std::{fmt::Write as _, process::ExitCode};

use clap::Args;
use layermark_model::{Plan, nearest};
use serde_json::json;

use super::{complete, stdout};
use crate::{common_args::JsonArg, failure::Failure};

#[derive(Debug, Args)]
pub struct PlansArgs {
    /// Print this plan's file, to be changed: layermark plans card > mine.toml
    #[arg(add = complete::plans())]
    plan: Option<String>,
    #[command(flatten)]
    pub json: JsonArg,
}

/// The built-in plans.
pub const PLANS: [(&str, &str); 18] = [
    ("card", include_str!("../../../../plans/card.toml")),
    (
        "fileio-appvirt",
        include_str!("../../../../plans/fileio-appvirt.toml"),
    ),
    (
        "iozone-vm",
        include_str!("../../../../plans/iozone-vm.toml"),
    ),
    (
        "buffer-size",
        include_str!("../../../../plans/buffer-size.toml"),
    ),
    (
        "virtual-io-stack",
        include_str!("../../../../plans/virtual-io-stack.toml"),
    ),
    ("daily", include_str!("../../../../plans/daily.toml")),
    ("share", include_str!("../../../../plans/share.toml")),
    (
        "share-storm",
        include_str!("../../../../plans/share-storm.toml"),
    ),
    (
        "container-mounts",
        include_str!("../../../../plans/container-mounts.toml"),
    ),
    ("iops", include_str!("../../../../plans/iops.toml")),
    (
        "launch-share",
        include_str!("../../../../plans/launch-share.toml"),
    ),
    (
        "overlay-copy-up",
        include_str!("../../../../plans/overlay-copy-up.toml"),
    ),
    (
        "fuse-fast17",
        include_str!("../../../../plans/fuse-fast17.toml"),
    ),
    (
        "gvisor-rootfs",
        include_str!("../../../../plans/gvisor-rootfs.toml"),
    ),
    (
        "virtiofs-9p",
        include_str!("../../../../plans/virtiofs-9p.toml"),
    ),
    (
        "flush-cost",
        include_str!("../../../../plans/flush-cost.toml"),
    ),
    ("wsl-mnt", include_str!("../../../../plans/wsl-mnt.toml")),
    (
        "sqlite-blobs",
        include_str!("../../../../plans/sqlite-blobs.toml"),
    ),
];

/// A built-in plan.
pub fn builtin(name: &str) -> Result<Plan, Failure> {
    let found = PLANS.iter().find(|(known, _)| *known == name);
    let (_, text) = found.ok_or_else(|| Failure::failed(format!("no plan {name}")))?;
    Plan::from_toml(text).map_err(|e| Failure::failed(format!("plan {name}: {e}")))
}

/// Their names, as a list.
pub fn names() -> String {
    PLANS.map(|(name, _)| name).join(", ")
}

/// Prints what each plan answers, or the file of one.
pub fn show(args: &PlansArgs) -> Result<ExitCode, Failure> {
    let Some(name) = &args.plan else {
        let all = PLANS.map(|(name, text)| Ok((name, about(text)?)));
        let all: Vec<(&str, String)> = all.into_iter().collect::<Result<_, Failure>>()?;
        let text = if args.json.json {
            let plans: Vec<_> = all
                .iter()
                .map(|(name, about)| json!({ "name": name, "about": about }))
                .collect();
            let all = json!({ "schema": "layermark.plans/1", "plans": plans });
            serde_json::to_string_pretty(&all).map_err(Failure::failed)? + "\n"
        } else {
            listed(&all)
        };
        stdout::print(&text)?;
        return Ok(ExitCode::SUCCESS);
    };
    let Some((_, text)) = PLANS.iter().find(|(known, _)| known == name) else {
        let near = nearest(name, PLANS.iter().map(|(known, _)| *known));
        let near = near.map_or_else(String::new, |near| format!("did you mean `{near}`? "));
        let text = format!("plans: no plan `{name}` comes with layermark");
        return Err(Failure::usage(text).hint(format!("{near}they are: {}", names())));
    };
    if args.json.json {
        let text = "plans: a plan is printed as TOML";
        return Err(Failure::usage(text).hint(format!("layermark plans {name}")));
    }
    stdout::print(text)?;
    Ok(ExitCode::SUCCESS)
}

fn about(text: &str) -> Result<String, Failure> {
    Plan::from_toml(text)
        .map(|plan| plan.about)
        .map_err(Failure::failed)
}

/// A plan a line; a long text goes on below itself.
fn listed(all: &[(&str, String)]) -> String {
    const WIDTH: usize = 100;
    let widest = all.iter().map(|(name, _)| name.len()).max().unwrap_or(0) + 2;
    let mut text = String::new();
    for (name, about) in all {
        let mut line = format!("{name:<widest$}");
        let mut begun = false;
        for word in about.split_whitespace() {
            if begun && line.len() + word.len() + 1 > WIDTH {
                let _ = writeln!(text, "{}", line.trim_end());
                line = " ".repeat(widest);
            }
            let _ = write!(line, "{word} ");
            begun = true;
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text + "\nlayermark run NAME makes one; layermark plans NAME prints it\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_plan_says_what_it_answers_in_lines_that_fit() {
        let all = PLANS.map(|(name, text)| (name, about(text).unwrap()));
        assert!(all.iter().all(|(_, about)| !about.is_empty()), "{all:?}");
        let text = listed(&all);
        assert!(text.lines().all(|line| line.len() <= 100), "{text}");
        for (name, _) in all {
            assert!(text.lines().any(|line| line.starts_with(name)), "{name}");
        }
    }
}
