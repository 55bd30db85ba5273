//! Where the journal of directories that runs have made is kept (`layermark_layers::janitor`).

use std::os::fd::OwnedFd;

use layermark_fd::open_dir;
use rustix::{
    fs::{Mode, fstat, mkdirat},
    io::Errno,
    process::geteuid,
};

use super::written;

/// Its name in the user's data directory.
const NAME: &str = "directories";

/// Opens it; `None` where there is no data directory, or another user could write to it.
pub fn open() -> Option<OwnedFd> {
    let data = written::directory(true).ok()?;
    match mkdirat(&data.fd, NAME, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(_) => return None,
    }
    let dir = open_dir(&data.fd, NAME).ok()?;
    let stat = fstat(&dir).ok()?;
    let is_ours = stat.st_uid == geteuid().as_raw() && stat.st_mode & 0o022 == 0;
    is_ours.then_some(dir)
}
