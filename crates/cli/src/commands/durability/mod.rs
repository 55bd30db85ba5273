//! `layermark durability`: does a layer keep what it acknowledged?

mod check;
pub mod cuts;
mod log;
mod record;
pub mod selftest;

use std::process::ExitCode;

use layermark_model::{PlanCuts, Settings, Spec};
use serde_json::{Map, Value};

use super::{
    measure::{Order, go_on},
    run::new_order,
};
use crate::{
    args::{ByHand, DurabilityArgs},
    failure::Failure,
};

pub fn wants_json(args: &DurabilityArgs) -> bool {
    match &args.by_hand {
        Some(ByHand::Check(check)) => check.json.json,
        Some(ByHand::Record(_)) => false,
        None => args.common.out.json.json,
    }
}

pub fn main(args: &DurabilityArgs) -> Result<ExitCode, Failure> {
    match &args.by_hand {
        Some(ByHand::Record(args)) => record::until_the_power_is_cut(args),
        Some(ByHand::Check(args)) => check::after_the_power_cut(args),
        None => of_layers(args),
    }
}

/// Counts flushes, then cuts the power.
fn of_layers(args: &DurabilityArgs) -> Result<ExitCode, Failure> {
    let servers = servers(&args.servers)?;
    if args.common.layers.is_empty() && servers.is_empty() {
        return Err(Failure::usage("durability: no layer").hint(
            "layermark durability -l overlay:upper; all that can be set up: layermark layers",
        ));
    }
    let mut order = new_order(appends(), &args.common)?;
    if let Order::New(request) = &mut order {
        if args.common.layers.is_empty() {
            request.plan.layers = vec![Spec::bare("native")];
        }
        request.plan.power_cuts = (args.cuts > 0).then_some(PlanCuts {
            cuts: args.cuts,
            records: args.records,
            also: Vec::new(),
        });
    }
    go_on(order, &args.common, None, &servers)
}

/// The words of each command.
fn servers(commands: &[String]) -> Result<Vec<Vec<String>>, Failure> {
    let words = |command: &String| {
        let words = shell_words::split(command).ok().filter(|w| !w.is_empty());
        words.ok_or_else(|| {
            Failure::usage(format!("`--server` = {command}: not a command"))
                .hint("layermark durability --server 'bindfs -f'")
        })
    };
    commands.iter().map(words).collect()
}

/// Writes of 4 KiB at the end of a file, each followed by fsync.
fn appends() -> Settings {
    let params = [("op", "append"), ("record", "4K"), ("sync", "each")];
    let params = params.map(|(key, value)| (key.to_owned(), Value::from(value)));
    Settings {
        workload: "file".into(),
        label: None,
        params: Map::from_iter(params),
    }
}
