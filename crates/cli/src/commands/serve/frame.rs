//! What every page has around its content.

use maud::{DOCTYPE, Markup, html};

use crate::failure::Failure;

/// Wraps a body in the page's frame.
pub fn around(title: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "layermark: " (title) }
                link rel="stylesheet" href="/style.css";
            }
            body {
                header.top {
                    p.brand { a href="/" { "layermark" } }
                    p.meta { (title) }
                }
                main { (body) }
            }
        }
    }
}

/// A page for an error, with its hint.
pub fn failed(failure: &Failure) -> Markup {
    let body = html! {
        h1 { "This cannot be shown" }
        p { (failure.message) }
        @if let Some(hint) = &failure.hint { p.hint { (hint) } }
    };
    around("error", &body)
}
