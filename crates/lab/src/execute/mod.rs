//! Running layers and their trials: what [`decide`](crate::decide) has chosen is carried out here.

pub(crate) mod background;
pub(crate) mod block;
pub(crate) mod cpu;
pub(crate) mod drive;
pub(crate) mod go_on;
pub(crate) mod layer_failure;
pub(crate) mod leave_out;
mod limits;
pub(crate) mod others;
pub(crate) mod path;
pub(crate) mod pin;
pub(crate) mod placement;
pub(crate) mod probe_client;
pub(crate) mod rehearse;
pub(crate) mod remote_layer;
pub(crate) mod restart;
pub(crate) mod rested;
pub(crate) mod rounds;
pub(crate) mod session;
mod sustain;
pub(crate) mod talk;
pub(crate) mod trial;
pub(crate) mod trial_request;
pub(crate) mod turn;
pub(crate) mod watch;
