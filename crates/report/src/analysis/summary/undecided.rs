//! Sentences for undecided results, with what is still known about them.

use crate::{
    analysis::summary::{because, by_cause, explained, hull},
    number::{self, count},
    types::{Cause, ResultRow, Verdict},
    words::lists::{LISTED, labels, name_all, quoted},
};

/// From this ratio on, a factor is easier to read than per cent.
const AS_FACTOR: f64 = 3.0;

/// Clauses about a layer's undecided results.
pub fn clauses(all: &[&ResultRow], rows: &[&ResultRow], baseline: &str) -> Vec<String> {
    let (withheld, rest): (Vec<&ResultRow>, Vec<&ResultRow>) =
        rows.iter().partition(|r| r.withheld.is_some());
    let (drifting, rest): (Vec<&ResultRow>, Vec<&ResultRow>) =
        rest.into_iter().partition(|r| r.steady == Some(false));
    let (wide, short): (Vec<&ResultRow>, Vec<&ResultRow>) = rest
        .into_iter()
        .partition(|r| r.ratio.is_some_and(|e| e.interval.is_some()));
    let mut clauses = Vec::new();
    clauses.extend(waiting(&withheld));
    let (probable, wide): (Vec<&ResultRow>, Vec<&ResultRow>) =
        wide.into_iter().partition(|r| r.probably.is_some());
    clauses.extend(probably(all, &probable, baseline));
    let differs = |r: &&ResultRow| matches!(r.verdict, Verdict::Slower | Verdict::Faster);
    if all.iter().any(differs) && wide.len() > 1 {
        // Next to findings, only their number is given; the table has what is known of each.
        clauses.push(format!(
            "is too noisy to tell at {} of {} operations",
            wide.len(),
            all.len()
        ));
    } else {
        clauses.extend(too_noisy(&wide, baseline));
    }
    if !short.is_empty() {
        let more = short.iter().filter_map(|r| r.more_blocks).max();
        clauses.push(format!(
            "has too few blocks for a verdict on {} ({} missing)",
            labels(&short),
            count(more.unwrap_or(0), "more block")
        ));
    }
    if !drifting.is_empty() {
        let at = labels(&drifting);
        clauses.push(format!("has no steady state at {at}, so no single number"));
    }
    clauses
}

fn probably(all: &[&ResultRow], rows: &[&ResultRow], baseline: &str) -> Vec<String> {
    let having = |side: Option<Verdict>| -> Vec<&ResultRow> {
        let leans = rows.iter().filter(|r| r.probably == side);
        leans.copied().collect()
    };
    let mut clauses = probably_slower(all, &having(Some(Verdict::Slower)), baseline);
    let faster = having(Some(Verdict::Faster));
    clauses.extend(probably_faster(all, &faster, baseline));
    clauses
}

fn probably_slower(all: &[&ResultRow], rows: &[&ResultRow], baseline: &str) -> Vec<String> {
    let clause = |(cause, group): (Option<Cause>, Vec<&ResultRow>)| {
        let span = number::ratio_span(hull(&group)?);
        let names = name_all(all, &group);
        let why = because(cause.as_ref(), baseline);
        Some(format!(
            "probably takes {span} times {baseline}'s time at {names}{why}"
        ))
    };
    by_cause(rows).into_iter().filter_map(clause).collect()
}

fn probably_faster(all: &[&ResultRow], rows: &[&ResultRow], baseline: &str) -> Vec<String> {
    let clause = |(cause, group): (Option<Cause>, Vec<&ResultRow>)| {
        let [low, high] = hull(&group)?;
        let span = number::ratio_span([1.0 / high, 1.0 / low]);
        let names = name_all(all, &group);
        let why = explained(cause.as_ref(), baseline);
        Some(format!(
            "is probably {span}x faster than {baseline} at {names}{why}"
        ))
    };
    by_cause(rows).into_iter().filter_map(clause).collect()
}

fn waiting(rows: &[&ResultRow]) -> Option<String> {
    let why = rows.first()?.withheld.as_deref()?;
    let at = if rows.len() > 1 {
        let first = quoted(&rows[0].label);
        format!("{} (at {first}, {why})", labels(rows))
    } else {
        format!("{} ({why})", labels(rows))
    };
    Some(format!("has no verdict at {at}"))
}

fn too_noisy(rows: &[&ResultRow], baseline: &str) -> Option<String> {
    if rows.is_empty() {
        return None;
    }
    let mut each: Vec<String> = rows
        .iter()
        .take(LISTED)
        .map(|r| format!("{} ({})", quoted(&r.label), between(r, baseline)))
        .collect();
    if rows.len() > LISTED {
        each.push(format!("{} more", rows.len() - LISTED));
    }
    Some(format!("is too noisy to tell at {}", number::list(&each)))
}

/// The interval in words: `between 4 % faster and 9 % slower`.
fn between(row: &ResultRow, baseline: &str) -> String {
    let Some([low, high]) = row.ratio.and_then(|r| r.interval) else {
        return String::new();
    };
    if high >= AS_FACTOR || low <= 1.0 / AS_FACTOR {
        let span = number::ratio_span([low, high]);
        return format!("{span} times {baseline}'s time");
    }
    let side = |r: f64| {
        let (share, word) = if r < 1.0 {
            (1.0 - r, "faster")
        } else {
            (r - 1.0, "slower")
        };
        format!("{} {word}", number::percent(share))
    };
    format!("between {} and {}", side(low), side(high))
}

/// The note next to the verdict in a table, which already shows the interval.
pub fn note(row: &ResultRow) -> String {
    if let Some(why) = &row.withheld {
        return why.clone();
    }
    match (row.steady, row.margin, row.more_blocks) {
        (Some(false), ..) => layermark_model::flags::UNSTEADY.into(),
        (.., Some(n)) => format!("no interval yet: {} missing", count(n, "block")),
        _ if row.probably.is_some() => {
            "by the weaker rule: one such word in twenty is wrong".into()
        }
        (_, Some(margin), _) => within(margin),
        _ => String::new(),
    }
}

/// `no difference beyond 7 %`, from the margin.
pub fn within(margin: f64) -> String {
    if margin >= AS_FACTOR - 1.0 {
        return format!("a factor of up to {}", number::ratio(1.0 + margin));
    }
    format!("no difference beyond {}", number::percent(margin))
}
