//! Background of the numbers: method, layers, cost of measuring, the command, the raw trials.

use maud::{Markup, html};

use super::{
    fold,
    text::{micro, rich},
};
use crate::{
    LayerReport, Reproduce, TrialRow, number,
    page::{Content, Document, Method, Part, Stack},
};

pub fn method(document: &Document, how: &Method) -> Markup {
    let baseline = document.baseline;
    html! {
        div.prose {
            p {
                "All layers stood side by side and took turns: in each of " (number::count(how.blocks, "block")) " (" (number::count(how.sessions, "session"))
                ") every operation was measured in every layer, in turns of a few milliseconds where it can be divided, in an order drawn from the seed, and only one layer worked at a time. What slows the whole machine down therefore slows all layers alike and leaves the ratio alone."
            }
            p {
                "In each block the layer's time an operation is divided by that in " (baseline) ", turn by turn where they took turns within it. The ratio shown is the 20 % trimmed mean of the blocks' logarithms, its interval and its p are of one t test at "
                (number::percent(document.level)) ", whose variance is drawn towards that of the other comparisons; below three blocks there is none. "
                b { "Same" } " means that the whole interval lies within a factor of " (format!("{:.3}", 1.0 + how.delta)) " of 1, " b { "slower" } " and " b { "faster" }
                " that the interval reaches beyond that and that the difference, however small, survives Holm's correction for the number of comparisons in this report that the plan asks a verdict on. What survives only the weaker correction of Benjamini and Hochberg, of which one in twenty may be wrong, is " b { "probably" } " slower or faster. All else is " b { "too noisy" } " to tell."
            }
            p {
                "Where data came from is decided by the bytes that crossed the device, not by the requested cache state. Flushes "
                b { "reached the device" } " when the device below counted one for each sync, and fsync was " b { "skipped" }
                " when a device with a volatile cache counted none, while it counted those of " (baseline) " and no other program flushed it. Being faster than " (baseline) " is an alarm: its reason is looked for in the data."
            }
            @if !how.fidelity.is_empty() {
                p { "This follows " code { "iozone" } " and differs from it on purpose:" }
                ul { @for note in how.fidelity { li { (rich(note)) } } }
            }
        }
    }
}

pub fn inventory(stack: &Stack) -> Markup {
    let m = stack.machine;
    html! {
            dl.facts {
                dt { "CPU" } dd { (m.cpu) ", " (m.cpus) " CPUs" @if m.hypervisor { ", under a hypervisor" } }
                dt { "Memory" } dd { (number::bytes(m.memory as f64)) }
                dt { "System" } dd { (m.os) ", kernel " (m.kernel) ", clock " (m.clocksource) }
                dt { "Directory" } dd { (stack.dir) " (" (m.base) ")" }
                dt { "Privilege" } dd { (m.privilege) }
            }
            div.cards { @for l in stack.ready() { (card(l)) } }
    }
}

fn card(layer: &LayerReport) -> Markup {
    let facts = &layer.facts;
    html! {
        article.card {
            h3 { code { (layer.name) } }
            dl.facts {
                @if layer.spec != layer.name { dt { "Layer" } dd { code { (layer.spec) } } }
                @for mount in &facts.mounts {
                    dt { "Mount" }
                    dd { (mount.fs) " from " (mount.source) " at " (mount.at.display()) " " small { "(" (mount.options) ")" } }
                }
                @for d in &facts.devices {
                    dt { "Device" }
                    dd { (d.name) " " (d.number) @if !d.write_cache.is_empty() { ", " (d.write_cache) } @if d.rotational { ", rotational" } @if !d.physical { ", not physical" } }
                }
                @for path in &facts.backing { dt { "Backed by" } dd { (path.display()) } }
                @for (name, version) in &facts.versions { dt { (name) } dd { (version) } }
                @for (name, value) in &facts.notes { dt { (name) } dd { (value) } }
                dt { "Set up in" } dd { (micro(&number::time(layer.setup_s * 1e6))) }
                @if layer.read_only { dt { "Access" } dd { "read-only" } }
            }
        }
    }
}

/// Columns of what the probe measures of itself.
const SELF_TEST_COLUMNS: [&str; 3] = ["One clock read", "Measuring loop", "Null operation"];

pub fn self_tests(layers: &[&LayerReport]) -> Markup {
    html! {
            p.hint { "Medians, measured by the probe at its start, inside each layer." }
            div.scroll.wide tabindex="0" role="region" aria-label="What measuring costs" {
                table.small {
                    thead { tr { th scope="col" { "Layer" } @for part in SELF_TEST_COLUMNS { th.num scope="col" { (part) } } } }
                    tbody {
                        @for l in layers {
                            tr {
                                th scope="row" { code { (l.name) } }
                                @for (part, ns) in SELF_TEST_COLUMNS.iter().zip([l.self_test.clock_ns, l.self_test.loop_ns, l.self_test.null_ns]) {
                                    td.num data-head=(part) { (micro(&number::time(ns / 1e3))) }
                                }
                            }
                        }
                    }
                }
            }
    }
}

pub fn reproduce(how: &Reproduce) -> Markup {
    html! {
        div.prose {
            p { "With the plan below saved as " code { "plan.toml" } ":" }
            pre tabindex="0" { code { (how.command) } }
            p { "Or, where the run is stored, the same order of trials:" }
            pre tabindex="0" { code { (how.replay) } }
            details {
                summary { "The plan" }
                pre tabindex="0" { code { (how.plan_toml) } }
            }
        }
    }
}

/// Most trials on the page; more would make it too large to open.
const TRIALS: usize = 4_000;

/// Columns of the trials. The style sheet gets them as `--c1` to `--c9`: a `data-head` of each cell would make a large
/// page much larger.
const TRIAL_COLUMNS: [&str; 9] = [
    "Trial",
    "Session",
    "Block",
    "At",
    "Layer",
    "Operation",
    "Time an operation",
    "Operations",
    "Remarks",
];

fn column_variables(heads: &[&str]) -> String {
    let each = heads.iter().zip(1..);
    let each: Vec<_> = each.map(|(head, n)| format!("--c{n}:\"{head}\"")).collect();
    each.join(";")
}

pub fn trials(document: &Document) -> Markup {
    html! {
        @for block in document.of(&[Part::Trials]) {
            @if let Content::Trials(all) = &block.content { (some_trials(document, &block.title, all)) }
        }
    }
}

fn some_trials(document: &Document, title: &str, all: &[TrialRow]) -> Markup {
    let shown = all.len().min(TRIALS);
    let body = html! {
        @if shown < all.len() {
            p.hint { "The first " (shown) " of " (all.len()) ". All of them:" }
            pre { code { (document.more("-o all.trials.csv")) } }
        }
        div.scroll.main.wide.trials tabindex="0" role="region" aria-label="Every trial" {
            table.small style=(column_variables(&TRIAL_COLUMNS)) {
                thead { tr { @for head in TRIAL_COLUMNS { th scope="col" { (head) } } } }
                tbody { @for t in &all[..shown] { (trial(t)) } }
            }
        }
    };
    let note = format!(
        "{} in the order they were made",
        number::count(shown, "trial")
    );
    html! { @if shown > 0 { div.raw { (fold("trials", title, &note, &body)) } } }
}

fn trial(t: &TrialRow) -> Markup {
    html! {
        tr id={ "t" (t.seq) } {
            td.num { (t.seq) }
            td.num { (t.session) }
            td.num { (t.block) }
            td.num { (number::time(t.at_ms as f64 * 1e3)) }
            td { (t.layer) }
            td { (t.point) }
            td.num { @if let Some(us) = t.op_us { (micro(&number::time(us))) } }
            td.num { (t.ops) }
            td { (t.flags.join(", ")) @if let Some(e) = &t.error { " " (e) } }
        }
    }
}
