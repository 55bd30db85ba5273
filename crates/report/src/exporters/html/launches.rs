//! Launches on the page: the series in sentences, their levels, and every launch.

use maud::{Markup, html};

use super::{figures, text::micro};
use crate::{
    LaunchSeries, Report, charts,
    views::launches::{self, LevelWords, RUN_HEADS, run_cells},
};

pub fn section(report: &Report) -> Markup {
    html! {
        @if !report.series.is_empty() {
            section.launches aria-labelledby="launches" {
                h2 #launches { "Launches" }
                p.hint { "From just before the process is created to the event. Runs before and after a step are counted separately. The first run is set apart if it was cold and the others were not." }
                div.scroll.main tabindex="0" role="region" aria-label="Levels of all series" {
                    table.small {
                        thead { tr { @for head in ["Program", "Layer", "Runs", "Range", "Mean", "Median", "95 % of the centre", "Ratio", "Peak memory", "CPU"] { th scope="col" { (head) } } } }
                        tbody { @for l in &launches::levels(report) { (level(l)) } }
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

fn level(l: &LevelWords) -> Markup {
    let ends = |[low, high]: &[String; 2]| micro(&format!("{low} \u{2013} {high}"));
    html! {
        tr {
            th scope="row" { (l.series.label) }
            td { code { (l.series.layer) } }
            td.num { (l.runs[0]) "\u{2013}" (l.runs[1]) }
            td.num { (ends(&l.range)) }
            td.num { (micro(&l.mean)) }
            td.num { (micro(&l.median)) }
            td.num { @if let Some(centre) = &l.centre { (ends(centre)) } }
            td.num { (l.ratio) }
            td.num { (l.peak) }
            td.num { (micro(&l.cpu)) }
        }
    }
}

/// Text columns; the others are numbers.
const WORDS: [usize; 2] = [4, 5];

fn runs(s: &LaunchSeries) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label={ "Launches: " (s.label) " in " (s.layer) } {
            table.small {
                caption { (s.label) " in " code { (s.layer) } @if !s.counted_by.is_empty() { "; counted by " (s.counted_by.join(", ")) } }
                thead { tr { @for head in RUN_HEADS { th scope="col" { (head) } } } }
                tbody { @for r in &s.runs {
                    tr { @for (n, cell) in run_cells(r).iter().enumerate() { @if WORDS.contains(&n) { td { (micro(cell)) } } @else { td.num { (micro(cell)) } } } }
                } }
            }
        }
    }
}
