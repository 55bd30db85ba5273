//! Expands settings to points: values, combinations, applicable parameters, checks, scale, labels.

use std::{collections::BTreeSet, sync::Arc};

use layermark_model::{Meaning, Needs, Point, PointError, Settings};
use serde_json::{Map, Value};

use super::{MAX_POINTS, Params, Row, Values, too_many_points, unused};

/// Settings expanded to points, in the order of the table: the last parameter changes fastest.
pub fn points<P: Params>(settings: &Settings, scale: f64) -> Result<Vec<Point>, PointError> {
    let values = Values::read(&P::params(), settings)?;
    let mut applied = Applied::default();
    let all: Vec<P> = expand(&values, scale, &mut applied)?;
    finish(settings, &values, &applied, &all)
}

/// Every combination of the values, each once.
pub fn expand<P: Params>(
    values: &Values,
    scale: f64,
    applied: &mut Applied,
) -> Result<Vec<P>, PointError> {
    let mut derived: Vec<P> = Vec::new();
    for map in values.combinations(P::TABLE)? {
        derived.extend(applied.clear::<P>(map)?.derive(values)?);
        if derived.len() > MAX_POINTS {
            return Err(too_many_points(P::ID));
        }
    }
    let mut all: Vec<P> = Vec::new();
    for mut p in derived {
        check(&p)?;
        if (scale - 1.0).abs() > f64::EPSILON {
            p.scale(scale, values);
            check(&p)?;
        }
        if !all.contains(&p) {
            all.push(p);
        }
    }
    Ok(all)
}

/// Checks that every given parameter has an effect, and labels the points.
pub fn finish<P: Params>(
    settings: &Settings,
    values: &Values,
    applied: &Applied,
    all: &[P],
) -> Result<Vec<Point>, PointError> {
    applied.all_given::<P>(values)?;
    let labels = labels(settings.label.as_deref(), all);
    let points = labels.into_iter().zip(all);
    let mut points: Vec<Point> = points
        .map(|(label, p)| point(label, p))
        .collect::<Result<_, _>>()?;
    mark_alternatives(&mut points, values, all);
    Ok(points)
}

/// Marks in each point the parameters for which the user gave several values, to choose between
/// them.
fn mark_alternatives<P: Params>(points: &mut [Point], values: &Values, all: &[P]) {
    let several = |row: &&Row<P>| {
        let name = row.param.name;
        let mut pairs = points.windows(2);
        values.given(name) && pairs.any(|pair| pair[0].params.get(name) != pair[1].params.get(name))
    };
    let rows: Vec<&Row<P>> = P::TABLE.iter().filter(several).collect();
    for (point, p) in points.iter_mut().zip(all) {
        let its = rows.iter().filter(|row| (row.alternative)(p));
        point.meaning.alternatives = its.map(|row| row.param.name.to_owned()).collect();
    }
}

/// A point with its meaning and its needs.
pub fn point<P: Params>(label: String, p: &P) -> Result<Point, PointError> {
    let mut at = Point::new(P::ID, label, p, p.meaning()?)?;
    at.needs = needs(&at.label, p)?;
    Ok(at)
}

/// What a point of this label needs.
pub fn needs<P: Params>(label: &str, p: &P) -> Result<Arc<Needs>, PointError> {
    let mut needs = p.needs()?;
    if let Some(extra) = &mut needs.extra {
        label.clone_into(&mut extra.label);
    }
    Ok(Arc::new(needs))
}

/// The key of a point with these parameters.
pub fn key<P: Params>(p: &P) -> Result<String, PointError> {
    Ok(Point::new(P::ID, String::new(), p, Meaning::default())?.key())
}

/// The parameters of a stored point, which may have been made elsewhere. They are not checked.
pub fn stored<P: Params>(at: &Point) -> Result<P, PointError> {
    at.typed::<P>()
}

/// Reads and checks the parameters of a point. In the probe they come from another process.
pub fn read<P: Params>(at: &Point) -> Result<P, PointError> {
    let p: P = at.typed()?;
    check_ranges(&p, &at.params)?;
    p.check()?;
    Ok(p)
}

fn check<P: Params>(p: &P) -> Result<(), PointError> {
    match serde_json::to_value(p) {
        Ok(Value::Object(map)) => check_ranges(p, &map)?,
        Ok(_) => return Err(error::<P>("its parameters are not a table")),
        Err(e) => return Err(error::<P>(e)),
    }
    p.check()
}

fn check_ranges<P: Params>(p: &P, map: &Map<String, Value>) -> Result<(), PointError> {
    let mut rows = P::TABLE.iter().filter(|row| row.applies(p));
    rows.try_for_each(|row| row.check(P::ID, map))
}

fn error<P: Params>(why: impl std::fmt::Display) -> PointError {
    PointError::of_workload(P::ID, why)
}

/// Parameters that applied to some point.
#[derive(Default)]
pub struct Applied(BTreeSet<&'static str>);

impl Applied {
    /// The parameters of a combination, within their ranges. Those that do not apply are reset, so
    /// that equal work becomes one point.
    fn clear<P: Params>(&mut self, mut map: Map<String, Value>) -> Result<P, PointError> {
        let typed = |map: &Map<String, Value>| -> Result<P, PointError> {
            serde_json::from_value(Value::Object(map.clone())).map_err(error::<P>)
        };
        let p = typed(&map)?;
        for row in P::TABLE {
            if row.applies(&p) {
                row.check(P::ID, &map)?;
                self.0.insert(row.param.name);
            } else {
                map.insert(row.param.name.into(), unused(row.param.kind));
            }
        }
        typed(&map)
    }

    /// An error for a parameter that the user gave and that applies to no point.
    fn all_given<P: Params>(&self, values: &Values) -> Result<(), PointError> {
        for row in P::TABLE {
            let (name, unused) = (row.param.name, unused(row.param.kind));
            let asked = values.given(name) && values.all(name).iter().any(|v| *v != unused);
            if let Some(only) = &row.only
                && asked
                && !self.0.contains(name)
            {
                let needs = only.needs;
                let what = format!(" has no effect without {needs}");
                return Err(PointError::of(P::ID, name, what)
                    .hint(format!("leave `{name}` out, or add {needs}")));
            }
        }
        Ok(())
    }
}

/// Distinct labels: made from the parameters alone, or the user's label with the parameters that
/// differ.
fn labels<P: Params>(label: Option<&str>, points: &[P]) -> Vec<String> {
    let Some(label) = label else {
        return points.iter().map(full_label).collect();
    };
    if points.len() <= 1 {
        return points.iter().map(|_| label.to_owned()).collect();
    }
    let parts = |p: &P| -> Vec<Option<String>> {
        let parts = P::TABLE.iter().map(|row| (row.label)(p));
        parts.collect()
    };
    let all: Vec<Vec<Option<String>>> = points.iter().map(parts).collect();
    let differs = |i: usize| all.iter().any(|parts| parts[i] != all[0][i]);
    let differing: Vec<usize> = (0..P::TABLE.len()).filter(|i| differs(*i)).collect();
    all.iter()
        .map(|parts| {
            let parts = differing.iter().filter_map(|i| parts[*i].as_deref());
            match parts.collect::<Vec<_>>().join(", ").as_str() {
                "" => label.to_owned(),
                parts => format!("{label} ({parts})"),
            }
        })
        .collect()
}

fn full_label<P: Params>(p: &P) -> String {
    let title = P::TABLE.iter().find_map(|row| (row.title)(p));
    let (title, replaced) = title.unwrap_or_default();
    let rows = P::TABLE.iter();
    let rows = rows.filter(|row| !replaced.contains(&row.param.name));
    let parts = rows.filter_map(|row| (row.label)(p));
    let title = (!title.is_empty()).then_some(title);
    title
        .into_iter()
        .chain(parts)
        .collect::<Vec<_>>()
        .join(", ")
}

/// A size or count times the plan's scale, at least 1.
pub fn scaled(value: u64, scale: f64) -> u64 {
    ((value as f64 * scale) as u64).max(1)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{
        Context, ProbeError, Work,
        param::{Means, Runs},
    };
    use layermark_model::Meaning;
    use serde::{Deserialize, Serialize};
    use serde_json::json;

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    struct Demo {
        op: String,
        depth: u64,
        fast: bool,
    }

    impl Params for Demo {
        const ID: &'static str = "demo";
        const TABLE: &'static [Row<Self>] = &[
            Row::word("op", &["read", "write"], "read,write")
                .list()
                .alternative(|p: &Self| p.fast)
                .label(|p: &Self| Some(p.op.clone())),
            Row::count("depth", "4")
                .list()
                .range(1, 8)
                .only("`op` = read", |p: &Self| p.op == "read")
                .label(|p| (p.depth > 0).then(|| format!("depth {}", p.depth))),
            Row::switch("fast", "false").label(|p: &Self| p.fast.then(|| "fast".into())),
        ];

        fn scale(&mut self, scale: f64, _: &Values) {
            self.depth = scaled(self.depth, scale).min(self.depth);
        }
    }

    impl Runs for Demo {
        const ABOUT: &'static str = "a demonstration";
        const EXAMPLES: [&'static str; 2] = ["layermark demo", "layermark demo --fast"];

        fn prepare(self, _: &Path, _: &Context) -> Result<Box<dyn Work>, ProbeError> {
            Err(ProbeError::new("a demonstration"))
        }
    }

    impl Means for Demo {
        fn meaning(&self) -> Result<Meaning, PointError> {
            Ok(Meaning {
                operation: self.op.clone(),
                ..Meaning::default()
            })
        }
    }

    fn settings(label: Option<&str>, params: Value) -> Settings {
        let Value::Object(params) = params else {
            panic!("not a table")
        };
        Settings {
            workload: "demo".into(),
            label: label.map(Into::into),
            params,
        }
    }

    fn labels(label: Option<&str>, params: Value, scale: f64) -> Vec<String> {
        let points = points::<Demo>(&settings(label, params), scale).unwrap();
        points.into_iter().map(|p| p.label).collect()
    }

    #[test]
    fn equal_work_is_one_point_and_labels_say_what_differs() {
        let depths = || json!({"depth": [1, 2], "fast": true});
        let all = ["read, depth 1, fast", "read, depth 2, fast", "write, fast"];
        assert_eq!(labels(None, depths(), 1.0), all);
        let named = ["x (read, depth 1)", "x (read, depth 2)", "x (write)"];
        assert_eq!(labels(Some("x"), depths(), 1.0), named);
        let scaled = ["read, depth 1, fast", "write, fast"];
        assert_eq!(labels(None, depths(), 0.1), scaled);
    }

    #[test]
    fn only_what_the_user_gave_several_of_is_an_alternative() {
        let alternatives = |params: Value| -> Vec<usize> {
            let points = points::<Demo>(&settings(None, params), 1.0).unwrap();
            let all = points.iter().map(|p| p.meaning.alternatives.len());
            all.collect()
        };
        assert_eq!(
            alternatives(json!({"op": "read,write", "fast": true})),
            [1, 1]
        );
        assert_eq!(alternatives(json!({"op": "read,write"})), [0, 0]);
        assert_eq!(alternatives(json!({"fast": true})), [0, 0], "by default");
        assert_eq!(
            alternatives(json!({"op": "read", "depth": [1, 2], "fast": true})),
            [0, 0]
        );
    }

    #[test]
    fn ranges_hold_and_what_applies_to_no_point_is_refused() {
        for (params, says) in [
            (json!({"depth": 9}), "it must be between 1 and 8"),
            (json!({"depth": "0"}), "it must be between 1 and 8"),
            (
                json!({"op": "write", "depth": 2}),
                "`depth` has no effect without `op` = read",
            ),
        ] {
            let e = points::<Demo>(&settings(None, params.clone()), 1.0).unwrap_err();
            assert!(e.message.contains(says), "{params}: {e}");
        }
        let mut point = points::<Demo>(&settings(None, json!({})), 1.0)
            .unwrap()
            .remove(0);
        assert_eq!(read::<Demo>(&point).unwrap().depth, 4);
        point.params.insert("depth".into(), 9.into());
        assert!(read::<Demo>(&point).is_err(), "from another process");
    }
}
