//! A command of the user's: with `{host}` it is started once for each host; without, it starts all tasks, brings its
//! standard input to each, and passes their lines on.

use super::{Asked, Launcher, LauncherError, StartCommand, TASK, one_each};
use crate::{hosts::HostsAsked, protocol::with_host};

pub(super) const COMMAND: Launcher = Launcher {
    id: "command",
    about: "any command: with {host} one for each host, such as 'ssh {host}'; without, one that starts all tasks",
    copies: false,
    commands,
};

fn commands(asked: &Asked) -> Result<Vec<StartCommand>, LauncherError> {
    let each = asked.words.iter().any(|word| word.contains("{host}"));
    let line = shell_words::join(&asked.words);
    match (&asked.hosts, each) {
        (HostsAsked::Names(names), true) => Ok(one_each(names, &asked.exe, |host| {
            let words = asked.words.iter();
            words.map(|word| with_host(word, host).into()).collect()
        })),
        (HostsAsked::Count(count), false) => {
            let words = asked.words.iter().map(Into::into);
            let task = [asked.exe.clone().into(), TASK.into()];
            Ok(vec![StartCommand {
                words: words.chain(task).collect(),
                tasks: (0..*count).map(|task| (task, None)).collect(),
            }])
        }
        (HostsAsked::Names(_), false) => Err(LauncherError::new(
            format!("`{line}` does not say where a host's name belongs"),
            "write {host} there, or give their number, if the command starts all: --hosts 3",
        )),
        (HostsAsked::Unsaid, _) => Err(LauncherError::new(
            format!("`{line}`: the hosts are not known"),
            "name them: --hosts n1,n2,n3",
        )),
        (HostsAsked::Count(_), true) => Err(LauncherError::new(
            format!("`{line}` needs the names of the hosts"),
            "name them: --hosts n1,n2,n3",
        )),
    }
}
