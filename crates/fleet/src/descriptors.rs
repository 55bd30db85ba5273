//! Open files: each launcher has three pipes to this process.

use rustix::process::{Resource, getrlimit, setrlimit};

use crate::launchers::LauncherError;

/// Descriptors of a launcher: its standard input, output and errors.
const EACH: u64 = 3;
/// What the process has open besides: its own streams, the store, a report, and those of a child that is being started.
const BESIDE: u64 = 64;

/// Raises the soft limit of open files if so many launchers need it. It is left alone otherwise, because some programs
/// close every descriptor below it when they start.
///
/// # Errors
///
/// If the hard limit is too low.
pub fn allow(launchers: usize) -> Result<(), LauncherError> {
    let needed = needed(launchers);
    let mut limit = getrlimit(Resource::Nofile);
    let allows = |most: Option<u64>| most.is_none_or(|most| most >= needed);
    if allows(limit.current) {
        return Ok(());
    }
    let most = limit.maximum;
    limit.current = Some(needed);
    if allows(most) && setrlimit(Resource::Nofile, limit).is_ok() {
        return Ok(());
    }
    let most = most.map_or_else(|| "fewer".into(), |most| most.to_string());
    Err(LauncherError::new(
        format!("{launchers} launchers need {needed} open files, and {most} are allowed"),
        format!(
            "allow more: ulimit -n {needed}; or name a launcher that starts all hosts with one command, such as slurm"
        ),
    ))
}

/// Open files of a process with so many launchers.
fn needed(launchers: usize) -> u64 {
    (launchers as u64)
        .saturating_mul(EACH)
        .saturating_add(BESIDE)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The limit is the process's own, and nextest gives each test a process.
    #[test]
    fn the_limit_is_raised_when_it_is_needed_and_refused_by_number_when_it_cannot_be() {
        let mut low = getrlimit(Resource::Nofile);
        let hard = low.maximum;
        low.current = Some(100);
        setrlimit(Resource::Nofile, low).unwrap();
        allow(2).unwrap();
        assert_eq!(
            getrlimit(Resource::Nofile).current,
            Some(100),
            "70 are enough"
        );
        if hard.is_none_or(|most| most >= 364) {
            allow(100).unwrap();
            assert_eq!(getrlimit(Resource::Nofile).current, Some(364));
        }
        if let Some(most) = hard {
            let e = allow(most as usize).unwrap_err();
            let needed = format!("ulimit -n {}", needed(most as usize));
            assert!(e.hint.contains(&needed), "{e:?}");
            assert!(e.message.contains(&format!("{most} are allowed")), "{e:?}");
        }
    }
}
