//! Jobs: what a probe is asked to prepare.

use layermark_model::{
    Point,
    protocol::{FromProbe, Job, JobCpus, Peer, ToProbe},
    random,
};

use crate::{
    cpus,
    execute::{
        session::{End, RunningLayer},
        talk::{hear, hear_from, say, say_to, unexpected},
        trial_request::{Failure, TrialRequest},
    },
};

/// Makes the far end listen for the near one. Returns its address.
pub(super) fn serve(up: &mut RunningLayer, request: &TrialRequest<'_>) -> Result<Peer, Failure> {
    let address = up
        .far_address()
        .ok_or_else(|| Failure::Broken("it was set up for work with one end".into()))?;
    let mut peer = Peer {
        address,
        port: 0,
        // For this trial's far end only: a later owner of the port learns nothing of use.
        secret: format!("{:016x}{:016x}", random(), random()),
    };
    let job = Job {
        peer: Some(peer.clone()),
        ..job(up, request, &request.point, End::Far)?
    };
    say_to(up, request, End::Far, &ToProbe::Serve(Box::new(job)))?;
    match hear_from(up, request, End::Far)? {
        FromProbe::Serving { id, port } if id == request.id => peer.port = port,
        other => return Err(unexpected(&other, "serving")),
    }
    Ok(peer)
}

/// Makes the probe prepare a point.
pub(super) fn send_job(
    up: &mut RunningLayer,
    request: &TrialRequest<'_>,
    point: &Point,
    peer: Option<Peer>,
) -> Result<(), Failure> {
    let job = Job {
        peer,
        ..job(up, request, point, request.end())?
    };
    say(up, request, &ToProbe::Job(Box::new(job)))
}

/// Waits until the probe is ready.
pub(super) fn ready(up: &mut RunningLayer, request: &TrialRequest<'_>) -> Result<(), Failure> {
    match hear(up, request)? {
        FromProbe::Ready { id } if id == request.id => Ok(()),
        other => Err(unexpected(&other, "ready")),
    }
}

/// The job for the probe at this end.
fn job(
    up: &RunningLayer,
    request: &TrialRequest<'_>,
    point: &Point,
    end: End,
) -> Result<Job, Failure> {
    let no_side = || Failure::work("this host has its files in no second directory");
    let physical = up.physical();
    let guest = up.facts.guest.as_ref().filter(|_| !up.info().is_here(end));
    // A layer without a device below has nothing to write back, and a guest cannot see the host's
    // devices.
    let below = if physical.is_empty() || !up.info().is_here(end) {
        Vec::new()
    } else {
        vec![request.base.clone()]
    };
    Ok(Job {
        id: request.id,
        dir: up.dir(end, request.point.needs.near).ok_or_else(no_side)?,
        point: point.clone(),
        seed: request.seed,
        min_ms: request.least.ms,
        min_ops: request.least.ops,
        devices: guest.map_or(physical, |guest| {
            let disks = guest.devices.iter().filter(|d| d.physical);
            disks.map(|d| d.number.clone()).collect()
        }),
        below,
        cpus: cpus_of(up, request.cpus, end),
        peer: None,
        env: request.env.clone(),
    })
}

/// CPUs of the probe at this end. A near end on this host that drives a layer is not limited.
fn cpus_of(up: &RunningLayer, asked: Option<u32>, end: End) -> Option<JobCpus> {
    if end == End::Near && up.info().near.is_none() {
        return None;
    }
    if up.info().owns_kernel(end) {
        return Some(JobCpus::Online(asked));
    }
    asked.map(|count| JobCpus::Kept(cpus::at_hand(count)))
}
