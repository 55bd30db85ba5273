//! Figures as parts of the report: a section for each workload, a table for each kind of work.

use layermark_model::{Figure, FigureSource, FigureValue};

use crate::{
    Report,
    code_span::code,
    group, number,
    statements::figures::notes,
    types::{Axis, Cell, DataTable, FigureGroup, FigureRow, LineChart, Mark, Section, Series},
    words::{Text, Words, figure_values, figures as words},
};

impl Report {
    /// A section for each workload with figures, in the order of the results.
    pub(crate) fn figure_sections(&self) -> Vec<Section> {
        let has_columns = |g: &&FigureGroup| g.declared.figures.iter().any(|f| !f.head.is_empty());
        let shown = self.figures.iter().filter(has_columns);
        let workloads = group::by(shown, |g| g.workload.as_str()).into_iter();
        let section = |(workload, groups): (&str, Vec<&FigureGroup>)| {
            let declared = &groups[0].declared;
            Section {
                name: workload.to_owned(),
                title: declared.title.clone(),
                about: declared.about.clone(),
                is_answer: declared.answer,
                tables: groups.iter().map(|group| self.table(group)).collect(),
                charts: groups.iter().filter_map(|g| self.chart(g)).collect(),
                ..Section::default()
            }
        };
        workloads.map(section).collect()
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
        let notes = notes(self, group, &figures);
        let notes = notes.iter().map(|note| note.words(&self.names()));
        DataTable {
            title: words::table_title(group),
            note: Text::joined(notes, " ").into(),
            head: std::iter::once("layer".to_owned()).chain(head).collect(),
            rows: group.rows.iter().map(line).collect(),
        }
    }

    fn cell(&self, figure: &Figure, row: &FigureRow) -> Cell {
        let value = row.values.get(&figure.name);
        let text = figure_values::value(figure.unit, value);
        let Some(FigureValue::Number(number)) = value else {
            let unset = matches!(figure.source, FigureSource::Axis(_)) && value.is_none();
            return Cell::text(if unset { "auto".into() } else { text });
        };
        let result = self.result(&row.result);
        let more = match &figure.source {
            FigureSource::RateInInterval => {
                result.and_then(|row| figure_values::in_interval(*number, row))
            }
            FigureSource::Ratio => result
                .and_then(number::Written::in_row)
                .map(|ratio| ratio.with_ends()),
            _ => None,
        };
        match more {
            Some(more) => Cell::number(more, *number),
            None if figure_values::is_bare(figure.unit) => Cell::bare(text, *number),
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
        (group.rows.len() > layers.len()).then(|| LineChart {
            title: words::chart_title(group, &axis.name),
            x: Axis::new(axis.name.as_str(), ""),
            y: Axis::new(group.declared.title.to_lowercase(), ""),
            series: layers.iter().map(series).collect(),
        })
    }
}
