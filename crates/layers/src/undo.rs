use std::io;

use crate::view;

type Step = (String, Box<dyn FnOnce() -> io::Result<()> + Send>);

/// Undo steps, run in reverse order. They run on drop.
#[derive(Default)]
pub struct Undo {
    steps: Vec<Step>,
}

impl Undo {
    /// Without any step.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a step; `what` is shown when it fails.
    pub fn push(
        &mut self,
        what: impl Into<String>,
        step: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) {
        self.steps.push((what.into(), Box::new(step)));
    }

    /// Runs all steps now. A step that fails is reported on standard error and the others still
    /// run. Returns the number of failures.
    pub fn run(&mut self) -> usize {
        let mut failed = 0;
        while let Some((what, step)) = self.steps.pop() {
            // A panic in one step must not prevent the unmounts of the others.
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(step));
            match outcome {
                Ok(Ok(())) => {}
                Ok(Err(e)) => {
                    view::tell(format!("could not undo: {what}: {e}"));
                    failed += 1;
                }
                Err(_) => {
                    view::tell(format!("could not undo: {what}: panicked"));
                    failed += 1;
                }
            }
        }
        failed
    }
}

impl Undo {
    /// Drops the steps without running them, for when they would never end. Mounts end with their
    /// namespace, and the janitor removes the directories it knows.
    pub fn leave(&mut self) {
        while let Some(step) = self.steps.pop() {
            drop(step);
        }
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        self.run();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn runs_backwards_and_goes_on_after_a_failure_and_a_panic() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let mut undo = Undo::new();
        for n in 0..4 {
            let seen = seen.clone();
            undo.push(format!("step {n}"), move || {
                seen.lock().unwrap().push(n);
                match n {
                    1 => Err(io::Error::other("no")),
                    2 => panic!("step {n}"),
                    _ => Ok(()),
                }
            });
        }
        assert_eq!(undo.run(), 2);
        drop(undo);
        assert_eq!(*seen.lock().unwrap(), [3, 2, 1, 0]);
    }
}
