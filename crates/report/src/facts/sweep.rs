//! Sweeps: points that are equal except for some quantities, such as the size of a request. Lines
//! and tables are drawn through them. Also alternatives: points that are equal except for what
//! their user chooses between.

use layermark_model::{Meaning, Point, Quantity, Run, Unit};
use serde_json::{Map, Value};

use crate::{ResultRow, group};

/// An item of a sweep.
pub trait Swept {
    /// The workload's id, the point's parameters, and its meaning.
    fn work(&self) -> (&str, &Map<String, Value>, &Meaning);
}

impl Swept for &Point {
    fn work(&self) -> (&str, &Map<String, Value>, &Meaning) {
        (&self.workload, &self.params, &self.meaning)
    }
}

impl Swept for &ResultRow {
    fn work(&self) -> (&str, &Map<String, Value>, &Meaning) {
        (&self.workload, &self.point, &self.meaning)
    }
}

/// Parameters that make `new` other work than `old` for the clock, whatever the labels; empty if
/// the workload or the measure differs ([`other_measure`]). `None` for the same work. A parameter that only one of two
/// versions knows is ignored.
pub fn other_work<S: Swept + Copy>(old: S, new: S) -> Option<Vec<String>> {
    let ((before, then, was), (after, now, is)) = (old.work(), new.work());
    let unseen =
        |key: &String| was.beside_the_clock.contains(key) || is.beside_the_clock.contains(key);
    let differs = |(key, value): &(&String, &Value)| {
        then.get(*key).is_some_and(|before| before != *value) && !unseen(key)
    };
    let differences: Vec<String> = now
        .iter()
        .filter(differs)
        .map(|(key, _)| key.clone())
        .collect();
    let other = before != after || other_measure(old, new);
    (other || !differences.is_empty()).then_some(differences)
}

/// Whether a time that the program spends between its calls passes there in one of the runs, and was added to the sum in
/// the other. Then two times of the same work are not of the same measure.
pub fn other_measure<S: Swept + Copy>(old: S, new: S) -> bool {
    let added = [old, new].map(|of| of.work().2.added);
    matches!(added, [Some(then), Some(now)] if then.between != now.between)
}

/// The work of a point for the clock, whatever its label, which versions may word differently. A parameter without a
/// value is none: older points lack it. One with a value is other work, because some are left out where they are the
/// default.
pub fn work_key(of: &impl Swept) -> (String, String) {
    let (workload, params, said) = of.work();
    let mut params = common(params, said, |_| false);
    params.retain(|_, value| !is_unset(value));
    (workload.to_owned(), Value::Object(params).to_string())
}

fn is_unset(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(on) => !on,
        Value::Number(n) => n.as_u64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(items) => items.is_empty(),
    }
}

/// Index of the point that a point of another run is like: of its label, else of its work.
pub fn like(points: &[Point], other: &Point) -> Option<usize> {
    let named = points.iter().position(|p| p.label == other.label);
    named.or_else(|| {
        let wanted = work_key(&other);
        points.iter().position(|p| work_key(&p) == wanted)
    })
}

/// A sweep may be a member of a sweep over another quantity.
impl<const N: usize, T> Swept for &Sweep<N, T> {
    fn work(&self) -> (&str, &Map<String, Value>, &Meaning) {
        (&self.workload, &self.params, &self.meaning)
    }
}

/// Members that differ only in `N` quantities.
pub struct Sweep<const N: usize, T> {
    /// The workload's id.
    pub workload: String,
    /// Parameters common to all members.
    pub params: Map<String, Value>,
    /// Meaning of the first member. Everything except the quantities holds for the others.
    pub meaning: Meaning,
    quantities: [Quantity; N],
    /// The quantities' values and their member, ascending.
    pub steps: Vec<([u64; N], T)>,
}

/// Sweeps over these quantities, in the order of their first members. Items that lack one of the
/// quantities are left out.
pub fn over<const N: usize, S: Swept, T>(
    members: impl IntoIterator<Item = (S, T)>,
    quantities: [Quantity; N],
) -> Vec<Sweep<N, T>> {
    let mut found: Vec<Sweep<N, T>> = Vec::new();
    let mut known = std::collections::BTreeMap::new();
    for (of, member) in members {
        let (workload, params, said) = of.work();
        let Some(axes) = axes(said, quantities) else {
            continue;
        };
        let params = common(params, said, |key| {
            axes.iter().any(|(axis, _)| *axis == key)
        });
        let key = (
            workload.to_owned(),
            Value::Object(params.clone()).to_string(),
        );
        let at = *known.entry(key).or_insert_with(|| {
            found.push(Sweep {
                workload: workload.to_owned(),
                params,
                meaning: said.clone(),
                quantities,
                steps: Vec::new(),
            });
            found.len() - 1
        });
        found[at].steps.push((axes.map(|(_, value)| value), member));
    }
    for sweep in &mut found {
        sweep.steps.sort_by_key(|(values, _)| *values);
    }
    found
}

/// Common parameters that affect the measured time.
fn common(
    params: &Map<String, Value>,
    said: &Meaning,
    varies: impl Fn(&str) -> bool,
) -> Map<String, Value> {
    let mut params = params.clone();
    params.retain(|key, _| !varies(key) && !said.beside_the_clock.contains(key));
    params
}

/// Points that differ only in their alternatives (at least two), as indexes into the run.
pub fn alternatives(run: &Run) -> Vec<Vec<usize>> {
    let points = run.points.iter().enumerate();
    let chosen = points.filter(|(_, point)| !point.meaning.alternatives.is_empty());
    let keyed = chosen.map(|(at, point)| {
        let said = &point.meaning;
        let params = common(&point.params, said, |key| {
            said.alternatives.iter().any(|a| a == key)
        });
        ((&point.workload, params), at)
    });
    let groups = group::grouped(keyed)
        .into_iter()
        .map(|(_, members)| members);
    groups.filter(|members| members.len() > 1).collect()
}

/// Points that count bytes per second and differ only in the size of a request, as indexes into the
/// run.
pub fn request_sizes(run: &Run) -> Vec<Sweep<1, usize>> {
    let points = run.points.iter().zip(0..);
    let bulk = points.filter(|(p, _)| p.meaning.unit == Unit::Byte);
    over(bulk, [Quantity::RequestSize])
}

/// The parameter and the value of each quantity.
fn axes<const N: usize>(said: &Meaning, quantities: [Quantity; N]) -> Option<[(&str, u64); N]> {
    let axes = quantities.map(|q| said.find(q).map(|axis| (axis.key.as_str(), axis.value)));
    axes.iter()
        .all(Option::is_some)
        .then(|| axes.map(Option::unwrap_or_default))
}

impl<const N: usize, T> Sweep<N, T> {
    /// Description of all members: `read, 64M file, warm`.
    pub fn describe(&self) -> String {
        self.meaning.describe(&self.quantities)
    }

    /// The distinct values of a quantity, ascending.
    pub fn values(&self, quantity: usize) -> Vec<u64> {
        let mut values: Vec<u64> = self.steps.iter().map(|(v, _)| v[quantity]).collect();
        values.sort_unstable();
        values.dedup();
        values
    }

    /// Whether at least two members differ.
    pub fn varies(&self) -> bool {
        self.steps.iter().any(|(v, _)| *v != self.steps[0].0)
    }

    /// The members, ascending.
    pub fn members(&self) -> impl Iterator<Item = &T> {
        self.steps.iter().map(|(_, member)| member)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use layermark_model::Quantity::{DataSize, RequestSize};
    use serde_json::json;

    fn point(op: &str, file: u64, record: u64, debt: bool) -> Point {
        let params = json!({"op": op, "file_size": file, "record": record, "no_debt": !debt});
        let meaning = Meaning {
            beside_the_clock: vec!["no_debt".into()],
            ..Meaning::default()
        };
        let meaning = meaning
            .axis(DataSize, "file_size", file)
            .axis(RequestSize, "record", record)
            .part("op", op)
            .part("file_size", format!("{file} file"))
            .part("record", format!("{record} records"));
        Point::new("file", String::new(), &params, meaning).unwrap()
    }

    fn numbered(points: &[Point]) -> impl Iterator<Item = (&Point, usize)> {
        points.iter().zip(0..)
    }

    #[test]
    fn points_that_differ_in_one_quantity_are_a_sweep_in_its_order() {
        let points = [
            point("read", 64, 8, true),
            point("write", 64, 8, true),
            point("read", 64, 4, true),
            point("read", 32, 4, true),
        ];
        let sweeps = over(numbered(&points), [RequestSize]);
        let steps: Vec<_> = sweeps.iter().map(|s| s.steps.clone()).collect();
        assert_eq!(
            steps,
            [vec![([4], 2), ([8], 0)], vec![([8], 1)], vec![([4], 3)]]
        );
        assert_eq!(sweeps[0].describe(), "read, 64 file");
        assert_eq!(
            Value::Object(sweeps[0].params.clone()),
            json!({"op": "read", "file_size": 64})
        );
        let varies: Vec<bool> = sweeps.iter().map(Sweep::varies).collect();
        assert_eq!(varies, [true, false, false]);
    }

    #[test]
    fn two_quantities_make_a_table() {
        let points = [
            point("read", 64, 8, true),
            point("read", 32, 8, true),
            point("read", 32, 4, true),
        ];
        let sweeps = over(numbered(&points), [DataSize, RequestSize]);
        assert_eq!(sweeps.len(), 1);
        assert_eq!(sweeps[0].steps, [([32, 4], 2), ([32, 8], 1), ([64, 8], 0)]);
        assert_eq!(
            (sweeps[0].values(0), sweeps[0].values(1)),
            (vec![32, 64], vec![4, 8])
        );
        assert_eq!(sweeps[0].describe(), "read");
    }

    /// The largest record of an iozone matrix has write-back debt, and was once missing from the
    /// line over record size.
    #[test]
    fn what_the_clock_does_not_see_takes_no_point_out_of_its_sweep() {
        let points = [point("write", 64, 4, false), point("write", 64, 8, true)];
        let sweeps = over(numbered(&points), [RequestSize]);
        assert_eq!(sweeps.len(), 1);
        assert_eq!(sweeps[0].steps, [([4], 0), ([8], 1)]);
    }

    #[test]
    fn a_point_of_another_run_is_found_by_its_label_or_else_by_its_work() {
        let named = |label: &str, params: Value| {
            let mut point = point("list", 64, 8, true);
            point.label = label.into();
            point.params = serde_json::from_value(params).unwrap();
            point
        };
        let old = [
            named("list 100", json!({"files": 100, "gone": 0})),
            named("list 200", json!({"files": 200})),
        ];
        let at = |label: &str, params: Value| like(&old, &named(label, params));
        let new = "list directories";
        assert_eq!(at("list 100", json!({"files": 7})), Some(0), "by label");
        assert_eq!(at(new, json!({"files": 200})), Some(1));
        assert_eq!(at(new, json!({"files": 100, "later": ""})), Some(0));
        assert_eq!(at(new, json!({"no_debt": true, "files": 200})), Some(1));
        // What is left out where it is the default.
        assert_eq!(at(new, json!({"files": 200, "rest": "1s"})), None);
        assert_eq!(at(new, json!({"files": 300})), None);
    }

    #[test]
    fn other_workloads_and_points_without_the_quantity_are_apart() {
        let mut other = point("read", 64, 8, true);
        other.workload = "net".into();
        let mut none = point("read", 64, 8, true);
        none.meaning.axes.clear();
        let points = [point("read", 64, 8, true), other, none];
        let sweeps = over(numbered(&points), [RequestSize]);
        assert_eq!(
            sweeps.iter().map(|s| s.steps.len()).collect::<Vec<_>>(),
            [1, 1]
        );
    }
}
