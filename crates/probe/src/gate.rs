use std::sync::{Condvar, Mutex, PoisonError};

/// Where threads wait for each other before the clock. Unlike a barrier it can be given up: when
/// the last of many threads cannot be made, those that wait must not wait for ever.
#[derive(Default)]
pub struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    arrived: usize,
    /// Go, or go home.
    decision: Option<bool>,
}

impl Gate {
    /// Waits at the gate; `true` is go.
    pub fn wait(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.arrived += 1;
        self.changed.notify_all();
        loop {
            if let Some(go) = state.decision {
                return go;
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until `count` threads are there and lets them go together.
    pub fn open(&self, count: usize) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.arrived < count {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.decision = Some(true);
        self.changed.notify_all();
    }

    /// Sends them home.
    pub fn give_up(&self) {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .decision = Some(false);
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::Gate;
    use std::thread;

    #[test]
    fn opens_for_all_or_for_none() {
        for go in [true, false] {
            let gate = Gate::default();
            let went: Vec<bool> = thread::scope(|scope| {
                let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| gate.wait())).collect();
                if go {
                    gate.open(4);
                } else {
                    gate.give_up();
                }
                threads.into_iter().map(|t| t.join().unwrap()).collect()
            });
            assert_eq!(went, [go; 4]);
        }
    }
}
