//! Notes on tables of figures, and their titles.

use layermark_model::FigureValue;

use crate::{
    code_span::code,
    number,
    statements::figures::{OtherRounds, Peak, TableNote},
    types::{FigureGroup, FigureRow},
    words::{
        Names, Text, Words,
        figure_values::{fill, value},
        lists::{layers, quoted},
        text,
    },
};

impl Words for TableNote<'_> {
    fn words(&self, names: &Names) -> Text {
        let with_all = |text: &str, all: &str| {
            Text::from(fill(text, |name| (name == "all").then(|| all.to_owned())))
        };
        match self {
            Self::Differs(text, shown) => with_all(text, &number::list(shown)),
            Self::Smallest(text, figure, least) => {
                let least = FigureValue::Number(*least);
                with_all(text, &value(figure.unit, Some(&least)))
            }
            Self::OfRow(text, group, row) => of_row(text, group, row),
            Self::OtherRounds(rounds) => rounds.words(names),
            Self::Average {
                row,
                numbers,
                is_one_of_many,
            } => {
                let at = is_one_of_many.then(|| text!(" at {}", quoted(&row.label)));
                let [average, typical] = [numbers.written(), number::Written::in_row(row)];
                let [average, typical] = [average, typical].map(|r| r.map(|r| r.with_ends()));
                text!(
                    "On average an operation{} took {} in {}, {} {} in the same rounds, {}; the typical one {}.",
                    at.unwrap_or_default(),
                    numbers.time(),
                    Text::code(&row.layer),
                    names.natively(),
                    numbers.baseline(),
                    average.unwrap_or_default(),
                    typical.unwrap_or_default()
                )
            }
            Self::DeviceLeftOut(names) => text!(
                "What the device counted is left out in {}: it was also in use while no layer worked.",
                layers(names)
            ),
        }
    }
}

/// A declared note on a row, with the row's layer and figures in place of their names.
fn of_row(text: &str, group: &FigureGroup, row: &FigureRow) -> Text {
    let figures = &group.declared.figures;
    let filled = fill(text, |name| {
        if name == "layer" {
            return Some(code(&row.layer));
        }
        let figure = figures.iter().find(|f| f.name == name)?;
        Some(value(figure.unit, row.values.get(name)))
    });
    filled.into()
}

impl Words for OtherRounds<'_> {
    fn words(&self, _: &Names) -> Text {
        let [least, most] = self.us;
        let took = if least < most {
            number::time_span([least, most])
        } else {
            number::time(least)
        };
        let of = self.label.map(|label| text!(" of {}", quoted(label)));
        let (alone, both) = if self.with_control {
            (" without its control's turns", ", with the control's")
        } else {
            ("", "")
        };
        text!(
            "The row of {} has all its rounds{alone}. In those beside {}{both}, an operation{} took {took} there: the ratios compare these.",
            Text::code(self.baseline),
            layers(&self.layers),
            of.unwrap_or_default()
        )
    }
}

impl Words for Peak<'_> {
    fn words(&self, _: &Names) -> Text {
        match self {
            Self::Decided => "peak".into(),
            Self::Open(next, axis) => text!("highest; not decided against {next} {axis}"),
            Self::Last(axis) => text!("highest; more {axis} may reach more"),
        }
    }
}

/// The title of a table of figures.
pub fn table_title(group: &FigureGroup) -> String {
    if group.declared.curve {
        format!("{}: {}", group.declared.title, group.what)
    } else {
        group.what.clone()
    }
}

/// The title of a chart of a rate over the setting of this name.
pub fn chart_title(group: &FigureGroup, over: &str) -> String {
    format!("{} over {over}: {}", group.declared.title, group.what)
}
