//! Tables as comma-separated values, for a spreadsheet or a data frame: one format for each table.

use super::{Exporter, Files};
use crate::{
    Report,
    tables::{self, Field, LongTable},
};

/// A table as a file of its own.
pub struct Csv {
    id: &'static str,
    endings: &'static [&'static str],
    table: for<'a> fn(&'a Report) -> LongTable<'a>,
    /// Digits after the decimal point; absent: all digits.
    decimals: Option<usize>,
    /// What its lines are made of, where a whole report may have none.
    rests_on: Option<&'static str>,
}

/// One line for each result, every number in its own column.
pub const RESULTS: Csv = Csv {
    id: "csv",
    endings: &["csv"],
    table: tables::results,
    decimals: None,
    rests_on: None,
};

/// One line for each point, with the layers side by side: for a pivot table or to read.
pub const WIDE: Csv = Csv {
    id: "csv_wide",
    endings: &["wide.csv"],
    table: tables::wide,
    decimals: None,
    rests_on: None,
};

/// One line for each trial in the order of the run: for further analysis.
pub const TRIALS: Csv = Csv {
    id: "csv_trials",
    endings: &["trials.csv"],
    table: tables::trials,
    decimals: None,
    rests_on: None,
};

/// One line for each cell of every table besides the results: cost model, record sizes, seeks,
/// curves, the study. For a data frame, which can restore any table.
pub const SECTIONS: Csv = Csv {
    id: "csv_sections",
    endings: &["sections.csv"],
    table: tables::section_cells,
    decimals: None,
    rests_on: Some("tables beside its results"),
};

/// One line per launch, in the format of the 2014 study of application streaming: `time,elapsed
/// ms,window,program`. Further columns follow. Times to the microsecond.
pub const LAUNCHES: Csv = Csv {
    id: "launches",
    endings: &["launches.csv"],
    table: tables::launches,
    decimals: Some(3),
    rests_on: Some("launches"),
};

impl Exporter for Csv {
    fn id(&self) -> &'static str {
        self.id
    }

    fn extensions(&self) -> &'static [&'static str] {
        self.endings
    }

    fn lacks(&self, report: &Report) -> Option<&'static str> {
        let empty = (self.table)(report).lines.next().is_none();
        self.rests_on.filter(|_| empty)
    }

    fn write(&self, report: &Report, out: &mut dyn Files) -> anyhow::Result<()> {
        let mut writer = csv::Writer::from_writer(out.open("")?);
        let table = (self.table)(report);
        writer.write_record(table.head.iter().map(|(name, _)| safe(name)))?;
        for line in table.lines {
            writer.write_record(line.into_iter().map(|field| self.text(field)))?;
        }
        writer.flush()?;
        Ok(())
    }
}

impl Csv {
    fn text(&self, field: Field) -> String {
        match (field, self.decimals) {
            (Field::Text(text), _) => safe(&text),
            (Field::Number(value), Some(digits)) => format!("{value:.digits$}"),
            (Field::Number(value), None) => value.to_string(),
            (Field::Count(n), _) => n.to_string(),
            (Field::Empty, _) => String::new(),
        }
    }
}

/// Text that a spreadsheet does not take for a formula. A leading sign would make one, also a
/// full-width sign. So would a sign after blanks, line ends and invisible marks, which some
/// programs skip.
fn safe(text: &str) -> String {
    const SIGNS: [char; 8] = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];
    let unseen = |c: char| c.is_whitespace() || c.is_control() || is_format(c);
    let first = text.trim_start_matches(unseen);
    if text.starts_with(['\t', '\r']) || first.starts_with(SIGNS) {
        format!("'{text}")
    } else {
        text.into()
    }
}

/// Characters without width: byte order marks, zero-width spaces and joiners, marks for the
/// direction of text.
fn is_format(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::safe;

    #[test]
    fn text_is_never_a_formula() {
        assert_eq!(safe("=HYPERLINK(1)"), "'=HYPERLINK(1)");
        for sign in ["=", "+", "-", "@", "＝", "＋", "－", "＠"] {
            for before in [
                "",
                " ",
                "\n",
                "\r\n",
                "\u{feff}",
                "\u{a0}",
                "\u{3000}",
                "\u{200b} \0",
            ] {
                let text = format!("{before}{sign}1");
                assert_eq!(safe(&text), format!("'{text}"), "{text:?}");
            }
        }
        for plain in ["overlay:upper", " a=b", "", "\u{feff}name", "4 KiB"] {
            assert_eq!(safe(plain), plain);
        }
    }
}
