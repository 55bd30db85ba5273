//! Networks of a run: namespaces, the devices that join them, and the check that they work.

use std::net::Ipv4Addr;

use layermark_model::Spec;

use crate::{LayerError, options::bad};

pub(crate) mod card_facts;
pub(crate) mod device;
pub(crate) mod echo;
pub(crate) mod lan;
pub(crate) mod link;
mod netlink;
pub(crate) mod relay;
pub(crate) mod shape;
pub(crate) mod space;
mod switch;

/// This host's address in every network.
pub(crate) const HOST: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);

/// Puts a layer into the network of this name, unless it names another itself.
pub(crate) fn join(spec: &mut Spec, switch: &str) {
    let named = spec.options.entry("switch".into()).or_default();
    if named.is_empty() || named == "none" {
        switch.clone_into(named);
    }
}

/// Refuses a value of the option `switch` that is not a name.
pub(crate) fn check_switch_name(spec: &Spec, name: &str) -> Result<(), LayerError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if (1..=32).contains(&name.len()) && name.chars().all(plain) {
        return Ok(());
    }
    let must = "is not a name of at most 32 letters, digits, - and _";
    Err(bad(spec, "switch", name, must.into()))
}
