//! Sequences of operations under power cuts, and one of them as a script or a plan.

use std::process::ExitCode;

use clap::Args;
use layermark_model::{
    PlanSequences, Spec,
    witness::sequence::{Basis, Sequence, script},
};

use crate::{commands::stdout, failure::Failure};

#[derive(Debug, Args)]
pub struct SequenceArgs {
    /// Cut the power under sequences of operations as well, each followed by a call that makes it durable: 1 for all
    /// of one operation, 2 for a sample of two operations too
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=2))]
    pub sequences: Option<u32>,
    /// Sequences of two operations that are drawn from --seed
    #[arg(long, value_name = "N", requires = "sequences", default_value_t = PlanSequences::SAMPLE,
        value_parser = clap::value_parser!(u32).range(0..=i64::from(PlanSequences::MOST_SAMPLE)))]
    pub sample: u32,
    /// Only this sequence, such as 'rename a/f b/g; fsync b'; repeatable
    #[arg(
        long = "sequence",
        value_name = "SEQUENCE",
        conflicts_with = "sequences"
    )]
    pub only: Vec<String>,
}

impl SequenceArgs {
    /// The sequences that are asked for.
    pub fn planned(&self) -> Result<Option<PlanSequences>, Failure> {
        let flag = |text: &String| {
            let hint = format!("layermark durability -l overlay:upper --sequence '{EXAMPLE}'");
            read("--sequence", text, hint)
        };
        let only: Result<Vec<Sequence>, Failure> = self.only.iter().map(flag).collect();
        let only: Vec<String> = only?.iter().map(ToString::to_string).collect();
        let asked = self.sequences.is_some() || !only.is_empty();
        Ok(asked.then(|| PlanSequences {
            operations: self.sequences.unwrap_or(1),
            sample: self.sample,
            only,
        }))
    }
}

/// A sequence that can be done.
const EXAMPLE: &str = "create a/g; fsync a";

/// The sequence that `param` has; `hint` is a command with one that can be done.
fn read(param: &str, text: &str, hint: String) -> Result<Sequence, Failure> {
    let refused = |why| Failure::usage(format!("`{param}` = {text}: {why}")).hint(hint);
    text.parse().map_err(refused)
}

#[derive(Debug, Args)]
pub struct ReproducerArgs {
    /// The sequence, as the report has it
    pub sequence: String,
    /// The layer that lost something
    #[arg(short, long, value_name = "LAYER", default_value = "native")]
    pub layer: Spec,
    /// Only its first operations: as many as had been acknowledged when it was lost, as the report has it
    #[arg(long, value_name = "N")]
    pub after: Option<usize>,
    /// Look for what neither POSIX nor fsync(2) promises as well, and ext4, XFS and btrfs keep
    #[arg(long)]
    pub beyond_posix: bool,
    /// A plan for `layermark run`, and not a script for a shell
    #[arg(long)]
    pub plan: bool,
}

/// Prints the script, or the plan.
pub fn print_reproducer(args: &ReproducerArgs) -> Result<ExitCode, Failure> {
    layermark_layers::check(&args.layer)?;
    let hint = format!("layermark durability reproducer '{EXAMPLE}'");
    let whole = read("SEQUENCE", &args.sequence, hint)?;
    let sequence = args
        .after
        .map_or_else(|| Ok(whole.clone()), |operations| first(&whole, operations))?;
    let text = if args.plan {
        plan(&sequence, &args.layer)
    } else {
        let basis = if args.beyond_posix {
            Basis::Linux
        } else {
            Basis::Posix
        };
        script(&sequence, basis, &args.layer.to_string()).map_err(|why| {
            let layer = args.layer.to_string();
            Failure::usage(why).hint(instead(&sequence, basis, &shell_words::quote(&layer)))
        })?
    };
    stdout::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The first operations of a sequence, as far as a call made them durable.
fn first(whole: &Sequence, operations: usize) -> Result<Sequence, Failure> {
    whole.first(operations).ok_or_else(|| {
        let why = match whole.0.len() {
            all if operations > all => format!("`{whole}` has {all} operations"),
            _ => format!("no sync follows the first {operations} operations of `{whole}`"),
        };
        Failure::usage(format!("`--after` = {operations}: {why}"))
            .hint(format!("layermark durability reproducer '{whole}'"))
    })
}

/// A command where nothing has to be there after a whole sequence: its longest beginning after which something has to be,
/// or what cuts the power while it is done.
fn instead(sequence: &Sequence, basis: Basis, layer: &str) -> String {
    let can_be_lost = |operations: &usize| {
        let first = sequence.first(*operations);
        first.is_some_and(|first| script(&first, basis, layer).is_ok())
    };
    let beyond = match basis {
        Basis::Posix => "",
        Basis::Linux => " --beyond-posix",
    };
    match (1..sequence.0.len()).rev().find(can_be_lost) {
        Some(operations) => format!(
            "layermark durability reproducer '{sequence}' -l {layer}{beyond} --after {operations}"
        ),
        None => format!("layermark durability --sequence '{sequence}' -l {layer}"),
    }
}

/// One point is measured, as a plan needs one.
fn plan(sequence: &Sequence, layer: &Spec) -> String {
    let quoted = |text: String| toml::Value::String(text).to_string();
    let mut layers = vec![quoted("native".into()), quoted(layer.to_string())];
    // A layer is not measured twice.
    layers.dedup();
    let (layers, text) = (layers.join(", "), quoted(sequence.to_string()));
    format!(
        r#"name = "reproducer"
layers = [{layers}]
blocks = 8
sessions = 1

[power_cuts]
cuts = 4
records = 1
sequences = {{ only = [{text}] }}

[[work]]
workload = "file"
op = "append"
record = "4K"
sync = "each"
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequence(text: &str) -> Sequence {
        text.parse().unwrap()
    }

    /// It was refused itself.
    #[test]
    fn the_hint_is_a_sequence_that_can_be_done() {
        let args = SequenceArgs {
            sequences: None,
            sample: PlanSequences::SAMPLE,
            only: vec!["create a/g".into()],
        };
        let hint = args.planned().unwrap_err().hint.unwrap();
        let quoted = hint.split('\'').nth(1).unwrap();
        assert_eq!(sequence(quoted).to_string(), EXAMPLE);
    }

    /// What was lost in the middle of a sequence could not be shown by its end.
    #[test]
    fn where_the_end_shows_nothing_a_beginning_is_named_that_does() {
        let of = |text: &str, after: Option<usize>, basis| {
            let whole = sequence(text);
            let part = after.map_or(Ok(whole.clone()), |n| first(&whole, n))?;
            script(&part, basis, "fuse")
                .map_err(|why| Failure::usage(why).hint(instead(&part, basis, "fuse")))
        };
        let text = "overwrite a/f; fsync a/f; overwrite a/f; syncfs";
        let refused = of(text, None, Basis::Posix).unwrap_err();
        assert!(
            refused
                .message
                .contains("nothing that it changes has to be there"),
            "{}",
            refused.message
        );
        assert_eq!(
            refused.hint.as_deref(),
            Some(&*format!(
                "layermark durability reproducer '{text}' -l fuse --after 1"
            ))
        );
        let script = of(text, Some(1), Basis::Posix).unwrap();
        assert!(
            script.starts_with("#!/bin/sh\n# overwrite a/f; fsync a/f\n"),
            "{script}"
        );
        // Operations that no call has made durable are left out.
        let unsynced = "create a/g; fsync a; append a/g; append a/g; fsync a/g";
        let three = first(&sequence(unsynced), 2).unwrap();
        assert_eq!(three.to_string(), "create a/g; fsync a");
        let nothing = of("link a/f b/g; fdatasync b/g", None, Basis::Posix).unwrap_err();
        let hint = nothing.hint.unwrap();
        assert!(
            hint.starts_with("layermark durability --sequence"),
            "{hint}"
        );
        for (text, after) in [
            (unsynced, 0),
            (unsynced, 9),
            ("create a/g; append a/g; fsync a", 1),
        ] {
            let refused = first(&sequence(text), after).unwrap_err();
            assert!(
                refused.message.starts_with("`--after` = "),
                "{}",
                refused.message
            );
        }
    }

    #[test]
    fn a_plan_names_each_layer_once() {
        let layers = |layer: &str| {
            let text = plan(&sequence(EXAMPLE), &layer.parse().unwrap());
            let plan: toml::Table = text.parse().unwrap();
            plan["layers"].to_string()
        };
        assert_eq!(layers("native"), r#"["native"]"#);
        assert_eq!(
            layers("fuse:fsync=data"),
            r#"["native", "fuse:fsync=data"]"#
        );
    }
}
