//! `layermark config`: what the user's configuration file says.

use std::{fmt::Write as _, process::ExitCode};

use clap::Args;
use serde_json::json;

use super::stdout;
use crate::{
    common_args::JsonArg,
    config::{self, Config},
    failure::Failure,
};

#[derive(Debug, Args)]
pub struct ConfigArgs {
    #[command(flatten)]
    pub json: JsonArg,
}

/// A value, where it comes from, and the flag that wins over it.
struct Setting {
    key: &'static str,
    text: String,
    from_file: bool,
    flag: &'static str,
}

/// Prints the path of the file, and each value with where it comes from.
pub fn show(args: &ConfigArgs) -> Result<ExitCode, Failure> {
    let config = config::load()?;
    let path = config::path();
    let there = path.as_ref().is_some_and(|path| path.exists());
    let values = values(&config);
    let shown = path.as_ref().map(|path| path.display().to_string());
    let from = |of: &Setting| match &shown {
        Some(path) if of.from_file => path.clone(),
        _ => "default".to_owned(),
    };
    if args.json.json {
        let all: serde_json::Map<_, _> = values
            .iter()
            .map(|of| {
                let value = json!({"value": of.text, "from": from(of), "flag": of.flag});
                (of.key.to_owned(), value)
            })
            .collect();
        let all = json!({"path": shown, "exists": there, "values": all});
        stdout::print(&format!("{all:#}\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = match &shown {
        Some(path) if there => format!("{path}\n"),
        Some(path) => format!("{path} (not there)\n"),
        None => "there is no home directory for a file\n".to_owned(),
    };
    for of in &values {
        let _ = writeln!(
            text,
            "  {:<8}{}  (from {}; the flag {} wins)",
            of.key,
            of.text,
            from(of),
            of.flag
        );
    }
    stdout::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn values(config: &Config) -> [Setting; 4] {
    let value = |key, own: Option<String>, default: &str, flag| Setting {
        key,
        from_file: own.is_some(),
        text: own.unwrap_or_else(|| default.to_owned()),
        flag,
    };
    let dir = config.dir.as_ref().map(|dir| dir.display().to_string());
    let layers: Vec<String> = config.layers.iter().map(ToString::to_string).collect();
    let layers = (!layers.is_empty()).then(|| layers.join(" "));
    [
        value("dir", dir, ".", "--dir"),
        value(
            "budget",
            config.budget.clone(),
            "that of the command or plan",
            "--budget",
        ),
        value("layers", layers, "those of the command or plan", "-l"),
        value("label", config.label.clone(), "none", "--label"),
    ]
}
