//! A standalone chart: on white, with its title above and its legend below.

use kuva::{
    backend::png::PngBackend,
    render::{
        color::Color,
        render::{PathData, Primitive, Scene, TextAnchor},
    },
};

use super::{Chart, Key};

/// The page's CSS variables with their print values (`style.css`).
const COLOURS: [(&str, &str); 13] = [
    ("ink", "#1a1e23"),
    ("muted", "#444b52"),
    ("line", "#d0d4d9"),
    ("same", "#00614a"),
    ("slower", "#8a3600"),
    ("faster", "#0a468a"),
    ("c0", "#0072b2"),
    ("c1", "#d55e00"),
    ("c2", "#009e73"),
    ("c3", "#cc79a7"),
    ("c4", "#e69f00"),
    ("c5", "#56b4e9"),
    ("c6", "#1a1e23"),
];
const TOP: f64 = 34.0;
const TITLE_ROW: f64 = 17.0;
const LEGEND_ROW: f64 = 22.0;
const EDGE: f64 = 12.0;
/// Pixels per unit of the drawing.
const SCALE: f32 = 2.0;

/// A chart as an SVG file.
pub fn svg(chart: &Chart) -> String {
    let scene = scene(chart);
    let (width, height) = (scene.width.round(), scene.height.round());
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" role=\"img\" aria-labelledby=\"{id}-t\" aria-describedby=\"{id}-d\" fill=\"#1a1e23\" \
         font-family=\"system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif\">{}\n",
        chart.svg.body(&scene),
        id = chart.svg.id(),
    )
}

/// A chart as a PNG file, two pixels per unit. The font is `DejaVu Sans`, which is part of the
/// program.
pub fn png(chart: &Chart) -> anyhow::Result<Vec<u8>> {
    PngBackend::new()
        .with_scale(SCALE)
        .render_scene(&scene(chart))
        .map_err(|e| anyhow::anyhow!("{}: {e}", chart.title))
}

fn scene(chart: &Chart) -> Scene {
    let inner = &chart.svg.scene;
    let mut elements = title(&chart.title, inner.width);
    let top = TOP + TITLE_ROW * (elements.len() - 1) as f64;
    elements.push(Primitive::GroupStart {
        transform: Some(format!("translate(0,{top})")),
        title: None,
        extra_attrs: None,
    });
    elements.extend(inner.elements.iter().cloned());
    elements.push(Primitive::GroupEnd);
    let rows = legend(
        &mut elements,
        &chart.legend,
        inner.width,
        top + inner.height + 6.0,
    );
    let height = top + inner.height + rows * LEGEND_ROW + EDGE;
    elements.insert(0, background(inner.width, height));
    elements.iter_mut().for_each(on_paper);
    Scene {
        background_color: Some("#ffffff".into()),
        text_color: Some("#1a1e23".into()),
        elements,
        defs: inner.defs.clone(),
        ..Scene::new(inner.width, height)
    }
}

fn background(width: f64, height: f64) -> Primitive {
    Primitive::Rect {
        x: 0.0,
        y: 0.0,
        width,
        height,
        fill: Color::Rgb(255, 255, 255),
        stroke: None,
        stroke_width: None,
        opacity: None,
    }
}

/// The title, in as many lines as it needs. A bold letter of `DejaVu Sans` is about 0.65 of its size
/// wide.
fn title(text: &str, width: f64) -> Vec<Primitive> {
    const SIZE: u32 = 13;
    let room = ((width - 2.0 * EDGE) / (0.65 * f64::from(SIZE))) as usize;
    let mut lines = vec![String::new()];
    let letters: Vec<Vec<char>> = text
        .split_whitespace()
        .map(|w| w.chars().collect())
        .collect();
    // Names of layers may be longer than a line.
    let parts = letters.iter().flat_map(|word| word.chunks(room.max(1)));
    for word in parts.map(|part| part.iter().collect::<String>()) {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(&word),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= room => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    let at =
        |(n, line): (usize, &String)| words(line, EDGE, 22.0 + TITLE_ROW * n as f64, SIZE, true);
    lines.iter().enumerate().map(at).collect()
}

fn words(text: &str, x: f64, y: f64, size: u32, bold: bool) -> Primitive {
    Primitive::Text {
        x,
        y,
        content: text.to_owned(),
        size,
        anchor: TextAnchor::Start,
        rotate: None,
        bold,
        color: Some("var(--ink)".into()),
    }
}

/// Marks and names from left to right, in as many rows as needed. Returns the number of rows.
fn legend(elements: &mut Vec<Primitive>, keys: &[Key], width: f64, top: f64) -> f64 {
    if keys.len() < 2 {
        return 0.0;
    }
    let (mut x, mut row) = (EDGE, 0.0);
    for key in keys {
        let needs = 22.0 + 7.2 * key.name.chars().count() as f64 + 14.0;
        if x > EDGE && x + needs > width {
            (x, row) = (EDGE, row + 1.0);
        }
        let y = top + row * LEGEND_ROW;
        elements.push(Primitive::GroupStart {
            transform: Some(format!("translate({x},{y})")),
            title: None,
            extra_attrs: None,
        });
        elements.push(mark(key));
        elements.push(Primitive::GroupEnd);
        elements.push(words(&key.name, x + 20.0, y + 12.5, 12, false));
        x += needs;
    }
    row + 1.0
}

/// The marker of a key, whose SVG is one circle or one path.
fn mark(key: &Key) -> Primitive {
    let fill = Color::from(key.colour.as_str());
    match key
        .marker
        .split_once(" d=\"")
        .and_then(|(_, d)| d.split_once('"'))
    {
        Some((d, _)) => Primitive::Path(Box::new(PathData {
            d: d.to_owned(),
            fill: Some(fill),
            stroke: Color::None,
            stroke_width: 0.0,
            opacity: None,
            stroke_dasharray: None,
        })),
        None => Primitive::Circle {
            cx: 8.0,
            cy: 8.0,
            r: 4.5,
            fill,
            fill_opacity: None,
            stroke: None,
            stroke_width: None,
        },
    }
}

/// Replaces a variable with its colour.
fn paint(colour: &mut Color) {
    let Color::Css(css) = &*colour else { return };
    let name = css
        .strip_prefix("var(--")
        .and_then(|rest| rest.strip_suffix(')'));
    if let Some((_, hex)) = COLOURS.iter().find(|(n, _)| Some(*n) == name) {
        *colour = (*hex).into();
    }
}

fn on_paper(primitive: &mut Primitive) {
    match primitive {
        Primitive::Circle { fill, stroke, .. }
        | Primitive::Rect { fill, stroke, .. }
        | Primitive::CircleBatch { fill, stroke, .. } => {
            paint(fill);
            stroke.iter_mut().for_each(paint);
        }
        Primitive::Text { color, .. } | Primitive::RichText { color, .. } => {
            color.iter_mut().for_each(paint);
        }
        Primitive::Line { stroke, .. } | Primitive::PolyLine { stroke, .. } => paint(stroke),
        Primitive::Path(path) => {
            paint(&mut path.stroke);
            path.fill.iter_mut().for_each(paint);
        }
        Primitive::RectBatch { fills, .. } => fills.iter_mut().for_each(paint),
        Primitive::GroupStart { .. }
        | Primitive::GroupEnd
        | Primitive::ClipStart { .. }
        | Primitive::ClipEnd => {}
    }
}
