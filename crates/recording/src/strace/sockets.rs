//! Names of sockets.

use super::{
    lex::Ended,
    names::{EADDRINUSE, EEXIST},
    sequence::{Sequence, Use},
};
use crate::{Call, CallKind};

/// Permissions of a name that bind(2) makes, before the umask.
const MODE: i64 = 0o777;

impl Sequence {
    /// A socket that gets a name in the tree: others wait until it is there, such as clients of a server that starts.
    pub(super) fn binds(&mut self, id: u32, e: &Ended<'_>, outcome: i64) -> Result<(), String> {
        // Abstract names (`@"name"`) are no files.
        let Some((_, rest)) = e.arg(1).split_once("sun_path=\"") else {
            return Ok(());
        };
        let end = rest.rfind('"').unwrap_or(rest.len());
        let Some(place) = self.place(id, None, &format!("\"{}\"", &rest[..end]), false) else {
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
                _ => inferred.absent(&place.path),
            }
        }
        let how = if outcome == 0 {
            Use::Exclusive
        } else {
            Use::Reads
        };
        let shared = self.of_name(&place.path, how);
        let call = Call {
            dir: place.dir,
            path: Some(self.name(&place.name)),
            a: MODE,
            outcome,
            ..Call::new(CallKind::Mknod)
        };
        self.emit(id, call, &shared)
    }
}
