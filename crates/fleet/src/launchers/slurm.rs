//! Slurm: one `srun` starts all tasks, brings its standard input to each, and labels the lines that come back.
//!
//! Inside an allocation it runs there; otherwise `srun` makes one, and queues for it.

use super::{Asked, Launcher, LauncherError, StartCommand, TASK};
use crate::{copied, hosts::HostsAsked};

pub(super) const SLURM: Launcher = Launcher {
    id: "slurm",
    about: "srun, inside an allocation or making one; its options may follow",
    copies: true,
    commands,
};

fn commands(asked: &Asked) -> Result<Vec<StartCommand>, LauncherError> {
    let (count, names) = match &asked.hosts {
        HostsAsked::Count(count) => (*count, None),
        HostsAsked::Names(names) => {
            let mut sorted = names.clone();
            sorted.sort();
            if let Some([twice, _]) = sorted.array_windows().find(|[a, b]| a == b) {
                let text = format!("slurm: the host {twice} is named twice");
                return Err(LauncherError::new(text, "name each node once: one task runs on each"));
            }
            (names.len() as u32, Some(names.join(",")))
        }
        HostsAsked::Unsaid => (
            asked.allocated.ok_or_else(|| {
                LauncherError::new(
                    "slurm: the number of nodes is not known outside an allocation",
                    "say how many, or which: --hosts 3 or --hosts n[1-3]; all of them: sinfo -h -o %N",
                )
            })?,
            None,
        ),
    };
    let fixed = [
        "srun".to_owned(),
        "--label".into(),
        format!("--nodes={count}"),
        format!("--ntasks={count}"),
        "--ntasks-per-node=1".into(),
        // A lost host is a result: the others go on, also when its node fails.
        "--no-kill".into(),
        "--kill-on-bad-exit=0".into(),
        "--wait=0".into(),
        "--mpi=none".into(),
    ];
    let names = names.map(|names| format!("--nodelist={names}"));
    let copy = asked.sbcast.as_deref().map(copied::path_in);
    let copy = copy.map(|path| format!("--bcast={path}"));
    let words = fixed
        .into_iter()
        .chain(names)
        .chain(copy)
        .chain(asked.words.iter().cloned());
    let mut words: Vec<std::ffi::OsString> = words.map(Into::into).collect();
    words.extend([asked.exe.clone().into(), TASK.into()]);
    words.extend(asked.sbcast.as_ref().map(|_| copied::COPIED.into()));
    Ok(vec![StartCommand {
        words,
        tasks: (0..count).map(|task| (task, None)).collect(),
    }])
}
