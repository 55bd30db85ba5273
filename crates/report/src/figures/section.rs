//! Figures as parts of the report: a section for each workload, a table for each kind of work.

use layermark_model::{Figure, FigureSource, FigureValue};

use crate::{
    Report, Verdict,
    code_span::{baseline, code, in_baseline},
    number::{self, sig3},
    types::{
        Axis, Cell, DataTable, FigureGroup, FigureRow, LineChart, Mark, ResultRow, Section, Series,
    },
    views::rows::{ON_AVERAGE, in_other_rounds, numbers},
    words::{figures as format, lists::some_of},
};

impl Report {
    /// A section for each workload with figures, in the order of the results.
    pub(crate) fn figure_sections(&self) -> Vec<Section> {
        let mut sections: Vec<Section> = Vec::new();
        let has_columns = |g: &&FigureGroup| g.declared.figures.iter().any(|f| !f.head.is_empty());
        for group in self.figures.iter().filter(has_columns) {
            let known = sections.iter().position(|s| s.name == group.workload);
            let at = known.unwrap_or(sections.len());
            if known.is_none() {
                sections.push(Section {
                    name: group.workload.clone(),
                    title: group.declared.title.clone(),
                    about: group.declared.about.clone(),
                    is_answer: group.declared.answer,
                    ..Section::default()
                });
            }
            sections[at].tables.push(self.table(group));
            sections[at].charts.extend(self.chart(group));
        }
        sections
    }

    fn table(&self, group: &FigureGroup) -> DataTable {
        let shown = |f: &&Figure| {
            let has = |r: &FigureRow| r.values.contains_key(&f.name);
            !f.head.is_empty() && (!f.optional || group.rows.iter().any(has))
        };
        let figures: Vec<&Figure> = group.declared.figures.iter().filter(shown).collect();
        let line = |row: &FigureRow| {
            let cells = figures.iter().map(|f| self.cell(f, row));
            let layer = Cell::text(code(&row.layer));
            std::iter::once(layer).chain(cells).collect()
        };
        let head = figures.iter().map(|f| f.head.clone());
        let title = if group.declared.curve {
            format!("{}: {}", group.declared.title, group.what)
        } else {
            group.what.clone()
        };
        let notes = [
            Some(group.notes()),
            self.other_rounds(group),
            self.averages(group),
            left_out(group, &figures),
        ];
        let notes: Vec<String> = notes.into_iter().flatten().collect();
        DataTable {
            title,
            note: notes.join(" ").trim().to_owned(),
            head: std::iter::once("layer".to_owned()).chain(head).collect(),
            rows: group.rows.iter().map(line).collect(),
        }
    }

    /// What an operation took on average, as the rates of the table have it, where the ratio is of the typical
    /// one and another.
    fn averages(&self, group: &FigureGroup) -> Option<String> {
        if !group.declared.figures.iter().any(is_time) {
            return None;
        }
        let results = group.rows.iter().filter_map(|r| self.result(&r.result));
        let said = results.filter(|r| r.has_two_lines()).filter_map(|r| {
            let average = numbers(r).into_iter().find(|n| n.of == ON_AVERAGE)?;
            let natively = in_baseline(&baseline(self.baseline()));
            let label = if group.rows.iter().any(|other| other.label != r.label) {
                format!(" at \u{201c}{}\u{201d}", r.label)
            } else {
                String::new()
            };
            Some(format!(
                "On average an operation{label} took {} in {}, {natively} {} in the same rounds, {}; the typical one {}.",
                average.time(),
                code(&r.layer),
                average.baseline(),
                average.written()?.with_ends(),
                number::Written::in_row(r)?.with_ends(),
            ))
        });
        let said: Vec<String> = said.collect();
        (!said.is_empty()).then(|| said.join(" "))
    }

    /// What the baseline's time was in the rounds of other rows, if its own has clearly another.
    fn other_rounds(&self, group: &FigureGroup) -> Option<String> {
        if !group.declared.figures.iter().any(is_time) {
            return None;
        }
        let results = || group.rows.iter().filter_map(|r| self.result(&r.result));
        let own =
            |label: &str| results().find(|r| r.verdict == Verdict::Baseline && r.label == label);
        let apart = |r: &ResultRow| in_other_rounds(r, own(&r.label)?);
        // One point has one time.
        let label = &results().find(|r| apart(r).is_some())?.label;
        let apart = results()
            .filter(|r| r.label == *label)
            .filter_map(|r| Some((code(&r.layer), apart(r)?)));
        let (layers, times): (Vec<String>, Vec<f64>) = apart.unzip();
        let least = times.iter().copied().fold(f64::MAX, f64::min);
        let most = times.iter().copied().fold(0.0, f64::max);
        let took = if least < most {
            number::time_span([least, most])
        } else {
            number::time(least)
        };
        let point = if results().any(|r| r.label != *label) {
            format!(" of \u{201c}{label}\u{201d}")
        } else {
            String::new()
        };
        let mut of_label = results().filter(|r| r.label == *label);
        let with_control = of_label.any(|r| r.block_ratios.iter().any(|b| b.both.is_some()));
        let (alone, both) = if with_control {
            (" without its control's turns", ", with the control's")
        } else {
            ("", "")
        };
        Some(format!(
            "The row of {} has all its rounds{alone}. In those beside {}{both}, an operation{point} took {took} there: the ratios compare these.",
            code(&own(label)?.layer),
            some_of(&layers),
        ))
    }

    fn cell(&self, figure: &Figure, row: &FigureRow) -> Cell {
        let value = row.values.get(&figure.name);
        let text = format::value(figure.unit, value);
        let Some(FigureValue::Number(number)) = value else {
            let unset = matches!(figure.source, FigureSource::Axis(_)) && value.is_none();
            return Cell::text(if unset { "auto".into() } else { text });
        };
        let result = self.result(&row.result);
        let more = match &figure.source {
            FigureSource::RateInInterval => in_interval(*number, result),
            FigureSource::Ratio => result
                .and_then(number::Written::in_row)
                .map(|ratio| ratio.with_ends()),
            _ => None,
        };
        match more {
            Some(more) => Cell::number(more, *number),
            None if format::is_bare(figure.unit) => Cell::bare(text, *number),
            None => Cell::number(text, *number),
        }
    }

    /// The rate over the quantity in which the rows of a layer differ, if a layer has several.
    fn chart(&self, group: &FigureGroup) -> Option<LineChart> {
        let axis = group.axis().filter(|_| group.declared.curve)?;
        let mut layers: Vec<&str> = group.rows.iter().map(|r| r.layer.as_str()).collect();
        layers.dedup();
        let series = |layer: &&str| {
            let own = group.rows.iter().filter(|r| r.layer == *layer);
            let marks = own.filter_map(|row| {
                let result = self.result(&row.result)?;
                Some(Mark {
                    x: row.number(&axis.name)?,
                    y: result.value?,
                    interval: result.interval,
                })
            });
            Series::along(layer, marks)
        };
        let label = |label: &str| Axis {
            label: label.to_owned(),
            unit: String::new(),
        };
        let (title, over) = (&group.declared.title, &axis.name);
        (group.rows.len() > layers.len()).then(|| LineChart {
            title: format!("{title} over {over}: {}", group.what),
            x: label(over),
            y: label(&title.to_lowercase()),
            series: layers.iter().map(series).collect(),
        })
    }
}

/// Whether it is a time of an operation, or a rate.
fn is_time(f: &Figure) -> bool {
    matches!(
        f.source,
        FigureSource::Rate
            | FigureSource::RateInInterval
            | FigureSource::OperationTime
            | FigureSource::MeanLatency
            | FigureSource::MedianLatency
    )
}

/// Where figures of the table are left out because the device was in use while no layer worked.
fn left_out(group: &FigureGroup, shown: &[&Figure]) -> Option<String> {
    let is_shown = |name: &String| shown.iter().any(|f| f.name == *name);
    let rows = group.rows.iter();
    let mut layers: Vec<String> = rows
        .filter(|row| row.left_out.iter().any(is_shown))
        .map(|row| code(&row.layer))
        .collect();
    layers.dedup();
    (!layers.is_empty()).then(|| {
        format!(
            "What the device counted is left out in {}: it was also in use while no layer worked.",
            some_of(&layers)
        )
    })
}

/// An average rate, with the relative width of the typical one's interval. `None` without one.
fn in_interval(value: f64, result: Option<&ResultRow>) -> Option<String> {
    let row = result?;
    let by = value / row.value?;
    let [low, high] = row.interval?.map(|end| sig3(end * by));
    Some(format!("{} [{low} to {high}]", sig3(value)))
}
