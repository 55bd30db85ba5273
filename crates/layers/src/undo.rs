use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use crate::{Control, known_paths, served};

type Step = (String, Box<dyn FnOnce() -> io::Result<()> + Send>);

/// How long a server may take to end by itself after it was unmounted, with what it still has to store.
const GRACE: Duration = Duration::from_secs(5);

/// Undo steps, run in reverse order. They run on drop.
#[derive(Default)]
pub struct Undo {
    steps: Vec<Step>,
    /// How long a server may take to end by itself.
    grace: Duration,
    /// Servers that did not.
    killed: Arc<Mutex<Vec<String>>>,
}

impl Undo {
    /// Without any step.
    pub fn new() -> Self {
        Self::default()
    }

    /// Without any step. Servers get time to store what they have, and to end by themselves: what they leave is
    /// looked at.
    pub fn patient() -> Self {
        Self {
            steps: Vec::new(),
            grace: GRACE,
            killed: Arc::default(),
        }
    }

    /// Adds a step; `what` is shown when it fails.
    pub fn push(
        &mut self,
        what: impl Into<String>,
        step: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) {
        self.steps.push((what.into(), Box::new(step)));
    }

    /// Adds a step that ends a server, which later steps have unmounted.
    pub(crate) fn push_server(
        &mut self,
        program: impl Into<String>,
        mut server: impl Control + 'static,
    ) {
        let program = program.into();
        let (grace, killed) = (self.grace, Arc::clone(&self.killed));
        self.push(format!("end {program}"), move || {
            if server.wait(served::patience(grace)).is_none() {
                let mut killed = killed.lock().unwrap_or_else(PoisonError::into_inner);
                killed.push(program);
            }
            drop(server);
            Ok(())
        });
    }

    /// The first server that did not end by itself when the steps ran.
    pub fn killed(&self) -> Option<String> {
        let killed = self.killed.lock().unwrap_or_else(PoisonError::into_inner);
        killed.first().cloned()
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
                    known_paths::tell(format!("could not undo: {what}: {e}"));
                    failed += 1;
                }
                Err(_) => {
                    known_paths::tell(format!("could not undo: {what}: panicked"));
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
    use super::*;

    /// A server that ends by itself in this time.
    struct Server(Duration);

    impl Control for Server {
        fn pid(&self) -> Option<u32> {
            None
        }

        fn kill(&mut self) {}

        fn wait(&mut self, limit: Duration) -> Option<String> {
            (self.0 <= limit).then(|| "exit code 0".into())
        }

        fn tail(&self) -> Vec<String> {
            Vec::new()
        }
    }

    /// rclone was killed at once after the unmount, with what it still had to store.
    #[test]
    fn a_server_gets_time_to_end_where_what_it_leaves_is_looked_at() {
        let second = Duration::from_secs(1);
        let killed = |mut undo: Undo, takes| {
            undo.push_server("rclone", Server(takes));
            assert_eq!(undo.killed(), None, "it still runs");
            assert_eq!(undo.run(), 0);
            undo.killed()
        };
        assert_eq!(killed(Undo::patient(), second), None);
        let never = killed(Undo::patient(), Duration::MAX);
        assert_eq!(never.as_deref(), Some("rclone"));
        let at_once = killed(Undo::new(), second);
        assert_eq!(at_once.as_deref(), Some("rclone"));
    }

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
