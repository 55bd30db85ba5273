//! Launchers: engines that start the tasks and carry their standard input and output. What they place, end and clean
//! up, nothing of ours does again.
//!
//! To add one, write `NAME.rs` and add its line to [`ALL`].

use std::{ffi::OsString, path::PathBuf};

use crate::hosts::HostsAsked;

mod command;
mod mpi;
mod slurm;

/// A launcher.
pub struct Launcher {
    /// Its name on the command line.
    pub id: &'static str,
    /// What it is, in a few words.
    pub about: &'static str,
    /// Whether it copies layermark to the hosts, if that is asked for.
    pub copies: bool,
    /// How commands are made.
    commands: fn(&Asked) -> Result<Vec<StartCommand>, LauncherError>,
}

/// Every launcher with a name. Any other first word is the command of [`COMMAND`].
pub const ALL: &[&Launcher] = &[&slurm::SLURM, &mpi::MPI];

/// The launcher without a name: a command of the user's.
pub const COMMAND: &Launcher = &command::COMMAND;

/// What was asked of a launcher.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Words after its name: its own options, or the user's command.
    pub words: Vec<String>,
    /// The hosts.
    pub hosts: HostsAsked,
    /// layermark on the hosts.
    pub exe: PathBuf,
    /// Directory of each host to which it is to be copied first.
    pub sbcast: Option<String>,
    /// Number of nodes of the allocation in which this process is, if there is one.
    pub allocated: Option<u32>,
}

/// A command to be started here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartCommand {
    /// Its words. No shell reads them.
    pub words: Vec<OsString>,
    /// Tasks that it starts, with their names where they are known.
    pub tasks: Vec<(u32, Option<String>)>,
}

/// A launcher that cannot be used so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct LauncherError {
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

impl LauncherError {
    pub(crate) fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: hint.into(),
        }
    }
}

/// Name of the internal command that a launcher starts.
pub const TASK: &str = "fleet-task";

/// The launcher that a text names, and the words after its name.
///
/// # Errors
///
/// If the text has an open quote or is empty.
pub fn find(text: &str) -> Result<(&'static Launcher, Vec<String>), LauncherError> {
    let bad = |why: &str| {
        let known: Vec<&str> = ALL.iter().map(|l| l.id).collect();
        let hint = format!(
            "name {} or a command with {{host}}, such as 'ssh {{host}}'",
            known.join(", ")
        );
        LauncherError::new(format!("--launcher: {why}"), hint)
    };
    let words = shell_words::split(text).map_err(|_| bad("it has a quote that is not closed"))?;
    let Some(first) = words.first() else {
        return Err(bad("it is empty"));
    };
    Ok(match ALL.iter().find(|l| l.id == first) {
        Some(launcher) => (launcher, words[1..].to_vec()),
        None => (COMMAND, words),
    })
}

impl Launcher {
    /// The commands that start the tasks.
    ///
    /// # Errors
    ///
    /// If the hosts, or the words, are not such as it takes.
    pub fn commands(&self, asked: &Asked) -> Result<Vec<StartCommand>, LauncherError> {
        if asked.sbcast.is_some() && !self.copies {
            let can: Vec<&str> = ALL.iter().filter(|l| l.copies).map(|l| l.id).collect();
            let text = format!("--sbcast: only --launcher {} copies files", can.join(", "));
            let hint = "copy layermark there, and name its path: --exe FILE";
            return Err(LauncherError::new(text, hint));
        }
        (self.commands)(asked)
    }
}

/// One command for each named host. `words` get the host's name.
fn one_each(
    names: &[String],
    exe: &std::path::Path,
    words: impl Fn(&str) -> Vec<OsString>,
) -> Vec<StartCommand> {
    let unique = crate::hosts::each_once(names.to_vec());
    let each = names.iter().zip(unique).zip(0..);
    each.map(|((host, name), number): ((&String, String), u32)| {
        let mut words = words(host);
        words.push(exe.into());
        words.extend([TASK.into(), number.to_string().into(), name.clone().into()]);
        StartCommand {
            words,
            tasks: vec![(number, Some(name))],
        }
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copied::COPIED;

    fn asked(words: &[&str], hosts: &str) -> Asked {
        Asked {
            words: words.iter().map(|w| (*w).to_owned()).collect(),
            hosts: if hosts.is_empty() {
                HostsAsked::Unsaid
            } else {
                HostsAsked::read(hosts).unwrap()
            },
            exe: "/opt/layermark".into(),
            sbcast: None,
            allocated: None,
        }
    }

    fn lines(of: &str, hosts: &str) -> Result<Vec<String>, LauncherError> {
        let (launcher, words) = find(of)?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let commands = launcher.commands(&asked(&words, hosts))?;
        let line = |c: &StartCommand| {
            let words = c.words.iter().map(|w| w.to_string_lossy().into_owned());
            words.collect::<Vec<_>>().join(" ")
        };
        Ok(commands.iter().map(line).collect())
    }

    #[test]
    fn slurm_starts_all_tasks_with_one_command() {
        let with_names = lines("slurm -p debug", "n[1-2]").unwrap();
        assert_eq!(
            with_names,
            [
                "srun --label --nodes=2 --ntasks=2 --ntasks-per-node=1 --no-kill --kill-on-bad-exit=0 --wait=0 --mpi=none --nodelist=n1,n2 -p debug /opt/layermark fleet-task"
            ]
        );
        let counted = lines("slurm", "3").unwrap();
        assert!(counted[0].contains("--nodes=3") && !counted[0].contains("nodelist"));
        let mut inside = asked(&[], "");
        inside.allocated = Some(4);
        let commands = slurm::SLURM.commands(&inside).unwrap();
        assert_eq!(commands[0].tasks.len(), 4);
        assert!(lines("slurm", "").unwrap_err().hint.contains("--hosts"));
        assert!(lines("slurm", "a,a").unwrap_err().message.contains("twice"));
    }

    #[test]
    fn slurm_copies_layermark_where_it_is_asked_to() {
        let with = |launcher: &Launcher, hosts: &str| {
            launcher.commands(&Asked {
                sbcast: Some("/tmp/".into()),
                ..asked(&["-p", "debug"], hosts)
            })
        };
        let copies = || with(&slurm::SLURM, "3").unwrap().remove(0).words;
        let of = |words: &[OsString]| {
            let words = words.iter().map(|word| word.to_string_lossy());
            let found = words.filter(|word| word.starts_with("--bcast=/tmp/layermark-copy-"));
            found.map(String::from).collect::<Vec<_>>()
        };
        let words = copies();
        assert_eq!(of(&words).len(), 1, "{words:?}");
        assert_ne!(of(&words), of(&copies()));
        let task = ["/opt/layermark", TASK, COPIED];
        assert_eq!(words[words.len() - 3..], task);
        let e = with(&mpi::MPI, "a,b").unwrap_err();
        assert!(e.message.contains("only --launcher slurm"), "{e}");
    }

    #[test]
    fn mpi_and_a_command_start_one_task_a_command() {
        let mpi = lines("mpi --allow-run-as-root", "a,b").unwrap();
        assert_eq!(
            mpi,
            [
                "mpirun -np 1 --host a --allow-run-as-root /opt/layermark fleet-task 0 a",
                "mpirun -np 1 --host b --allow-run-as-root /opt/layermark fleet-task 1 b"
            ]
        );
        let ssh = lines("ssh -o BatchMode=yes {host}", "a,b,a").unwrap();
        assert_eq!(
            ssh[2],
            "ssh -o BatchMode=yes a /opt/layermark fleet-task 2 a#2"
        );
        let many = lines("flux run -N3 --label-io", "3").unwrap();
        assert_eq!(many, ["flux run -N3 --label-io /opt/layermark fleet-task"]);
        for (launcher, hosts, says) in [
            ("mpi", "3", "names"),
            ("ssh {host}", "", "--hosts"),
            ("ssh {host}", "3", "names"),
            ("pdsh -w x", "a,b", "{host}"),
            ("'x", "a", "name"),
            ("", "a", "name"),
        ] {
            let e = lines(launcher, hosts).unwrap_err();
            let text = format!("{} {}", e.message, e.hint);
            assert!(text.contains(says), "{launcher}: {text}");
        }
    }

    /// The list has every file beside it.
    #[test]
    fn every_launcher_is_in_the_list() {
        let here = concat!(env!("CARGO_MANIFEST_DIR"), "/src/launchers");
        let names = std::fs::read_dir(here).unwrap().map(|f| {
            let name = f.unwrap().file_name().into_string().unwrap();
            name.trim_end_matches(".rs").to_owned()
        });
        let mut names: Vec<String> = names.filter(|n| n != "mod").collect();
        names.sort();
        let mut listed: Vec<&str> = ALL.iter().map(|l| l.id).chain([COMMAND.id]).collect();
        listed.sort_unstable();
        assert_eq!(
            names, listed,
            "add the file's line to ALL in launchers/mod.rs"
        );
    }
}
