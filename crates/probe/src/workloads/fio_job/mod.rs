//! fio's job files and command lines, translated to settings of `file` and `iops`.

use std::path::Path;

use layermark_model::{MOST_TEXT, PointError, Settings};

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
pub fn jobs(text: &str) -> Result<Vec<FioJob>, PointError> {
    if text.len() as u64 > MOST_TEXT {
        return Err(PointError::new("it is longer than 1 MiB").hint("write several job files"));
    }
    let sections = sections(text)?;
    if sections.is_empty() {
        return Err(
            PointError::new("there is no job in it, only [global]").hint("add a section: [read]")
        );
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
pub fn command(text: &str) -> Result<FioJob, PointError> {
    let mut section = Section {
        name: "command",
        options: Vec::new(),
    };
    let words = text
        .split_whitespace()
        .skip_while(|word| *word == "fio" || word.ends_with("/fio"));
    let mut words = words.peekable();
    while let Some(word) = words.next() {
        let Some(option) = word.strip_prefix("--") else {
            return Err(PointError::new(format!("`{word}` is not an option of fio"))
                .hint("write --name=value, or run a job file: layermark run FILE.fio"));
        };
        let option = option.split_once('=').unwrap_or_else(|| {
            let value = words.next_if(|next| !next.starts_with("--"));
            (option, value.unwrap_or("1"))
        });
        if option.0 == "name" && section.has("name") {
            return Err(PointError::new("it has several jobs (--name)")
                .hint("write them to a job file: layermark run FILE.fio"));
        }
        section.options.push(option);
    }
    section.job()
}
