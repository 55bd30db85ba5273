//! Adapts kuva's SVG to a page: it scales with the page, uses its colours, and has a name.

use std::fmt;

use kuva::{
    prelude::{Layout, Plot, SvgBackend},
    render::{
        render::{Scene, render_multiple},
        theme::Theme,
    },
};

/// The id of a drawing, unique within the page: its kind, and what tells it from others of that kind.
#[derive(Debug, Clone)]
pub struct DrawingId {
    kind: String,
    own: String,
}

impl DrawingId {
    /// The n-th drawing of a kind.
    pub fn nth(kind: &str, n: usize) -> Self {
        Self::of(kind, n.to_string())
    }

    /// A drawing of a kind.
    pub fn of(kind: &str, own: impl Into<String>) -> Self {
        Self {
            kind: kind.into(),
            own: own.into(),
        }
    }

    /// The only drawing of a kind.
    pub fn only(kind: &str) -> Self {
        Self::of(kind, "")
    }

    /// A second drawing of the same data.
    pub fn with(&self, more: &str) -> Self {
        Self::of(&self.kind, format!("{}-{more}", self.own))
    }
}

impl fmt::Display for DrawingId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let joint = if self.own.is_empty() { "" } else { "-" };
        write!(f, "{}{joint}{}", self.kind, self.own)
    }
}

/// A drawing whose colours are the page's variables.
pub struct Drawing {
    id: DrawingId,
    title: String,
    description: String,
    pub scene: Scene,
}

/// Draws.
pub fn draw(
    id: DrawingId,
    title: &str,
    description: &str,
    plots: Vec<Plot>,
    layout: Layout,
) -> Drawing {
    let layout = layout
        .with_theme(theme())
        .with_font_family("system-ui, sans-serif")
        .with_tick_size(12)
        .with_label_size(12)
        .with_body_size(12)
        .with_grid_line_width(1.0)
        .with_axis_line_width(1.0);
    Drawing {
        id,
        title: title.into(),
        description: description.into(),
        scene: render_multiple(plots, layout),
    }
}

impl Drawing {
    /// The SVG element for a page, with name and description inside.
    pub fn inline(&self) -> String {
        let (id, scene) = (&self.id, &self.scene);
        let head = format!(
            "<svg viewBox=\"0 0 {} {}\" class=\"chart\" role=\"img\" aria-labelledby=\"{id}-t\" aria-describedby=\"{id}-d\" fill=\"var(--ink)\" \
             font-family=\"system-ui, sans-serif\">",
            scene.width.round(),
            scene.height.round(),
        );
        head + &self.body(scene)
    }

    /// Name, description and shapes of a scene, and the end of the element.
    pub fn body(&self, scene: &Scene) -> String {
        let id = &self.id.to_string();
        let drawn = SvgBackend.render_scene(scene);
        let body = drawn.split_once('>').map_or("", |(_, body)| body);
        format!(
            "<title id=\"{id}-t\">{}</title><desc id=\"{id}-d\">{}</desc>{}",
            escape(&self.title),
            escape(&self.description),
            own_ids(body, id)
        )
    }

    /// Its id, unique within the page.
    pub fn id(&self) -> &DrawingId {
        &self.id
    }

    /// The kind of the drawing, for the name of its file.
    pub fn kind(&self) -> &str {
        &self.id.kind
    }
}

/// Renumbers clip paths. kuva numbers them over the life of the process, but the page must be
/// reproducible, and two drawings must not share an id.
fn own_ids(body: &str, id: &str) -> String {
    const STEM: &str = "kuva-clip-";
    let mut out = String::with_capacity(body.len());
    let mut seen: Vec<&str> = Vec::new();
    let mut rest = body;
    while let Some(at) = rest.find(STEM) {
        out.push_str(&rest[..at]);
        let tail = &rest[at + STEM.len()..];
        let digits = &tail[..tail
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(tail.len())];
        let n = seen.iter().position(|s| *s == digits).unwrap_or_else(|| {
            seen.push(digits);
            seen.len() - 1
        });
        out.push_str(id);
        out.push_str("-clip");
        out.push_str(&n.to_string());
        rest = &tail[digits.len()..];
    }
    out + rest
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// The page's own colours, so that a drawing follows its dark mode.
fn theme() -> Theme {
    Theme {
        background: "none".into(),
        axis_color: "var(--muted)".into(),
        grid_color: "var(--line)".into(),
        tick_color: "var(--muted)".into(),
        text_color: "var(--ink)".into(),
        legend_bg: "none".into(),
        legend_border: "none".into(),
        ..Theme::light()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_the_drawings_own() {
        let body = r#"<clipPath id="kuva-clip-41"/><g clip-path="url(#kuva-clip-41)"/><g clip-path="url(#kuva-clip-7)"/>"#;
        let own = own_ids(body, "f1");
        assert_eq!(
            own,
            r#"<clipPath id="f1-clip0"/><g clip-path="url(#f1-clip0)"/><g clip-path="url(#f1-clip1)"/>"#
        );
    }
}
