//! `layermark why`: why a command is slow in layers, and in which it is not.

use std::process::ExitCode;

use layermark_model::{Settings, Spec};
use layermark_probe::workloads::steps;
use layermark_report::{Report, Why, render};
use serde_json::{Value, json};

use super::{
    measure::{Order, Special, go_on},
    output,
    run::{of_work, request, with_flags},
    safe::settings,
    stdout,
};
use crate::{
    common_args::CommonArgs,
    failure::{Code, Failure},
};

/// How long it may take, unless the user says otherwise: the command and its calls in two or three layers.
const BUDGET: &str = "60s";

/// Measures a command natively and in each layer, and the calls that it makes.
pub fn command(command: Settings, common: &CommonArgs) -> Result<ExitCode, Failure> {
    if common.layers.is_empty() {
        return Err(Failure::usage("why: no layer").hint(
            "layermark why 'git status' -l overlay:upper -l fuse; all layers: layermark layers",
        ));
    }
    let is_baseline = |spec: &Spec| match &common.baseline {
        Some(baseline) => spec == baseline,
        None => spec.is_native(),
    };
    if common.layers.iter().all(is_baseline) {
        let text = format!(
            "why: {} is the baseline, and there is no layer to compare with it",
            common.layers[0]
        );
        return Err(Failure::usage(text).hint(
            "name another: layermark why 'git status' -l fuse; all layers: layermark layers",
        ));
    }
    // The calls are measured for a minute before the command would fail.
    let on_this_host = common.baseline.as_ref().is_none_or(Spec::is_native);
    if on_this_host && let Some(e) = steps::not_found(&command) {
        return Err(Failure::usage(format!("why: {}", e.message)).hint(e.hint.unwrap_or_default()));
    }
    let mut command = command;
    command.params.insert("trace".into(), Value::Bool(true));
    let mut work = vec![command];
    work.extend(calls());
    let mut plan = of_work("why", work);
    plan.about = "Why a command is slow in a layer.".into();
    plan.control = false;
    let free = common.budget.is_none() && common.blocks.is_none() && common.precision.is_none();
    plan.budget = free.then(|| BUDGET.into());
    let order = Order::New(Box::new(request(with_flags(plan, common)?, common)?));
    let show = |report: &Report| show(report, common.out.json.json);
    let special = Special {
        // With --full, the whole report.
        show: (!common.out.full).then_some(&show),
        ..Special::default()
    };
    go_on(order, common, None, &special)
}

/// The operations whose costs are those of the calls.
fn calls() -> [Settings; 2] {
    const NAMES: &str = "stat,open-stat,list,create,unlink,set-attr,small-read,small-write";
    [
        settings(
            "meta",
            &json!({"op": NAMES, "file_size": "4K", "files": "50"}),
        ),
        settings(
            "meta",
            &json!({"op": "small-write", "sync": "fsync", "file_size": "4K", "files": "20"}),
        ),
    ]
}

/// Says why a run has other results and none of the command. Why there is none at all is said of every run.
fn not_measured(report: &Report, json: bool) -> Option<ExitCode> {
    if report.trials.is_empty() {
        return None;
    }
    let left = report.left_out.first();
    let why = left.map(|l| format!(": {}: {}", l.layer, l.reason));
    let text = format!(
        "why: the command was not measured{}",
        why.unwrap_or_default()
    );
    let see = format!("layermark report {}{} --full", report.run, report.store);
    let failure = Failure {
        code: Code::Layer,
        ..Failure::failed(text).hint(see)
    };
    Some(failure.print(json))
}

/// Prints the answer. The exit code is that of the run.
fn show(report: &Report, json: bool) -> Result<Option<ExitCode>, Failure> {
    let Some(why) = Why::of(report) else {
        return Ok(not_measured(report, json));
    };
    if json {
        let text = serde_json::to_string_pretty(&why).map_err(Failure::failed)?;
        stdout::print(&(text + "\n"))?;
        return Ok(None);
    }
    let mut text = Vec::new();
    let style = output::style(render::Unit::Ratio);
    render::print_why(&why, style, &mut text).map_err(Failure::failed)?;
    stdout::write(&text)?;
    Ok(None)
}
