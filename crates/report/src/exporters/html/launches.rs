//! Launches on the page: what the series say, their levels, and every launch.

use maud::{Markup, html};

use super::{figures, text::micro};
use crate::{LaunchLevel, LaunchRun, LaunchSeries, Report, charts, number};

pub fn section(report: &Report) -> Markup {
    html! {
        @if !report.series.is_empty() {
            section.launches aria-labelledby="launches" {
                h2 #launches { "Launches" }
                p.hint { "From just before the process is made to the event; runs that lie on either side of a step are counted apart. The first run is set apart when it was cold and the others were not." }
                div.scroll.main tabindex="0" role="region" aria-label="Levels of all series" {
                    table.small {
                        thead { tr { @for head in ["Program", "Layer", "Runs", "Range", "Mean", "Median", "95 % of the centre", "Ratio", "Peak memory", "CPU"] { th scope="col" { (head) } } } }
                        tbody { @for s in &report.series { @for l in &s.levels { (level(s, l)) } } }
                    }
                }
                @for s in report.series.iter().filter(|s| !s.says.is_empty()) {
                    p { b { (s.label) } " in " code { (s.layer) } ": " (micro(&s.says.join(". "))) "." }
                }
                @if let Some(group) = charts::launches(report) {
                    h3 { (group.title) }
                    p.hint { (group.hint) }
                    (figures::some(&group.charts))
                }
                details {
                    summary { "Every launch: run, start, finish, delta" }
                    @for s in &report.series { (runs(s)) }
                }
            }
        }
    }
}

fn ms(ms: f64) -> String {
    micro(&number::time(ms * 1e3))
}

fn level(s: &LaunchSeries, l: &LaunchLevel) -> Markup {
    let of = || s.runs.iter().filter(|r| (l.from..=l.to).contains(&r.run));
    let middle = |pick: fn(&LaunchRun) -> f64| {
        layermark_stats::median(&of().map(pick).collect::<Vec<_>>()).unwrap_or(0.0)
    };
    html! {
        tr {
            th scope="row" { (s.label) }
            td { code { (s.layer) } }
            td.num { (l.from) "\u{2013}" (l.to) }
            td.num { (ms(l.min_ms)) " \u{2013} " (ms(l.max_ms)) }
            td.num { (ms(l.mean_ms)) }
            td.num { (ms(l.median_ms)) }
            td.num { @if let Some([low, high]) = l.interval_ms { (ms(low)) " \u{2013} " (ms(high)) } }
            td.num { @if let Some(r) = &l.ratio { (number::ratio_with(r)) } }
            td.num { (number::bytes(middle(|r| r.peak_bytes as f64))) }
            td.num { (ms(middle(|r| r.user_ms + r.system_ms))) }
        }
    }
}

fn runs(s: &LaunchSeries) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label={ "Launches: " (s.label) " in " (s.layer) } {
            table.small {
                caption { (s.label) " in " code { (s.layer) } @if !s.counted_by.is_empty() { "; counted by " (s.counted_by.join(", ")) } }
                thead { tr { @for head in ["Run", "Start", "Finish", "Delta", "Window", "State", "Major faults", "Blocks read", "I/O wait", "Processes", "Layer restarted"] { th scope="col" { (head) } } } }
                tbody { @for r in &s.runs {
                    tr {
                        td.num { (r.run) }
                        td.num { (format!("{:.3} s", r.start_ms / 1e3)) }
                        td.num { (format!("{:.3} s", r.finish_ms / 1e3)) }
                        td.num { (ms(r.elapsed_ms)) }
                        td { @if let Some(w) = &r.window { (w) } }
                        td { (r.state) }
                        td.num { (r.major_faults) }
                        td.num { (r.input_blocks) }
                        td.num { @if let Some(wait) = r.io_wait_ms { (ms(wait)) } }
                        td.num { (r.started.unwrap_or(r.processes)) }
                        td.num { @if let Some(r) = r.restarted { (ms(r.ns as f64 / 1e6)) } }
                    }
                } }
            }
        }
    }
}
