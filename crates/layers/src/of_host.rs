//! Which errors are this host's, whatever the layer is.

use std::io;

use layermark_sys::is_of_hosts;

use crate::loopdev;

/// Whether an error says nothing of the file or the layer: this host has no more descriptors, memory, processes or loop
/// devices.
pub fn is_of_host(e: &io::Error) -> bool {
    e.raw_os_error().is_some_and(is_of_hosts)
        || e.get_ref()
            .and_then(|inner| inner.downcast_ref::<loopdev::NoDevice>())
            .is_some()
}
