//! fio's job files and command lines, translated to settings of `file` and `iops`.

use std::{fmt, path::Path};

use layermark_model::{MOST_TEXT, Settings};

mod options;
mod sections;
#[cfg(test)]
mod tests;
mod translate;

use sections::{Section, sections};

/// A job, as it is measured here.
#[derive(Debug, PartialEq)]
pub struct FioJob {
    /// What is measured.
    pub settings: Settings,
    /// What is different here, and options that were not honoured. Each names its option.
    pub notes: Vec<String>,
}

/// A job that is not measured: its place, what is wrong there, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {what}")]
pub struct JobError {
    /// The line, the section with its option, or the option of a command line.
    pub place: String,
    /// What is wrong.
    pub what: String,
    /// What to do about it, with a command.
    pub hint: String,
}

impl JobError {
    /// An error whose hint is the page that has all options.
    fn at(place: impl fmt::Display, what: impl fmt::Display) -> Self {
        Self {
            place: place.to_string(),
            what: what.to_string(),
            hint: format!("options, and what to write instead of others: {PAGE}"),
        }
    }

    /// Adds what to write to the hint, or says it with a command of its own.
    fn hint(mut self, write: impl fmt::Display) -> Self {
        self.hint = write.to_string();
        self
    }
}

/// The command that shows which options there are.
const PAGE: &str = "layermark docs from-fio";
/// What to do with a job file that is too large.
const SEVERAL: &str = "write several job files, and a run for each: layermark run FILE.fio";

/// Whether a text is a job file rather than a plan.
pub fn is_job_file(path: &str, text: &str) -> bool {
    let first = text
        .lines()
        .map(str::trim)
        .find(|l| !l.is_empty() && !l.starts_with(['#', ';']));
    Path::new(path)
        .extension()
        .is_some_and(|ending| ending.eq_ignore_ascii_case("fio"))
        || first == Some("[global]")
}

/// The jobs of a job file, in order.
///
/// # Errors A line that is not of a job file, or a job that cannot be measured here; with its name.
pub fn jobs(text: &str) -> Result<Vec<FioJob>, JobError> {
    if text.len() as u64 > MOST_TEXT {
        return Err(JobError::at("the whole file", "it is longer than 1 MiB").hint(SEVERAL));
    }
    let sections = sections(text)?;
    if sections.is_empty() {
        let what = "no section but [global], so there is no job in it";
        return Err(JobError::at("the whole file", what)
            .hint(format!("begin a job with its name, such as [read]: {PAGE}")));
    }
    let mut jobs: Vec<FioJob> = Vec::new();
    for (at, section) in sections.iter().enumerate() {
        let mut job = section.job()?;
        let same = |other: &&Section| other.name == section.name;
        let before = sections[..at].iter().filter(same).count();
        let label = match before {
            0 => section.name.to_owned(),
            n => format!("{} ({})", section.name, n + 1),
        };
        let together = at > 0 && !section.has("stonewall") && !section.has("wait_for_previous");
        if together {
            let other = sections[at - 1].name;
            job.notes.push(format!(
                "[{}] runs at the same time as [{other}] in fio; here each is measured by itself",
                section.name
            ));
        }
        job.settings.label = Some(label);
        jobs.push(job);
    }
    Ok(jobs)
}

/// The job of a command line: `--rw=randread --bs=4k`, also with `fio` before it.
///
/// # Errors It is not one job, or cannot be measured here.
pub fn command(text: &str) -> Result<FioJob, JobError> {
    let mut section = Section {
        name: "command",
        is_command: true,
        options: Vec::new(),
    };
    let words = text
        .split_whitespace()
        .skip_while(|word| *word == "fio" || word.ends_with("/fio"));
    let mut words = words.peekable();
    while let Some(word) = words.next() {
        let Some(option) = word.strip_prefix("--") else {
            return Err(
                JobError::at(format!("`{word}`"), "it is not an option of fio")
                    .hint("write --name=value, or run a job file: layermark run FILE.fio"),
            );
        };
        let option = option.split_once('=').unwrap_or_else(|| {
            let value = words.next_if(|next| !next.starts_with("--"));
            (option, value.unwrap_or("1"))
        });
        if option.0 == "name" && section.has("name") {
            let place = format!("--name={}", option.1);
            return Err(JobError::at(place, "it begins a second job")
                .hint("write them to a job file: layermark run FILE.fio"));
        }
        section.options.push(option);
    }
    section.job()
}
