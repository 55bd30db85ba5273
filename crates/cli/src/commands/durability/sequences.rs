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

fn read(text: &str) -> Result<Sequence, Failure> {
    text.parse().map_err(|why| {
        Failure::usage(format!("`--sequence` = {text}: {why}")).hint(
            "layermark durability -l overlay:upper --sequence 'create a/g; fsync a/g; fsync a'",
        )
    })
}

#[derive(Debug, Args)]
pub struct ReproducerArgs {
    /// The sequence, as the report has it
    pub sequence: String,
    /// The layer that lost something
    #[arg(short, long, value_name = "LAYER", default_value = "native")]
    pub layer: Spec,
    /// Look for what POSIX does not promise as well, and ext4, XFS and btrfs keep
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
        script(&sequence, basis, &args.layer.to_string()).map_err(Failure::failed)?
    };
    stdout::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// One point is measured, as a plan needs one.
fn plan(sequence: &Sequence, layer: &Spec) -> String {
    let quoted = |text: String| toml::Value::String(text).to_string();
    let (layer, text) = (quoted(layer.to_string()), quoted(sequence.to_string()));
    format!(
        r#"name = "reproducer"
layers = ["native", {layer}]
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
