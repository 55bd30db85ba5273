//! One page that works offline and without scripts: verdict, trust, table, charts, method, data.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{Files, Renderer};
use crate::{
    TrustItem, TrustState,
    number::count,
    page::{Block, Content, Document, Item, Part},
};

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

impl Renderer for Html {
    fn id(&self) -> &'static str {
        "html"
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["html", "htm"]
    }

    fn draw(&self, document: &Document, out: &mut dyn Files) -> anyhow::Result<()> {
        let page = if document.is_comparison {
            page_of_two(document)
        } else {
            page(document)
        };
        Ok(out.open("")?.write_all(page.into_string().as_bytes())?)
    }
}

fn page(document: &Document) -> Markup {
    let (plan, started, machine) = (document.plan, document.started, document.machine);
    let title = format!("{plan}, {started}");
    let meta = html! {
        "plan " b { (plan) } " \u{b7} " (started) " \u{b7} "
        @if let Some(label) = &machine.label { b { (label) } ", " }
        (machine.os) ", " (machine.base) " \u{b7} " (document.status)
    };
    let body = html! {
        main #answer {
            (headline(document))
            (in_short(document))
            (sections::open(document, &[Part::Study]))
            (overview::section(document))
            (findings(document))
            (sections::open(document, &[Part::Answer, Part::Figures]))
            (figures::forest(document))
            (folded(document))
        }
        footer { p { (document.line(Part::About)) ". Made by " (document.generated_by) "." } }
    };
    around(&title, document.generated_by, &meta, &body)
}

/// The headline, its caveats, and whether the checks passed.
fn headline(document: &Document) -> Markup {
    html! {
        @for block in document.of(&[Part::Headline, Part::Trust]) {
            @match &block.content {
                Content::Caveats(caveats) => {
                    h1 { (rich(&block.title)) "." }
                    @for caveat in *caveats { p.caveat { span.icon aria-hidden="true" { "!" } " " (rich(caveat)) "." } }
                }
                Content::Checks(checks) if !checks.is_empty() => (believe(document.trust_mark(), &block.note)),
                _ => {}
            }
        }
    }
}

/// A line for each layer, without times if they are many; of very many layers the others are folded.
fn in_short(document: &Document) -> Markup {
    const MANY: usize = 8;
    const SHOWN: usize = 16;
    let all = document.items(Part::InShort);
    let (first, rest) = all.split_at(all.len().min(SHOWN));
    let line = |item: &Item| {
        let said = if all.len() > MANY {
            item.brief()
        } else {
            &item.text
        };
        html! { li { (rich(&micro(said))) } }
    };
    html! {
        @if !first.is_empty() {
            ul.in-short aria-label="Each layer in short" { @for item in first { (line(item)) } }
        }
        @if !rest.is_empty() {
            details.in-short-rest {
                summary { (count(rest.len(), "more layer")) }
                ul.in-short { @for item in rest { (line(item)) } }
            }
        }
    }
}

fn believe(state: TrustState, note: &str) -> Markup {
    html! {
        p class={ "believe " (class(state)) } {
            span.icon aria-hidden="true" { (icon(state)) } " "
            a href="#trust" { "Trust" } ": " (rich(&micro(note))) "."
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
pub fn comparison(document: &Document) -> Markup {
    html! {
        (headline(document))
        (overview::section(document))
        (sentences(document.items(Part::Layers)))
        (sections::open(document, &[Part::Figures]))
        div.folds {
            (on_paper())
            (part(document, Part::Trust, "trust"))
            (table::section(document))
        }
        p.hint { (document.line(Part::About)) }
    }
}

fn page_of_two(document: &Document) -> Markup {
    let body = html! { main #answer { (comparison(document)) } };
    let (title, meta) = (
        format!("{} compared", document.plan),
        html! { "two runs compared" },
    );
    around(&title, document.generated_by, &meta, &body)
}

/// Reference material: folded on a screen. Paper has the parts that are open on the screen, or everything.
fn folded(document: &Document) -> Markup {
    html! {
        div.folds {
            (on_paper())
            (part(document, Part::Trust, "trust"))
            (table::section(document))
            (part(document, Part::Layers, "layers"))
            (matrix::section(document))
            (sections::folded(document))
            (figures::others(document))
            (part(document, Part::Method, "method"))
            (part(document, Part::Stack, "stack"))
            (part(document, Part::SelfTests, "own"))
            (part(document, Part::Reproduce, "again"))
            (part(document, Part::LeftOut, "left"))
            (stack::trials(document))
        }
    }
}

/// The choice of what is printed, which needs no script, and on paper what was left out.
fn on_paper() -> Markup {
    html! {
        p.whole {
            input type="checkbox" id="whole";
            label for="whole" { "Print everything: charts, tables and what is folded" }
        }
        p.on-paper { "Charts, further tables and folded parts are printed if Print everything is ticked on the screen." }
    }
}

/// A part of the document, folded.
fn part(document: &Document, part: Part, id: &str) -> Markup {
    html! { @for block in document.of(&[part]) { (fold(id, &block.title, &block.note, &body(document, block))) } }
}

fn body(document: &Document, block: &Block) -> Markup {
    match &block.content {
        Content::Checks(checks) => strip(checks),
        Content::Reproduce(how) => stack::reproduce(how),
        Content::Method(how) => stack::method(document, how),
        Content::Stack(stack) => stack::inventory(stack),
        Content::SelfTests(layers) => stack::self_tests(layers),
        Content::List(items) => html! {
            @if !block.about.is_empty() { p.hint { (block.about) } }
            (sentences(items))
        },
        _ => html! {},
    }
}

/// A folded part with its heading and a short note next to it.
fn fold(id: &str, title: &str, note: &str, body: &Markup) -> Markup {
    html! {
        details.fold #(id) {
            summary { h2 { (title) } @if !note.is_empty() { " " span.note { (rich(note)) } } }
            (body)
        }
    }
}

fn findings(document: &Document) -> Markup {
    html! {
        @if document.of(&[Part::Findings, Part::Advice]).next().is_some() {
            section.findings aria-label="Findings and advice" {
                @for block in document.of(&[Part::Findings]) {
                    div { h2 { (block.title) } ul { @for f in document.items(Part::Findings) { (sentence(f)) } } }
                }
                @for block in document.of(&[Part::Advice]) {
                    div { h2 { (block.title) } (advice(document.items(Part::Advice))) }
                }
            }
        }
    }
}

/// The first pieces of advice; the others are folded.
fn advice(all: &[Item]) -> Markup {
    const SHOWN: usize = 3;
    let (first, rest) = all.split_at(all.len().min(SHOWN));
    html! {
        ul { @for a in first { (sentence(a)) } }
        @if !rest.is_empty() {
            details {
                summary { (rest.len()) " more" }
                ul { @for a in rest { (sentence(a)) } }
            }
        }
    }
}

fn sentences(items: &[Item]) -> Markup {
    html! { ul.sentences { @for item in items { (sentence(item)) } } }
}

fn sentence(item: &Item) -> Markup {
    html! {
        li {
            (rich(&micro(&item.text)))
            @if !item.evidence.is_empty() { " " (evidence(item.evidence)) }
            @if let Some(hint) = item.hint { pre { code { (hint) } } }
        }
    }
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

fn strip(checks: &[TrustItem]) -> Markup {
    html! {
        ul.strip {
            @for item in checks {
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
