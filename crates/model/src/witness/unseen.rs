//! Power cuts of which nothing was seen, and why: the same for writers, programs and sequences.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Power cuts of which nothing was seen. They are in no other count.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnseenCuts {
    /// Power cuts after which the layer could not be set up again; not in `cuts`.
    #[serde(default)]
    pub unrecovered: u64,
    /// What failed after the first of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unrecovered_why: Option<String>,
    /// Power cuts after which an error of this machine, such as no free loop device, left nobody to look; in no other count.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unjudged: u64,
    /// The first of these errors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unjudged_why: Option<String>,
    /// The run ended before its cuts were begun, or some of them took nothing and the others were not made: all are made when
    /// it is resumed, but not those of `--server`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub not_begun: bool,
}

impl UnseenCuts {
    /// Their number.
    pub fn count(&self) -> u64 {
        self.unrecovered + self.unjudged
    }

    /// Why the first of them was not seen: the layer's error, if there is one, before this machine's.
    pub fn why(&self) -> Option<&str> {
        let all = [&self.unrecovered_why, &self.unjudged_why];
        all.into_iter().flatten().next().map(String::as_str)
    }

    /// Adds a cut after which the layer could not be set up again.
    pub fn add_unrecovered(&mut self, why: String) {
        self.unrecovered += 1;
        self.unrecovered_why.get_or_insert(why);
    }

    /// Adds a cut that an error of this machine left nobody to look after.
    pub fn add_unjudged(&mut self, why: String) {
        self.unjudged += 1;
        self.unjudged_why.get_or_insert(why);
    }

    /// Adds those of a part of the same cuts.
    pub fn add(&mut self, part: Self) {
        self.unrecovered += part.unrecovered;
        self.unjudged += part.unjudged;
        self.not_begun |= part.not_begun;
        let keep = |known: &mut Option<String>, why| *known = known.take().or(why);
        keep(&mut self.unrecovered_why, part.unrecovered_why);
        keep(&mut self.unjudged_why, part.unjudged_why);
    }
}

/// Runs that were stored before such a count have none.
#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    use super::super::{ProgramCut, SequenceCut, WitnessTrial};
    use super::*;

    /// Stored runs and readers of the JSON know these fields beside the others.
    #[test]
    fn they_are_fields_of_each_row() {
        let unseen = UnseenCuts {
            unrecovered: 2,
            unrecovered_why: Some("mount: broken".into()),
            unjudged: 1,
            unjudged_why: Some("no loop device".into()),
            not_begun: true,
        };
        let (writer, program, sequences) = (
            WitnessTrial {
                unseen: unseen.clone(),
                ..WitnessTrial::default()
            },
            ProgramCut {
                unseen: unseen.clone(),
                ..ProgramCut::default()
            },
            SequenceCut {
                unseen: unseen.clone(),
                ..SequenceCut::default()
            },
        );
        let rows = [
            serde_json::to_value(&writer).unwrap(),
            serde_json::to_value(&program).unwrap(),
            serde_json::to_value(&sequences).unwrap(),
        ];
        for row in &rows {
            assert_eq!(row["unrecovered"], 2, "{row}");
            assert_eq!(row["unrecovered_why"], "mount: broken", "{row}");
            assert_eq!(row["unjudged"], 1, "{row}");
            assert_eq!(row["unjudged_why"], "no loop device", "{row}");
            assert_eq!(row["not_begun"], true, "{row}");
            assert!(row.get("unseen").is_none(), "{row}");
        }
        let [first, second, third] = rows;
        assert_eq!(
            serde_json::from_value::<WitnessTrial>(first).unwrap(),
            writer
        );
        assert_eq!(
            serde_json::from_value::<ProgramCut>(second).unwrap(),
            program
        );
        assert_eq!(
            serde_json::from_value::<SequenceCut>(third).unwrap(),
            sequences
        );
        // One that was stored before these were counted.
        let old = r#"{"layer": "x", "writer": "append", "records": 1, "cuts": 3, "losing": 0, "counts": {}}"#;
        let old: WitnessTrial = serde_json::from_str(old).unwrap();
        assert_eq!((old.cuts, old.unseen), (3, UnseenCuts::default()));
    }

    #[test]
    fn parts_are_added_and_the_first_reasons_are_kept() {
        let mut all = UnseenCuts::default();
        assert_eq!((all.count(), all.why()), (0, None));
        all.add_unjudged("no memory".into());
        for why in ["first", "second"] {
            let mut part = UnseenCuts::default();
            part.add_unrecovered(why.into());
            part.add_unjudged(why.into());
            all.add(part);
        }
        assert_eq!((all.unrecovered, all.unjudged, all.count()), (2, 3, 5));
        assert_eq!(all.unjudged_why.as_deref(), Some("no memory"));
        assert_eq!(all.why(), Some("first"));
        assert!(!all.not_begun);
    }
}
