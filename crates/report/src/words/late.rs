//! Changes that are seen later, or not in time.

use crate::{
    number::{self, count},
    statements::late::Late,
    types::ResultRow,
    words::{Names, Text, Words, lists::labels, text},
};

/// The clauses of the layer's sentence.
impl Words for Late<'_> {
    fn words(&self, names: &Names) -> Text {
        let baseline = names.baseline();
        let shows = |rows: &[&ResultRow]| {
            let labels = labels(rows);
            text!("shows changes of the other side later than {baseline} at {labels}")
        };
        let up_to = self.longest().map(number::time);
        let up_to = up_to.map(|longest| format!(", up to {longest} later"));
        let delayed = (!self.slower.is_empty())
            .then(|| text!("{}{}", shows(&self.slower), up_to.unwrap_or_default()));
        let leaning =
            (!self.probably.is_empty()).then(|| text!("probably {}", shows(&self.probably)));
        let unseen = self.within().map(number::time);
        let unseen =
            unseen.map(|within| text!("does not show {} within {within}", labels(&self.unseen)));
        let clauses = [delayed, leaning, unseen];
        Text::joined(clauses.into_iter().flatten(), "; ")
    }
}

impl Late<'_> {
    /// The part of the headline about the layer.
    pub fn part(&self) -> Text {
        let all = count(self.asked, "change");
        let shows = |rows: &[&ResultRow]| format!("shows {} of {all} later", rows.len());
        let up_to = self.longest().map(number::time);
        let up_to = up_to.map(|longest| format!(", by up to {longest}"));
        let delayed = (!self.slower.is_empty())
            .then(|| text!("{}{}", shows(&self.slower), up_to.unwrap_or_default()));
        let leaning =
            (!self.probably.is_empty()).then(|| text!("probably {}", shows(&self.probably)));
        let n = self.unseen.len();
        let unseen = self.within().map(number::time);
        let unseen = unseen.map(|within| text!("does not show {n} of {all} within {within}"));
        let parts = [unseen, delayed, leaning];
        let parts = Text::joined(parts.into_iter().flatten(), ", and ");
        text!("{} {parts}", Text::code(self.layer))
    }
}

#[cfg(test)]
mod tests {
    use layermark_model::{Meaning, Target, flags};

    use super::*;
    use crate::types::{Estimate, Verdict};

    /// A change that natively is seen after a second.
    fn row(label: &str, verdict: Verdict, delay_us: Option<f64>) -> ResultRow {
        ResultRow {
            label: label.into(),
            meaning: Meaning {
                target: Target::SharedDirectory,
                ..Meaning::default()
            },
            trials: 9,
            op_us: Some(1e6 + delay_us.unwrap_or_default()),
            extra_us: delay_us.map(|estimate| Estimate {
                estimate,
                interval: None,
                average: None,
            }),
            verdict,
            ..ResultRow::default()
        }
    }

    fn told(rows: &[ResultRow]) -> String {
        let rows: Vec<&ResultRow> = rows.iter().collect();
        let late = Late::among("nfs", &rows).expect("late changes");
        let baseline = "native";
        let words = late.words(&Names { baseline });
        words.to_string().replace(['“', '”'], "")
    }

    #[test]
    fn a_delay_is_what_is_added_to_the_baselines_time() {
        let mut slow = row("a", Verdict::Slower, Some(2000.0));
        // Natively it takes longer than all of the other one.
        slow.op_us = Some(9e6);
        let rows = [slow, row("b", Verdict::Slower, Some(500_000.0))];
        assert_eq!(
            told(&rows),
            "shows changes of the other side later than native at b and a, up to 500 ms later"
        );
        let rows = [rows[0].clone(), row("b", Verdict::Slower, None)];
        let told = told(&rows);
        assert!(told.contains("at a and b"), "{told}");
        assert!(!told.contains("up to"), "it changed during the run: {told}");
    }

    #[test]
    fn a_delay_that_is_not_certain_is_probable() {
        let mut likely = row("a", Verdict::Undecided, Some(2e6));
        likely.probably = Some(Verdict::Slower);
        let rows = [likely, row("b", Verdict::Slower, Some(300_000.0))];
        assert_eq!(
            told(&rows),
            "shows changes of the other side later than native at b, up to 300 ms later; \
             probably shows changes of the other side later than native at a"
        );
    }

    #[test]
    fn what_is_not_seen_was_waited_for_at_least_as_long_as_told() {
        let unseen = |label: &str, wait_us: f64| {
            let mut row = row(label, Verdict::Slower, Some(1e6));
            row.op_us = Some(wait_us);
            row.flag_counts.insert(flags::NOT_SEEN.into(), row.trials);
            row
        };
        let rows = [unseen("a", 5e6), unseen("b", 2e6)];
        assert_eq!(told(&rows), "does not show b and a within 2.00 s");
    }
}
