//! What is checked before a layer is measured: the facts of its mount, and the greeting of its probe.

use std::{path::Path, time::Duration};

use layermark_layers::{LayerError, Place, Wire};
use layermark_model::{
    Facts, SelfTest,
    protocol::{FromProbe, VERSION},
};

use crate::{
    Stop,
    execute::{
        layer_failure::LayerFailure,
        probe_client::{Broken, ProbeClient},
        remote_layer::Looks,
    },
};

/// Facts about the mount that the probe works on; an error when there are none.
pub(super) fn proof(place: &dyn Place, looks: &Looks) -> Result<Facts, LayerFailure> {
    let facts = place.facts()?;
    if facts.is_empty() {
        return Err(LayerFailure::new(
            "nothing proves what would be measured: its facts are empty",
        ));
    }
    let below = |at: &Path| {
        let dir = looks.real_dir(place.info());
        dir.is_some_and(|dir| dir.starts_with(at))
    };
    if let Some(mount) = facts.mounts.first().filter(|m| !below(&m.at)) {
        return Err(LayerFailure::new(format!(
            "the probe would work in {}, which is not on the mount {}",
            place.info().dir.display(),
            mount.at.display()
        )));
    }
    Ok(facts)
}

/// Waits for the `hello` of a probe that was started.
pub(crate) fn start(
    wire: Result<Wire, LayerError>,
    silence: Duration,
    stop: &Stop,
) -> Result<(ProbeClient, SelfTest), LayerFailure> {
    let mut probe = ProbeClient::new(wire?, silence);
    let said = |probe: &ProbeClient, e: Broken| LayerFailure {
        cut_off: e == Broken::CutOff,
        ..LayerFailure::new(format!("{e}{}", probe.last_words()))
    };
    match probe.receive(stop, None) {
        Ok(FromProbe::Hello {
            protocol: VERSION,
            self_test,
            ..
        }) => Ok((probe, self_test)),
        Ok(FromProbe::Hello {
            protocol, version, ..
        }) => Err(LayerFailure {
            hint: Some("install the same layermark on both sides".into()),
            ..LayerFailure::new(format!(
                "its probe (layermark {version}) speaks version {protocol} of the protocol, this one {VERSION}"
            ))
        }),
        Ok(FromProbe::Error {
            message,
            hint,
            errno,
            ..
        }) => Err(LayerFailure {
            hint,
            ..LayerFailure::of_probe(message, errno)
        }),
        Ok(_) => Err(said(
            &probe,
            Broken::OutOfTurn("it must say hello first".into()),
        )),
        Err(e) => Err(said(&probe, e)),
    }
}
