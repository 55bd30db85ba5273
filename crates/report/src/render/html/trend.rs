//! The page of a trend.

use maud::{Markup, html};

use super::{around, figures};
use crate::{Trend, build::generated_by, page::charts};

/// The page as a standalone file.
pub fn page(trend: &Trend) -> Vec<u8> {
    let title = title(trend);
    let meta = html! { "one figure over runs" };
    let body = html! { main #answer { (section(trend)) } };
    around(&title, &generated_by(), &meta, &body)
        .into_string()
        .into_bytes()
}

/// The trend in sentences, and its chart.
pub fn section(trend: &Trend) -> Markup {
    let title = title(trend);
    let chart = charts::trend(&title, trend);
    html! {
        h1 { (title) }
        ul.sentences { @for text in &trend.said { li { (text) } } }
        (figures::grid(&[chart]))
    }
}

fn title(trend: &Trend) -> String {
    format!(
        "{} at \"{}\": {}",
        trend.layer,
        trend.point,
        trend.quantity()
    )
}
