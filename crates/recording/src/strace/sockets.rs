//! Names of sockets.

use super::{
    lex::Ended,
    names::{EADDRINUSE, EEXIST, ENOENT},
    sequence::Sequence,
};
use crate::{Call, CallKind};

/// Permissions of a name that bind(2) makes, before the umask.
const MODE: i64 = 0o777;

/// Outcomes that mknod(2) has as well, and that of a name that is there: success, ENOENT, EACCES, ENOTDIR, EROFS,
/// ENAMETOOLONG, ELOOP.
const OF_NAMES: [i64; 8] = [0, ENOENT, -13, -20, -30, -36, -40, EADDRINUSE];

/// The name that a socket gets, in quotes.
pub(super) fn socket_name<'a>(e: &Ended<'a>) -> Option<&'a str> {
    // Abstract names (`@"name"`) are no files.
    let (_, rest) = e.arg(1).split_once("sun_path=")?;
    let end = rest.rfind('"')?;
    rest.starts_with('"').then(|| &rest[..=end])
}

impl Sequence {
    /// A socket that gets a name in the tree: others wait until it is there, such as clients of a server that starts.
    pub(super) fn binds(&mut self, id: u32, e: &Ended<'_>, outcome: i64) -> Result<(), String> {
        // Others are about the socket and not its name, such as EINVAL: it has one already.
        if !OF_NAMES.contains(&outcome) {
            return Ok(());
        }
        let Some(name) = socket_name(e) else {
            return Ok(());
        };
        let Some(place) = self.place(id, None, name, false) else {
            return Ok(());
        };
        let outcome = if outcome == EADDRINUSE {
            EEXIST
        } else {
            outcome.min(0)
        };
        if let Some(inferred) = &mut self.inferred {
            match outcome {
                EEXIST => inferred.found(&place.path, None),
                0 | ENOENT => inferred.absent(&place.path),
                _ => {}
            }
        }
        let call = Call {
            a: MODE,
            outcome,
            ..Call::new(CallKind::Mknod)
        };
        self.makes(id, &place, call)
    }
}
