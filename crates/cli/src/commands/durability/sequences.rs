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
        let only: Result<Vec<Sequence>, Failure> = self.only.iter().map(|t| read(t)).collect();
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

fn read(text: &str) -> Result<Sequence, Failure> {
    text.parse().map_err(|why| {
        Failure::usage(format!("`--sequence` = {text}: {why}")).hint(format!(
            "layermark durability -l overlay:upper --sequence '{EXAMPLE}'"
        ))
    })
}

#[derive(Debug, Args)]
pub struct ReproducerArgs {
    /// The sequence, as the report has it
    pub sequence: String,
    /// The layer that lost something
    #[arg(short, long, value_name = "LAYER", default_value = "native")]
    pub layer: Spec,
    /// Look for what neither POSIX nor fsync(2) promises as well, and ext4, XFS and btrfs keep
    #[arg(long)]
    pub beyond_posix: bool,
    /// A plan for `layermark run`, and not a script for a shell
    #[arg(long)]
    pub plan: bool,
}

/// Prints the script, or the plan.
pub fn print_reproducer(args: &ReproducerArgs) -> Result<ExitCode, Failure> {
    let sequence = read(&args.sequence)?;
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
            let layer = shell_words::quote(&layer);
            let other = format!("layermark durability --sequence '{sequence}' -l {layer}");
            Failure::usage(why).hint(other)
        })?
    };
    stdout::print(&text)?;
    Ok(ExitCode::SUCCESS)
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

    /// It was refused itself.
    #[test]
    fn the_hint_is_a_sequence_that_can_be_done() {
        let hint = read("create a/g").unwrap_err().hint.unwrap();
        let quoted = hint.split('\'').nth(1).unwrap();
        assert_eq!(read(quoted).unwrap().to_string(), EXAMPLE);
    }

    #[test]
    fn a_plan_names_each_layer_once() {
        let layers = |layer: &str| {
            let text = plan(&read(EXAMPLE).unwrap(), &layer.parse().unwrap());
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
