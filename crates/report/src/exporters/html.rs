//! One page that works offline and without scripts: verdict, trust, table, charts, method, data.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{Exporter, Files};
use crate::{Report, TrustState, number, views::rows};

mod figures;
mod matrix;
mod overview;
mod sections;
mod stack;
mod table;
mod text;
mod trend;

pub use overview::matrix as live_matrix;
use text::{micro, rich};
pub use trend::{page as trend_page, section as trend};

/// See the module.
pub struct Html;

/// Content security policy: no requests and no scripts.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";
/// The style of the page.
pub const STYLE: &str = include_str!("html/style.css");

impl Exporter for Html {
    fn id(&self) -> &'static str {
        "html"
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["html", "htm"]
    }

    fn write(&self, report: &Report, out: &mut dyn Files) -> anyhow::Result<()> {
        let page = match &report.compared {
            Some(_) => page_of_two(report),
            None => page(report),
        };
        Ok(out.open("")?.write_all(page.into_string().as_bytes())?)
    }
}

fn page(report: &Report) -> Markup {
    let title = format!("{}, {}", report.label, report.started);
    let meta = html! {
        "plan " b { (report.label) } " \u{b7} " (report.started) " \u{b7} " (report.machine.os) ", " (report.machine.base) " \u{b7} " (rows::status(report))
    };
    let body = html! {
        main #answer {
            (headline(report))
            (sections::study(report))
            (overview::section(report))
            (findings(report))
            (sections::own(report))
            (figures::forest(report))
            (folded(report))
        }
        footer { p { (rows::about(report)) ". Made by " (report.generated_by) "." } }
    };
    around(&title, &report.generated_by, &meta, &body)
}

/// The headline, its caveats, and whether the checks passed.
fn headline(report: &Report) -> Markup {
    let warned = report.trust.iter().any(|t| t.state == TrustState::Warn);
    let state = if warned {
        TrustState::Warn
    } else {
        TrustState::Ok
    };
    html! {
        h1 { (rich(&report.headline)) "." }
        @for caveat in &report.caveats { p.caveat { span.icon aria-hidden="true" { "!" } " " (rich(caveat)) "." } }
        @if !report.trust.is_empty() {
            p class={ "believe " (class(state)) } {
                span.icon aria-hidden="true" { (icon(state)) } " "
                a href="#trust" { "Trust" } ": " (rows::trust(report)) "."
            }
        }
    }
}

/// The page around a body.
fn around(title: &str, generated_by: &str, meta: &Markup, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content=(generated_by);
                title { "layermark: " (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                a.skip href="#answer" { "Skip to the answer" }
                header.top {
                    p.brand { "layermark" }
                    p.meta { (meta) }
                }
                (body)
            }
        }
    }
}

/// The comparison of two runs, for a page with its own head.
pub fn comparison(report: &Report) -> Markup {
    html! {
        (headline(report))
        (overview::section(report))
        ul.sentences { @for v in &report.verdicts { li { (rich(&micro(&v.text))) } } }
        div.folds {
            (trust(report))
            (table::section(report))
        }
        p.hint { (rows::about(report)) }
    }
}

fn page_of_two(report: &Report) -> Markup {
    let body = html! { main #answer { (comparison(report)) } };
    let (title, meta) = (
        format!("{} compared", report.label),
        html! { "two runs compared" },
    );
    around(&title, &report.generated_by, &meta, &body)
}

/// Reference material: folded on a screen, open on paper.
fn folded(report: &Report) -> Markup {
    html! {
        div.folds {
            (trust(report))
            (table::section(report))
            (layers(report))
            (matrix::section(report))
            (sections::models(report))
            (figures::others(report))
            (stack::method(report))
            (stack::inventory(report))
            (stack::self_tests(report))
            (stack::reproduce(report))
            (stack::left_out(report))
            (stack::trials(report))
        }
    }
}

/// A folded part with its heading and a short note next to it.
fn fold(id: &str, title: &str, note: &str, body: &Markup) -> Markup {
    html! {
        details.fold #(id) {
            summary { h2 { (title) } @if !note.is_empty() { " " span.note { (note) } } }
            (body)
        }
    }
}

fn findings(report: &Report) -> Markup {
    html! {
        @if !report.findings.is_empty() || !report.advice.is_empty() {
            section.findings aria-label="Findings and advice" {
                @if !report.findings.is_empty() {
                    div { h2 { "Findings" } ul { @for f in &report.findings { (sentence(&f.text, &f.evidence)) } } }
                }
                @if !report.advice.is_empty() {
                    div { h2 { "What to do" } (advice(report)) }
                }
            }
        }
    }
}

/// The first pieces of advice; the others are folded.
fn advice(report: &Report) -> Markup {
    const SHOWN: usize = 3;
    let (first, rest) = report.advice.split_at(report.advice.len().min(SHOWN));
    html! {
        ul { @for a in first { (sentence(&a.text, &a.evidence)) } }
        @if !rest.is_empty() {
            details {
                summary { (rest.len()) " more" }
                ul { @for a in rest { (sentence(&a.text, &a.evidence)) } }
            }
        }
    }
}

fn sentence(text: &str, rests_on: &[String]) -> Markup {
    html! { li { (rich(&micro(text))) " " (evidence(rests_on)) } }
}

/// A paragraph for each layer.
fn layers(report: &Report) -> Markup {
    let body = html! {
        @if !report.about.is_empty() { p.hint { (report.about) } }
        ul.sentences { @for v in &report.verdicts { li { (rich(&micro(&v.text))) } } }
    };
    let note = number::count(report.verdicts.len(), "layer");
    html! { @if !report.verdicts.is_empty() { (fold("layers", "Layer by layer", &note, &body)) } }
}

/// Links to the results behind a sentence.
fn evidence(ids: &[String]) -> Markup {
    const SHOWN: usize = 4;
    html! {
        @if !ids.is_empty() {
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
}

fn trust(report: &Report) -> Markup {
    let body = html! {
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
    };
    fold("trust", "Can it be trusted?", &rows::trust(report), &body)
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
