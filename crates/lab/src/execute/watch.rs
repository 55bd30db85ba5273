//! Limits how long the lab waits: the processes that serve a layer are ended when a call into the
//! layer does not return.

use std::{
    os::fd::OwnedFd,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread,
    time::Duration,
};

use crate::execute::layer_failure::LayerFailure;
use layermark_probe::motion::{Motion, Who};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Longest interval between two checks.
const TICK: Duration = Duration::from_millis(500);

/// A thread that watches the calls of another one.
pub(crate) struct Watch {
    call: Arc<Mutex<Option<Call>>>,
    /// Ends the thread when dropped.
    _end: Sender<()>,
}

/// A call in progress.
struct Call {
    helpers: Vec<OwnedFd>,
    motion: Motion,
    quiet: Duration,
    ended: bool,
}

/// Ends the watch over a call when dropped.
pub(crate) struct Watching(Arc<Mutex<Option<Call>>>);

fn lock(call: &Mutex<Option<Call>>) -> MutexGuard<'_, Option<Call>> {
    call.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watch {
    /// A call, and its layer's helpers, may make no progress for this long.
    pub(crate) fn new(silence: Duration) -> Self {
        let call = Arc::default();
        let (end, ended) = channel();
        let looked_at = Arc::clone(&call);
        // If no thread can be started, calls are not watched.
        let _ = thread::Builder::new()
            .name("watch".into())
            .spawn(move || look(&looked_at, silence, &ended));
        Self { call, _end: end }
    }

    /// Watches what this thread does from now on with a layer that these processes serve.
    pub(crate) fn over(&self, helpers: &[u32]) -> Watching {
        let open = |pid: &u32| {
            let pid = Pid::from_raw(i32::try_from(*pid).ok()?)?;
            pidfd_open(pid, PidfdFlags::empty()).ok()
        };
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        let call = Call {
            helpers: helpers.iter().filter_map(open).collect(),
            motion: Motion::of(Who::These(helpers.to_vec(), thread)),
            quiet: Duration::ZERO,
            ended: false,
        };
        *lock(&self.call) = (!call.helpers.is_empty()).then_some(call);
        Watching(Arc::clone(&self.call))
    }
}

impl Watching {
    /// How long there was no progress, if the helpers were ended because of it.
    fn ended_after(&self) -> Option<Duration> {
        let call = lock(&self.0);
        let call = call.as_ref().filter(|call| call.ended)?;
        Some(call.quiet)
    }

    /// Outcome of the call, now that it has returned: an error if its helpers were ended.
    pub(crate) fn judge<T>(&self, outcome: Result<T, LayerFailure>) -> Result<T, LayerFailure> {
        match self.ended_after() {
            None => outcome,
            Some(quiet) => Err(LayerFailure::new(format!(
                "it did not answer for {quiet:?}, and what serves it was ended"
            ))),
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        *lock(&self.0) = None;
    }
}

fn look(call: &Mutex<Option<Call>>, silence: Duration, ended: &Receiver<()>) {
    let tick = TICK.min(silence / 4);
    while ended.recv_timeout(tick) == Err(RecvTimeoutError::Timeout) {
        let mut call = lock(call);
        let Some(call) = call.as_mut().filter(|call| !call.ended) else {
            continue;
        };
        // Counted in ticks and not by the clock, because the helpers also stand still when the
        // whole machine does.
        call.quiet = if call.motion.is_seen() {
            Duration::ZERO
        } else {
            call.quiet + tick
        };
        if call.quiet >= silence {
            call.ended = true;
            for helper in &call.helpers {
                // It may have ended by itself.
                let _ = pidfd_send_signal(helper, Signal::KILL);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn who_serves_a_call_that_does_not_come_back_is_ended() {
        let watch = Watch::new(Duration::from_millis(400));
        let mut helper = Command::new("sleep").arg("1d").spawn().unwrap();
        let watching = watch.over(&[helper.id()]);
        // The call waits for the helper, which would sleep for longer than any test, and neither makes progress.
        helper.wait().unwrap();
        let lost = watching.judge(Ok(())).unwrap_err();
        assert!(lost.reason.contains("did not answer for 400ms"), "{lost:?}");
    }

    #[test]
    fn who_works_or_is_not_called_is_left_alone() {
        let watch = Watch::new(Duration::from_millis(400));
        let mut helper = Command::new("sleep").arg("600").spawn().unwrap();
        let watching = watch.over(&[helper.id()]);
        for _ in 0..150 {
            thread::sleep(Duration::from_millis(10));
        }
        watching.judge(Ok(())).unwrap();
        drop(watching);
        thread::sleep(Duration::from_millis(1500));
        assert!(helper.try_wait().unwrap().is_none());
        helper.kill().unwrap();
        helper.wait().unwrap();
    }
}
