//! Keeps what a fleet measures: in the store, and in memory while the store takes nothing.

use std::{
    collections::BTreeMap,
    thread,
    time::{Duration, Instant},
};

use layermark_lab::Stop;
use layermark_model::{FleetOfRun, Run, StoreOption, TrialRecord};
use layermark_store::{Store, StoreError};
use shell_words::quote;

use crate::{failure::Failure, say::say};

/// Time between two attempts at the end of a run.
const PAUSE: Duration = Duration::from_millis(500);
/// Most trials of one commit.
const AT_ONCE: usize = 1000;

/// What was measured and is not stored yet, by run. A database may be gone for a while: the hosts go on.
pub struct Keeper<'a> {
    store: &'a mut Store,
    /// Whether the run is resumed, and so is in the store already.
    goes_on: bool,
    /// The flags with which a fleet's run can be resumed.
    flags: String,
    trials: BTreeMap<String, Vec<TrialRecord>>,
    /// The newest state of a run.
    states: BTreeMap<String, Run>,
    /// Whether the last attempt failed.
    fails: bool,
}

impl<'a> Keeper<'a> {
    /// Of new runs, or of one that is resumed.
    pub fn new(store: &'a mut Store, goes_on: bool) -> Self {
        Self {
            store,
            goes_on,
            flags: String::new(),
            trials: BTreeMap::new(),
            states: BTreeMap::new(),
            fails: false,
        }
    }

    /// Stores a run before anything is measured. A store that takes nothing then is an error.
    pub fn begin(&mut self, run: &Run) -> Result<(), StoreError> {
        if let Some(fleet) = &run.fleet {
            self.flags = flags_again(&run.dir, fleet, &self.store.option());
        }
        if self.goes_on {
            self.store.update_with_layers(run)?;
            self.store.add_hosts(run);
            Ok(())
        } else {
            self.store.begin(run)
        }
    }

    /// Stores trials of a run.
    pub fn trials(&mut self, run: &str, records: &[TrialRecord]) {
        let of = self.trials.entry(run.to_owned()).or_default();
        of.extend_from_slice(records);
        self.store_or_warn();
    }

    /// Stores the state of a run, after the trials before it.
    pub fn state(&mut self, run: &Run) {
        self.states.insert(run.id.clone(), run.clone());
        self.store_or_warn();
    }

    /// Stores what is left. Waits for a store that takes nothing for as long as that waits for its server.
    ///
    /// # Errors
    ///
    /// If it takes nothing for so long.
    pub fn end(&mut self, stop: &Stop) -> Result<(), Failure> {
        let (begun, wait) = (Instant::now(), self.store.patience());
        loop {
            let Err(e) = self.all() else {
                return Ok(());
            };
            if begun.elapsed() >= wait || stop.at_once() {
                let lost = self.unstored();
                let hint = e.hint_to_go_on(&format!("layermark fleet run {} --resume", self.flags));
                let failure = Failure::from(e);
                return Err(Failure {
                    message: format!("{}: {lost} trials are not stored", failure.message),
                    hint,
                    ..failure
                });
            }
            thread::sleep(PAUSE);
        }
    }

    fn store_or_warn(&mut self) {
        match self.all() {
            Ok(()) if self.fails => {
                self.fails = false;
                say("the store takes trials again: nothing was lost");
            }
            Ok(()) => {}
            Err(_) if self.fails => {}
            Err(e) => {
                self.fails = true;
                say(format!(
                    "warning: {e}: trials are kept in memory until it takes them"
                ));
            }
        }
    }

    /// Number of trials that are not stored.
    fn unstored(&self) -> usize {
        self.trials.values().map(Vec::len).sum()
    }

    /// Stores what the store takes: a run that it refuses keeps no other one out.
    ///
    /// # Errors
    ///
    /// The last one.
    fn all(&mut self) -> Result<(), StoreError> {
        let mut outcome = Ok(());
        let store = &mut *self.store;
        // It has been waited for, once is enough.
        let is_gone = |outcome: &Result<(), StoreError>| {
            matches!(
                outcome,
                Err(StoreError::Lost { .. } | StoreError::Unreachable { .. })
            )
        };
        self.trials.retain(|run, trials| {
            while !trials.is_empty() {
                if is_gone(&outcome) {
                    return true;
                }
                let some = trials.len().min(AT_ONCE);
                if let Err(e) = store.trials(run, &trials[..some]) {
                    outcome = Err(e);
                    return true;
                }
                trials.drain(..some);
            }
            false
        });
        // The state of a run comes after its trials.
        let left = &self.trials;
        self.states.retain(|run, state| {
            if left.contains_key(run) || is_gone(&outcome) {
                return true;
            }
            let stored = store.update_with_layers(state);
            stored.map_err(|e| outcome = Err(e)).is_err()
        });
        outcome
    }
}

/// The flags with which a run of this user goes on. A store on a server, which others can write, is not asked for its
/// directories.
pub fn flags_again(dir: &str, fleet: &FleetOfRun, option: &StoreOption) -> String {
    let launcher = fleet.launcher_flags(|word| quote(word).into_owned());
    if !option.to_string().contains("://") {
        return launcher;
    }
    let (dir, share) = (quote(dir), quote(&fleet.share));
    format!("{launcher} --dir {dir} --share {share}")
}

#[cfg(test)]
mod tests {
    use layermark_testkit::{postgres::Server, sample::Sample};

    use super::*;

    /// Nothing of the runs behind it was stored.
    #[test]
    fn a_run_that_the_store_refuses_keeps_no_other_one_out() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(dir.path().join("s.db")).unwrap();
        let (run, trials) = Sample::default().build();
        let absent = Run {
            id: "0".into(),
            ..run.clone()
        };
        let mut keeper = Keeper::new(&mut store, false);
        keeper.begin(&run).unwrap();
        keeper.trials(&absent.id, &trials);
        keeper.state(&absent);
        assert!(keeper.fails && absent.id < run.id);
        keeper.trials(&run.id, &trials);
        keeper.state(&run);
        let left: Vec<&str> = keeper
            .trials
            .keys()
            .chain(keeper.states.keys())
            .map(String::as_str)
            .collect();
        assert_eq!(left, ["0", "0"]);
    }

    #[test]
    fn what_is_measured_while_the_database_is_gone_is_stored_when_it_is_back() {
        let Some(server) = Server::start() else {
            return eprintln!("skipped: no PostgreSQL; hint: apt-get install postgresql");
        };
        let url = server.database();
        let mut store = Store::open(&url).unwrap();
        store.set_patience(Duration::ZERO);
        let (mut run, trials) = Sample::default().build();
        run.fleet = Some(Box::new(FleetOfRun {
            launcher: "ssh {host}".into(),
            asked: Some("a,b".into()),
            exe: Some("/opt/lay ermark".into()),
            share: "/s".into(),
            ..FleetOfRun::default()
        }));
        let (before, rest) = trials.split_at(trials.len() / 3);
        let (gone, after) = rest.split_at(rest.len() / 2);
        let mut keeper = Keeper::new(&mut store, false);
        keeper.begin(&run).unwrap();
        keeper.trials(&run.id, before);
        assert!(!keeper.fails && keeper.unstored() == 0);
        // Another run, as each host of a check makes one.
        let other = Run {
            id: format!("{}-2", run.id),
            fleet: None,
            ..run.clone()
        };
        keeper.begin(&other).unwrap();
        server.stop();
        keeper.trials(&run.id, gone);
        keeper.trials(&other.id, before);
        run.plan.about = "changed".into();
        keeper.state(&run);
        assert!(keeper.fails && keeper.unstored() == gone.len() + before.len());
        // Nobody waits for it at the end, if the user says so.
        let stop = Stop::new();
        stop.ask();
        stop.ask();
        let e = keeper.end(&stop).unwrap_err();
        let lost = format!("{} trials are not stored", gone.len() + before.len());
        assert!(e.message.contains(&lost), "{}", e.message);
        let hint = e.hint.unwrap();
        let again = format!(
            "layermark fleet run --launcher 'ssh {{host}}' --hosts a,b --exe '/opt/lay ermark' --dir {} --share /s --resume {} --store ",
            shell_words::quote(&run.dir),
            run.id
        );
        assert!(hint.contains(&again), "{hint}");
        server.begin("");
        keeper.trials(&run.id, after);
        keeper.end(&Stop::new()).unwrap();
        assert!(!keeper.fails);
        let (stored, kept) = store.load(&run.id).unwrap();
        assert_eq!(kept, trials);
        assert_eq!(stored.plan.about, "changed");
        assert_eq!(store.load(&other.id).unwrap().1, before);
    }

    #[test]
    fn a_full_disk_of_the_store_loses_nothing_of_what_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.db");
        let (run, trials) = Sample::default().build();
        let mut store = Store::open_limited(&path, 40).unwrap();
        let mut keeper = Keeper::new(&mut store, false);
        keeper.begin(&run).unwrap();
        for trial in &trials {
            keeper.trials(&run.id, std::slice::from_ref(trial));
        }
        assert!(keeper.fails, "40 pages were enough");
        let unstored = keeper.unstored();
        drop(store);
        let (_, kept) = Store::open(&path).unwrap().load(&run.id).unwrap();
        assert_eq!(kept.len() + unstored, trials.len());
        assert_eq!(kept, trials[..kept.len()]);
    }
}
