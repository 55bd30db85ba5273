//! One page that works offline and without a script: verdict, trust, table, charts, method, data.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{Exporter, Files, own::NAME, rows};
use crate::{Report, TrustState, charts};

mod launches;
mod matrix;
mod sections;
mod stack;
mod table;
mod text;

use text::{micro, rich};

/// See the module.
pub struct Html;

/// No request is allowed, and no script.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";
const STYLE: &str = include_str!("html/style.css");

impl Exporter for Html {
    fn id(&self) -> &'static str {
        "html"
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["html", "htm"]
    }

    fn is_own(&self, head: &str, _: &mut std::fs::File) -> bool {
        head.contains(&format!("<meta name=\"generator\" content=\"{NAME}"))
    }

    fn write(&self, report: &Report, out: &mut dyn Files) -> anyhow::Result<()> {
        let out = out.open("")?;
        out.write_all(page(report).into_string().as_bytes())?;
        Ok(())
    }
}

fn page(report: &Report) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content=(report.generated_by);
                title { "layermark: " (report.label) ", " (report.started) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                a.skip href="#results" { "Skip to the results" }
                header.top {
                    p.brand { "layermark" }
                    p.meta {
                        "plan " b { (report.label) } " \u{b7} " (report.started) " \u{b7} " (report.machine.os) ", " (report.machine.base) " \u{b7} " (rows::status(report))
                    }
                }
                main {
                    (verdict(report))
                    (trust(report))
                    (table::section(report))
                    (matrix::section(report))
                    (sections::all(report))
                    (launches::section(report))
                    (figures(report))
                    (stack::method(report))
                    (stack::inventory(report))
                    (stack::self_tests(report))
                    (stack::reproduce(report))
                    (stack::left_out(report))
                    (stack::trials(report))
                }
                footer { p { (rows::about(report)) ". Made by " (report.generated_by) "." } }
            }
        }
    }
}

fn verdict(report: &Report) -> Markup {
    html! {
        section.verdict aria-label="Verdict" {
            h1 { (rich(&report.headline)) "." }
            @if !report.about.is_empty() { p.lead { (report.about) } }
            @if !report.verdicts.is_empty() {
                ul.sentences { @for v in &report.verdicts { li { (rich(&micro(&v.text))) } } }
            }
            @if !report.advice.is_empty() {
                div.advice {
                    h2 { "What to do" }
                    ul { @for a in &report.advice { li { (rich(&micro(&a.text))) " " (evidence(&a.evidence)) } } }
                }
            }
        }
    }
}

/// Links to the results that a sentence rests on.
fn evidence(ids: &[String]) -> Markup {
    const SHOWN: usize = 4;
    html! {
        span.evidence {
            "(see "
            @for (n, id) in ids.iter().take(SHOWN).enumerate() {
                @if n > 0 { ", " }
                a href={ "#" (id) } { (id) }
            }
            @if ids.len() > SHOWN { " and " (ids.len() - SHOWN) " more" }
            ")"
        }
    }
}

fn trust(report: &Report) -> Markup {
    html! {
        section aria-labelledby="trust" {
            h2 #trust { "Can it be trusted?" }
            ul.strip {
                @for item in &report.trust {
                    li class={ "check " (class(item.state)) } {
                        div.head {
                            h3 { (item.title) }
                            p.state { span.icon aria-hidden="true" { (icon(item.state)) } (item.state.word()) }
                        }
                        p { (rich(&item.text)) }
                    }
                }
            }
        }
    }
}

fn class(state: TrustState) -> &'static str {
    match state {
        TrustState::Ok => "ok",
        TrustState::Warn => "warn",
        TrustState::None => "none",
    }
}

fn icon(state: TrustState) -> &'static str {
    match state {
        TrustState::Ok => "\u{2713}",
        TrustState::Warn => "!",
        TrustState::None => "\u{2013}",
    }
}

fn figures(report: &Report) -> Markup {
    html! {
        @for (n, group) in charts::all(report).into_iter().enumerate() {
            section.charts aria-labelledby={ "charts-" (n) } {
                h2 id={ "charts-" (n) } { (group.title) }
                p.hint { (group.hint) }
                div.grid { @for chart in &group.charts { (figure(chart)) } }
            }
        }
    }
}

fn figure(chart: &charts::Chart) -> Markup {
    html! {
        figure {
            figcaption { (chart.title) }
            (PreEscaped(chart.svg.inline()))
            @if chart.legend.len() > 1 {
                ul.legend aria-label="Legend" {
                    @for key in &chart.legend {
                        li { svg.key viewBox="0 0 16 16" aria-hidden="true" fill=(key.colour) { (PreEscaped(key.marker)) } (key.name) }
                    }
                }
            }
            details {
                summary { "Data of this chart" }
                div.scroll tabindex="0" role="region" aria-label={ "Data: " (chart.title) } {
                    table.small {
                        thead { tr { @for head in &chart.table.head { th scope="col" { (head) } } } }
                        tbody { @for row in &chart.table.rows { tr { @for cell in row { td { (micro(cell)) } } } } }
                    }
                }
            }
        }
    }
}
