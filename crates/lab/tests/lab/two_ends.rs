//! Work with two ends: the far one serves, the near one has the turns, and each can break.

use std::collections::BTreeSet;

use layermark_lab::{LabError, Outcome};
use layermark_model::{LayerStatus, Plan, Run, TrialRecord};

use crate::common::{Bench, CATALOG, SECRETS, TWO_ENDS, plan, settled};

fn run(bench: &mut Bench, plan: Plan) -> Result<Outcome, LabError> {
    let mut request = bench.request(plan);
    request.catalog = TWO_ENDS;
    bench.run(request)
}

/// A good baseline, and a layer whose far end does this.
fn beside(far: &str) -> (Bench, Run, Vec<TrialRecord>) {
    let mut bench = Bench::new();
    let bad = format!("ends:{far}");
    let plan = plan(&["mock", "mock:ns=2000", &bad], 1, "control = false");
    let outcome = run(&mut bench, plan);
    assert!(settled(&outcome), "{far}: {outcome:?}");
    let (run, trials) = bench.last();
    (bench, run, trials)
}

#[test]
fn both_ends_are_told_of_each_other_and_turns_go_to_the_near_one() {
    let (bench, run, trials) = beside("serves");
    assert!(run.layers.iter().all(|l| l.status == LayerStatus::Ready));
    assert_eq!((trials.len(), bench.warnings()), (24, Vec::<String>::new()));
    assert!(trials.iter().all(|t| t.trial.is_some()), "{trials:?}");
    let busy = |t: &TrialRecord| t.trial.as_ref().is_some_and(|t| t.busy_ns.is_some());
    assert!(trials.iter().all(busy), "no CPU time of the machine");
    // Each far end had one of its own, and nothing that is kept or told has a trace of one.
    let secrets = std::mem::take(&mut *SECRETS.lock().unwrap());
    let different: BTreeSet<&String> = secrets.iter().collect();
    assert_eq!((different.len(), secrets.len()), (8, 8));
    let kept = serde_json::to_string(&(&run, &trials)).unwrap();
    let mut texts = vec![
        kept.into_bytes(),
        format!("{:?}", bench.events).into_bytes(),
    ];
    let files = std::fs::read_dir(bench.temp.path()).unwrap().flatten();
    let files = files.filter(|f| f.path().is_file());
    texts.extend(files.map(|f| std::fs::read(f.path()).unwrap()));
    assert!(texts.len() > 2, "no file of the store");
    for secret in secrets {
        let found = |text: &Vec<u8>| text.windows(secret.len()).any(|w| w == secret.as_bytes());
        assert!(!texts.iter().any(found), "{secret}");
    }
}

#[test]
fn a_broken_far_end_is_a_broken_layer_in_words() {
    for (far, why) in [
        ("silent", "far end: the probe was silent for 1s"),
        ("dies", "far end: the probe ended (exit code 0)"),
        ("fails", "far end: the probe ended (exit code 0)"),
        ("stays", "far end: the probe was silent for 1s"),
    ] {
        let (bench, run, trials) = beside(far);
        let layer = &run.layers[2];
        assert_eq!(layer.status, LayerStatus::Failed, "{far}");
        assert_eq!(layer.reason.as_deref(), Some(why), "{far}");
        assert!(
            bench.warnings()[0].contains(&format!("{why}; its probe is started again")),
            "{far}: {:?}",
            bench.warnings()
        );
        let errors: Vec<&str> = trials.iter().filter_map(|t| t.error.as_deref()).collect();
        assert_eq!(errors, [why, why], "{far}");
        // The others are as good as without it.
        assert_eq!(trials.iter().filter(|t| t.trial.is_some()).count(), 16);
    }
}

#[test]
fn a_port_that_cannot_be_bound_fails_the_work_and_not_the_layer() {
    let (bench, run, trials) = beside("refuses");
    assert_eq!(run.layers[2].status, LayerStatus::Ready);
    let errors: Vec<&str> = trials.iter().filter_map(|t| t.error.as_deref()).collect();
    let why = "far end: bind 127.0.0.1: Address already in use";
    assert!(
        !errors.is_empty() && errors.iter().all(|e| *e == why),
        "{errors:?}"
    );
    let warned = bench.warnings();
    assert!(
        warned[0].contains("left out") && warned[0].contains("failed every time"),
        "{warned:?}"
    );
}

#[test]
fn a_path_is_refused_for_work_with_one_end() {
    for (catalog, says) in [(CATALOG, "has one end"), (TWO_ENDS, "in a network")] {
        let mut bench = Bench::new();
        let mut request = bench.request(plan(&["mock", "mock..mock"], 1, ""));
        request.catalog = catalog;
        let e = bench.run(request).unwrap_err();
        assert_eq!((e.exit_code(), e.hint().is_some()), (2, true), "{e}");
        assert!(e.to_string().contains(says), "{e}");
        assert!(
            bench.events.is_empty(),
            "something was begun: {:?}",
            bench.events
        );
    }
}
