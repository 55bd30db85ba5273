//! The sections of a job file, and their options as they are written.

use layermark_model::binary_size;

use super::{JobError, PAGE, SEVERAL};

/// Most sections of a job file, without `[global]`.
pub const MOST_SECTIONS: usize = 1000;
/// Most options of a section, with those of `[global]`.
pub const MOST_OPTIONS: usize = 500;

/// Longest name of a section: each of its notes begins with it.
pub const LONGEST_NAME: usize = 200;

/// A section, with what `[global]` has set before it.
pub struct Section<'t> {
    pub name: &'t str,
    /// Whether it is a command line, which has no sections.
    pub is_command: bool,
    pub options: Vec<(&'t str, &'t str)>,
}

/// The sections of a job file but `[global]`.
///
/// # Errors A line that is not of a job file.
pub fn sections(text: &str) -> Result<Vec<Section<'_>>, JobError> {
    let mut global: Vec<(&str, &str)> = Vec::new();
    let mut all: Vec<Section> = Vec::new();
    let too_many = |place: &str, most: usize, what: &str| {
        JobError::at(place, format!("it has more than {most} {what}")).hint(SEVERAL)
    };
    let mut in_global = None;
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        let place = format!("line {}", at + 1);
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = line.strip_prefix('[') {
            let name = name.strip_suffix(']').filter(|name| !name.is_empty());
            let name = name.ok_or_else(|| {
                JobError::at(&place, format!("`{line}` is not a section"))
                    .hint(format!("write [name]: {PAGE}"))
            })?;
            if name.len() > LONGEST_NAME {
                let what = format!("the name of a section is longer than {LONGEST_NAME} bytes");
                return Err(JobError::at(&place, what)
                    .hint(format!("write a shorter name in brackets: {PAGE}")));
            }
            in_global = Some(name == "global");
            if name != "global" {
                if all.len() == MOST_SECTIONS {
                    return Err(too_many(&place, MOST_SECTIONS, "sections"));
                }
                all.push(Section {
                    name,
                    is_command: false,
                    options: global.clone(),
                });
            }
            continue;
        }
        let (name, value) = line.split_once('=').unwrap_or((line, "1"));
        let (name, value) = (name.trim(), value.trim());
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
        if name.is_empty() || !name.chars().all(is_name) {
            let what = format!("`{line}` is not an option of fio");
            return Err(JobError::at(&place, what).hint(format!("write name=value: {PAGE}")));
        }
        if value.contains("${") {
            let what = format!("`{line}`: variables are not replaced");
            return Err(JobError::at(&place, what)
                .hint(format!("write the value in place of ${{...}}: {PAGE}")));
        }
        let options = match (in_global, all.last_mut()) {
            (Some(true), _) => &mut global,
            (Some(false), Some(section)) => &mut section.options,
            _ => {
                let what = format!("`{line}` is in no section");
                return Err(JobError::at(&place, what)
                    .hint(format!("write [global] or [name] above it: {PAGE}")));
            }
        };
        if options.len() == MOST_OPTIONS {
            return Err(too_many(&place, MOST_OPTIONS, "options of a section"));
        }
        options.push((name, value));
    }
    Ok(all)
}

impl<'t> Section<'t> {
    /// The last value of any of these names.
    pub fn get(&self, names: &[&str]) -> Option<&'t str> {
        let mut all = self.options.iter().rev();
        all.find(|(name, _)| names.contains(name))
            .map(|(_, value)| *value)
    }

    pub fn has(&self, name: &str) -> bool {
        self.get(&[name]).is_some_and(|value| value != "0")
    }

    pub fn error(&self, name: &str, why: &str) -> JobError {
        let value = self.get(&[name]).unwrap_or_default();
        let value = short(value);
        let place = if self.is_command {
            format!("--{name}={value}")
        } else {
            format!("[{}] {name}={value}", self.name)
        };
        JobError::at(place, why)
    }

    pub fn number(&self, name: &str, default: u64) -> Result<u64, JobError> {
        let Some(text) = self.get(&[name]) else {
            return Ok(default);
        };
        text.parse()
            .map_err(|_| self.error(name, "it takes a whole number"))
    }

    /// A size: `k` is 1024.
    pub fn size(&self, names: &[&str]) -> Result<Option<u64>, JobError> {
        let Some(text) = self.get(names) else {
            return Ok(None);
        };
        let wrong = || {
            self.error(
                names[0],
                "it takes a size such as 4k or 64m, not a percentage or a range",
            )
        };
        if self.get(&["kb_base"]) == Some("1000") {
            return Err(self.error("kb_base", "sizes here are of 1024"));
        }
        binary_size(text)
            .filter(|n| *n > 0)
            .map(Some)
            .ok_or_else(wrong)
    }
}

/// The beginning of a text for a note: a job file may repeat a long one for each section.
pub fn short(text: &str) -> String {
    const MOST: usize = 100;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
