//! The agent: layermark's own process inside a place that this host cannot work in, such as a virtual machine
//! or a container. It starts the probe there, passes its three streams on, and answers questions about the
//! place.

pub(crate) mod client;
pub(crate) mod files;
mod packaged;
mod probe;
pub(crate) mod protocol;

pub(crate) use packaged::Packaged;
pub(crate) use probe::{Port, Probe};
