//! Ready when the program has ended.

use std::os::fd::BorrowedFd;

use super::{Ready, ReadyEvent, ReadyKind, Scene};
use crate::ProbeError;

/// `exit`
pub struct Exit;

impl ReadyKind for Exit {
    fn id(&self) -> &'static str {
        "exit"
    }
    fn value(&self) -> &'static str {
        ""
    }
    fn arm(&self, _: &str, _: &mut Scene<'_>) -> Result<Box<dyn Ready>, ProbeError> {
        Ok(Box::new(Ends))
    }
}

/// The end of the program is checked for every condition; here it is the only one.
struct Ends;

impl Ready for Ends {
    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }
    fn look(&mut self) -> Result<Option<ReadyEvent>, ProbeError> {
        Ok(None)
    }
    fn is_exit(&self) -> bool {
        true
    }
}
