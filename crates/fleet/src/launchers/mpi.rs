//! MPI: one `mpirun` for each host, because it brings its standard input to one rank only.

use super::{Asked, Launcher, LauncherError, StartCommand, one_each};
use crate::hosts::HostsAsked;

pub(super) const MPI: Launcher = Launcher {
    id: "mpi",
    about: "mpirun, once for each host; its options may follow",
    copies: false,
    commands,
};

fn commands(asked: &Asked) -> Result<Vec<StartCommand>, LauncherError> {
    let HostsAsked::Names(names) = &asked.hosts else {
        return Err(LauncherError::new(
            "mpi: the names of the hosts are not known",
            "name them: --hosts n1,n2,n3 or --hosts n[1-3]",
        ));
    };
    Ok(one_each(names, &asked.exe, |host| {
        let fixed = ["mpirun", "-np", "1", "--host", host].map(str::to_owned);
        let words = fixed.into_iter().chain(asked.words.iter().cloned());
        words.map(Into::into).collect()
    }))
}
