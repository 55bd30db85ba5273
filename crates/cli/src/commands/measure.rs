//! Runs the measurement, stores it, and writes the report.

use std::{
    env,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use layermark_lab::{Ended, Event, LabError, LookEvents, Outcome, Request, Resume, Stop};
use layermark_layers::{LayerError, janitor, keeper, sandbox, served};
use layermark_model::{Cut, Environment, LayerRun, LayerStatus, Run, RunStatus};
use layermark_report::{Report, SoFar};
use layermark_store::Store;
use signal_hook::iterator::Signals;

use super::{
    dir_journal,
    durability::cuts,
    gate, history, output,
    serve::Server,
    stored,
    target::{self, Target},
};
use crate::{
    common_args::{CommonArgs, Stdout},
    events::Events,
    failure::{Code, Failure},
    progress::Progress,
    say::say,
    signals,
};

/// Default budget of a command for one workload. A budget may be exceeded by half, so the command
/// ends within 20 s, unless eight blocks of native and one layer take longer.
pub const COMMAND_BUDGET: &str = "13s";

/// Power cuts are not begun with less time than this: a layer takes some seconds.
const LEAST_FOR_CUTS: Duration = Duration::from_secs(10);

/// What to measure, after the flags are parsed.
pub enum Order {
    New(Box<Request>),
    Replay(Box<Request>),
    Resume(String, Option<Box<Run>>, Environment),
}

pub fn exe() -> Result<PathBuf, Failure> {
    env::current_exe().map_err(|e| Failure::failed(format!("the path of layermark itself: {e}")))
}

/// Checks write permission before the user namespace exists. Inside it all our files are writable,
/// including read-only ones. The lab checks everything else about the directory.
fn may_write(dir: &Path, silence: Duration) -> Result<(), Failure> {
    use rustix::{fs::Access, io::Errno};
    let may = || rustix::fs::access(dir, Access::WRITE_OK) != Err(Errno::ACCESS);
    match keeper::asked_apart(silence, may) {
        Some(true) => Ok(()),
        Some(false) => Err(Failure::usage(format!(
            "cannot work in {}: you may not write there",
            dir.display()
        ))
        .hint("name a directory that you may write to: --dir DIR")),
        None => Err(no_answer(dir, silence)),
    }
}

/// The error for a file system whose server accepted a request and does not answer.
fn no_answer(path: &Path, silence: Duration) -> Failure {
    Failure {
        message: format!("{} did not answer for {silence:?}", path.display()),
        param: None,
        hint: Some("see who serves it: findmnt; if it is only slow: --silence 5m".into()),
        code: Code::Layer,
    }
}

/// Ends the process if the main thread waits for a file system longer than `silence` after a stop.
fn watch(silence: Duration) {
    keeper::obey();
    served::watch_main(silence, |path, silence| {
        let code = Code::Layer as u8;
        no_answer(path, silence).print(false);
        keeper::abandon(code)
    });
}

/// Measures, then writes the results so far, even after a failure: to the targets in the flags, and
/// to `more`.
pub fn go(order: Order, common: &CommonArgs, more: Option<Target>) -> Result<ExitCode, Failure> {
    go_on(order, common, more, &Special::default())
}

/// What some commands do otherwise.
#[derive(Default)]
pub struct Special<'a> {
    /// Commands of file systems that are cut as well, if the plan has power cuts.
    pub servers: &'a [Vec<String>],
    /// Shows the report in place of the answer and the page.
    pub show: Option<Show<'a>>,
    /// What hints say, and what they say for a command without such a flag.
    pub instead: &'a [(&'a str, &'a str)],
}

impl Special<'_> {
    /// An error with a hint that this command can follow.
    pub fn failure(&self, error: impl Into<Failure>) -> Failure {
        let mut failure = error.into();
        let of = |hint: String| {
            let words = self.instead.iter();
            words.fold(hint, |hint, (flag, own)| hint.replace(flag, own))
        };
        failure.hint = failure.hint.map(of);
        failure
    }
}

/// Shows a report. Returns the exit code of a run that is whole and trusted, if it is not the usual one.
pub type Show<'a> = &'a dyn Fn(&Report) -> Result<Option<ExitCode>, Failure>;

/// Like [`go`].
pub fn go_on(
    mut order: Order,
    common: &CommonArgs,
    more: Option<Target>,
    special: &Special,
) -> Result<ExitCode, Failure> {
    let gates = gate::read(&common.gates)?;
    if let Order::New(request) | Order::Replay(request) = &mut order {
        request.gates.clone_from(&gates);
    }
    // Before the measurement, so that no time is lost to a report that cannot be written.
    let mut targets = target::targets(&common.out)?;
    targets.extend(more);
    let serve = |at| Server::bind(at, common.out.store.store.clone());
    let server = common.serve.map(serve).transpose()?;
    common.events.as_ref().map(Events::check).transpose()?;
    // The janitor, held until the end: it removes the work directory when this process ends for any
    // reason.
    let exe = exe()?;
    let janitor = janitor::spawn(&exe, dir_journal::open())
        .map_err(|e| Failure::failed(format!("the watcher that cleans up: {e}")))?;
    if matches!(order, Order::New(_)) {
        may_write(&common.dir, common.silence).map_err(|e| special.failure(e))?;
    }
    sandbox::enter()?;
    watch(common.silence);
    let mut store = stored::open_store(common.out.store.store.as_deref())?;
    if let Order::Resume(run, ..) = &order
        && !gates.is_empty()
    {
        gate::check(&gates, &store.load(run)?.0)?;
    }
    let events = common.events.as_ref().map(Events::open).transpose()?;
    let stop = Stop::new();
    let no_signals = |e| Failure::failed(format!("signals: {e}"));
    // A signal that comes after the last round, while the report is made, ends the serving of it.
    let later = signals::caught().map_err(no_signals)?;
    let signals = signals::connect(&stop).map_err(no_signals)?;
    server.as_ref().map(Server::start).transpose()?;

    let (mut run_id, begun) = (None, stop.now());
    let mut result = measure(
        order,
        exe.clone(),
        common,
        &mut store,
        &stop,
        (server.as_ref(), events.as_ref()),
        &mut run_id,
    );
    let Some(run_id) = run_id else {
        return Err(result
            .err()
            .map_or_else(|| Failure::failed("no run"), |e| special.failure(e)));
    };
    if let Ok(outcome) = &mut result
        && let Some(stop) = time_for_cuts(outcome, common, &stop, begun)
    {
        let done = cuts::after(
            &mut outcome.run,
            &mut store,
            &exe,
            common.silence,
            special.servers,
            &stop,
        );
        match done {
            Err(error) => result = Err(error),
            // Its measurement has ended, and it goes on with the cuts.
            Ok(()) if stop.asked() && cuts::some_not_begun(&outcome.run) => {
                outcome.ended = Ended::Stopped;
            }
            Ok(()) => {}
        }
    }
    let stdout = common.out.stdout();
    let delivered = stored::kept(&mut store, &run_id).and_then(|kept| {
        let mut report = stored::build(&kept.run, &kept.trials);
        history::keep_tally(&mut store, &kept.run, &kept.trials, &report.headline);
        report.hold_to(&gates, common.gates.fail_undecided);
        if let Some(show) = special.show {
            let shown = show(&report)?;
            output::deliver(&report, Some(&kept), &targets, Stdout::Nothing, false)?;
            return Ok((shown, report));
        }
        // Nobody opens the page of a run that measured nothing.
        let page = !kept.trials.is_empty();
        output::deliver(&report, Some(&kept), &targets, stdout, page)?;
        Ok((None, report))
    });
    let whole = matches!(&result, Ok(outcome) if outcome.ended != Ended::Stopped);
    let code = match (result, delivered) {
        (Ok(outcome), Ok((shown, report))) => Ok(ended(&outcome, &report, special, shown)),
        (Ok(_), Err(failure)) => Err(failure),
        // The report has been printed; the error still decides the exit code.
        (Err(error), Ok(_)) => Ok(special.failure(error).print(false)),
        // The reason why the run ended matters more than why it cannot be shown.
        (Err(error), Err(failure)) => {
            say(format!("warning: no report: {}", failure.message));
            Err(special.failure(error))
        }
    };
    drop((store, janitor));
    match server {
        Some(server) if whole => {
            signals.close();
            until_signal(&server, &run_id, later);
        }
        Some(server) => server.farewell(|| stop.at_once()),
        None => {}
    }
    code
}

/// When power cuts have to end; `None` without any. What the budget of the user has left is theirs, and the
/// budget of a plan is for the measurement alone. If they end before they are begun, the report says so of each layer.
fn time_for_cuts(
    outcome: &Outcome,
    common: &CommonArgs,
    stop: &Stop,
    begun: Instant,
) -> Option<Stop> {
    outcome.run.plan.power_cuts.as_ref()?;
    if outcome.ended == Ended::Stopped || !cuts::are_left(&outcome.run) {
        return Some(stop.clone());
    }
    let budget = outcome.run.plan.budget().ok().flatten();
    let Some(budget) = budget.filter(|_| common.budget.is_some()) else {
        return Some(stop.clone());
    };
    let left = budget.saturating_sub(stop.now() - begun);
    if left < LEAST_FOR_CUTS {
        let id = &outcome.run.id;
        say("warning: no power was cut: the budget is spent");
        say(format!(
            "hint: cut it without a budget: layermark run --resume {id}{}",
            outcome.run.store
        ));
        return Some(stop.within(Duration::ZERO));
    }
    Some(stop.within(left))
}

/// Serves the report of a finished run until Ctrl-C.
fn until_signal(server: &Server, run_id: &str, mut signals: Signals) {
    let address = server.address(&format!("/run/{run_id}"));
    say(format!("the report is served until Ctrl-C: {address}"));
    signals.forever().next();
    server.goodbye();
}

fn measure(
    order: Order,
    exe: PathBuf,
    common: &CommonArgs,
    store: &mut Store,
    stop: &Stop,
    (server, events): (Option<&Server>, Option<&Events>),
    run_id: &mut Option<String>,
) -> Result<Outcome, LabError> {
    let progress = Progress::new();
    let looks = if progress.shows_matrix() || events.is_some() {
        LookEvents::Emitted
    } else {
        LookEvents::Silent
    };
    let mut so_far = SoFar::default();
    let mut on_event = |event: Event| {
        if let Event::Looked {
            run,
            trials,
            blocks,
        } = event
        {
            if so_far.look(&run, &trials, blocks as usize) {
                progress.look(&so_far);
                if let Some(events) = events {
                    events.look(&so_far);
                }
            }
            return;
        }
        if let Event::RunStarted { id, .. } = &event {
            *run_id = Some(id.clone());
        }
        progress.show(&event);
        if let Some(events) = events {
            events.write(&event);
        }
        if let (Event::RunStarted { id, .. }, Some(server)) = (&event, server) {
            let address = server.address(&format!("/run/{id}"));
            progress.tell(&format!("see it live: {address}"));
        }
    };
    let request = match order {
        Order::New(request) => {
            if request.usual_budget && request.plan.budget.as_deref() == Some(COMMAND_BUDGET) {
                progress.show(&Event::Note(
                    "aims to end within 20 s; for more: --budget 2m, --precision 2% or --blocks 30"
                        .into(),
                ));
            }
            *request
        }
        Order::Replay(request) => *request,
        Order::Resume(run, seen, env) => {
            let again = Resume {
                seen,
                env,
                silence: common.silence,
                budget: common.budget.clone(),
                cuts_left: cuts::are_left,
                looks,
                ..Resume::new(run, exe)
            };
            return layermark_lab::resume(again, store, stop, &mut on_event);
        }
    };
    let request = Request { looks, ..request };
    layermark_lab::run(request, store, stop, &mut on_event)
}

/// The exit code of a run that ended: `shown`, if there is one, where nothing went wrong.
fn ended(
    outcome: &Outcome,
    report: &Report,
    special: &Special,
    shown: Option<ExitCode>,
) -> ExitCode {
    let (id, store) = (&outcome.run.id, &report.store);
    if outcome.ended == Ended::Stopped {
        say(
            if outcome.run.status == RunStatus::Done && !cuts::are_left(&outcome.run) {
                // Their commands are not stored.
                "stopped; file systems of --server are not cut later: give the command again"
                    .to_owned()
            } else {
                format!("stopped; continue: layermark run --resume {id}{store}")
            },
        );
        return Code::Stopped.into();
    }
    let gates = gate::outcome(report);
    if let Some(why) = report.unbelievable() {
        say(format!("error: {why}"));
    }
    // An untrustworthy figure is worse than a missing layer.
    if !report.trustworthy() {
        return Code::Untrusted.into();
    }
    // A study has layers that lie: that they do is one of its conclusions.
    let lost = report.lost_data() || report.program_lost_data() || report.sequences_lost_data();
    if lost && outcome.run.plan.study.is_none() {
        return Code::Failed.into();
    }
    if let Some(failed) = gates {
        return failed;
    }
    if outcome.exit_code() != 0 || cuts::some_failed(&outcome.run, special.servers) {
        return Code::Layer.into();
    }
    if outcome.trials == 0 {
        return nothing_measured(&outcome.run, &format!("{id}{store}")).print(false);
    }
    if let Some(shown) = shown {
        return shown;
    }
    if let Some(failure) = output::all_failed(report) {
        let hint = format!("layermark report {id}{store}");
        return failure.hint(hint).print(false);
    }
    ExitCode::SUCCESS
}

/// Why a run that has ended has no trial.
fn nothing_measured(run: &Run, name: &str) -> Failure {
    if let Some(cut) = &run.cut {
        return Failure::failed(
            "nothing was measured: the budget was spent before a block was complete",
        )
        .hint(enough_for(cut, name));
    }
    let could = |layer: &LayerRun| {
        let mut points = run.points.iter();
        layer.status == LayerStatus::Ready && points.any(|p| !layer.skips.contains_key(&p.label))
    };
    let budget = run.plan.budget().ok().flatten();
    if let Some(budget) = budget.filter(|_| run.layers.iter().any(could)) {
        let more = budget.as_secs().max(1) * MORE_TIME;
        return Failure::failed(
            "nothing was measured: the budget was spent before a block was begun",
        )
        .hint(format!(
            "give it more time: layermark run --resume {name} --budget {more}s"
        ));
    }
    Failure::failed("nothing was measured: no layer supports the requested work")
        .hint("the report lists what was left out and why; what a layer can do: layermark layers")
}

/// How many times the budget is offered where how long a block takes is not known.
const MORE_TIME: u64 = 10;

/// What to do about a run whose budget was spent before anything was measured.
fn enough_for(cut: &Cut, run: &str) -> String {
    let enough = cut.enough_s;
    let more = format!("give it more time: layermark run --resume {run} --budget {enough}s");
    if cut.in_set_up() {
        format!("make the files that the layers take in smaller: --scale 0.1; or {more}")
    } else {
        more
    }
}

/// This command with a budget that is enough; `or_fewer`: or with fewer layers.
fn with_budget(needed: u64, or_fewer: bool) -> String {
    let words = env::args_os().skip(1);
    let words: Vec<String> = words.map(|w| w.to_string_lossy().into_owned()).collect();
    // Values of `--env` and passwords of servers are not repeated.
    if words
        .iter()
        .any(|w| w.starts_with("--env") || w.contains("://"))
    {
        return format!("give it more time: --budget {needed}s");
    }
    let command = format!(
        "give it more time: layermark {}",
        typed_with(&words, needed)
    );
    if or_fewer && !words.iter().any(|word| word == "--drop") {
        return command + "; or let it leave layers out: --drop";
    }
    command
}

/// The words of a command line, with another budget.
fn typed_with(words: &[String], needed: u64) -> String {
    let own = words
        .iter()
        .position(|word| word == "--")
        .unwrap_or(words.len());
    let (flags, rest) = words.split_at(own);
    let mut kept = Vec::new();
    let mut flags = flags.iter();
    while let Some(word) = flags.next() {
        if word == "--budget" {
            flags.next();
        } else if !word.starts_with("--budget=") {
            kept.push(word.clone());
        }
    }
    kept.extend(["--budget".to_owned(), format!("{needed}s")]);
    kept.extend_from_slice(rest);
    shell_words::join(kept)
}

impl From<LabError> for Failure {
    fn from(error: LabError) -> Self {
        let code = match error.exit_code() {
            _ if matches!(error, LabError::CutOff { .. }) => Code::Stopped,
            2 => Code::Usage,
            3 => Code::Layer,
            4 => Code::Untrusted,
            _ => Code::Failed,
        };
        let otherwise = (code == Code::Layer).then_some("what each layer needs: layermark layers");
        let hint = match &error {
            LabError::Budget { needed, layers, .. } => Some(with_budget(*needed, layers.len() > 2)),
            error => error.hint(),
        };
        let param = match &error {
            LabError::Point(wrong) => wrong.param.clone(),
            _ => None,
        };
        Self {
            message: error.to_string(),
            param,
            hint: hint.or(otherwise.map(str::to_owned)),
            code,
        }
    }
}

impl From<LayerError> for Failure {
    fn from(error: LayerError) -> Self {
        let code = if error.is_usage() {
            Code::Usage
        } else {
            Code::Layer
        };
        Self {
            message: error.to_string(),
            param: None,
            hint: error.hint(),
            code,
        }
    }
}

#[cfg(test)]
mod tests {
    use layermark_testkit::fixtures::fixture;

    use super::*;

    /// Compared by their text, since exit codes cannot be compared.
    #[track_caller]
    fn exits(name: &str, blocks: u32, gate: &str, undecided_fails: bool, code: ExitCode) {
        let kept = fixture(name).read();
        let (run, mut trials) = (kept.run, kept.trials);
        trials.retain(|t| t.cell.block < blocks);
        let mut report = stored::build(&run, &trials);
        assert!(report.trustworthy(), "{:#?}", report.trust);
        report.hold_to(&[gate.parse().unwrap()], undecided_fails);
        let outcome = Outcome {
            run,
            ended: Ended::Settled,
            trials: trials.len() as u64,
            lost: Vec::new(),
        };
        let ended = ended(&outcome, &report, &Special::default(), None);
        assert_eq!(format!("{ended:?}"), format!("{code:?}"), "{name}, {gate}");
    }

    #[test]
    fn a_gate_that_breaks_is_the_exit_code_and_one_that_holds_is_not() {
        let failed = || ExitCode::from(Code::Failed);
        exits("gate-broken", 8, "slower=1.5x", false, failed());
        exits("gate-broken", 8, "slower=100000x", false, ExitCode::SUCCESS);
        exits("gate-held", 8, "slower=100000x", false, ExitCode::SUCCESS);
        // With two blocks nothing is known, which fails only where it is asked for.
        exits("gate-held", 2, "slower=100000x", false, ExitCode::SUCCESS);
        exits("gate-held", 2, "slower=100000x", true, failed());
    }

    /// A *yes* was the exit code of a run whose data was not what had been written.
    #[test]
    fn what_is_shown_does_not_hide_that_a_run_is_not_trusted() {
        let kept = fixture("scripted").read();
        let (run, trials) = (kept.run, kept.trials);
        let mut report = stored::build(&run, &trials);
        let mut outcome = Outcome {
            run,
            ended: Ended::Settled,
            trials: trials.len() as u64,
            lost: Vec::new(),
        };
        let exits = |outcome: &Outcome, report: &Report, code: ExitCode| {
            let ended = ended(
                outcome,
                report,
                &Special::default(),
                Some(ExitCode::from(77)),
            );
            assert_eq!(format!("{ended:?}"), format!("{code:?}"));
        };
        let item = |trust: &mut Vec<layermark_report::TrustItem>, state| {
            let item = trust.iter_mut().find(|t| t.id == "proof").unwrap();
            item.state = state;
        };
        item(&mut report.trust, layermark_report::TrustState::Ok);
        exits(&outcome, &report, ExitCode::from(77));
        item(&mut report.trust, layermark_report::TrustState::Warn);
        exits(&outcome, &report, Code::Untrusted.into());
        outcome.ended = Ended::Stopped;
        exits(&outcome, &report, Code::Stopped.into());
    }

    #[test]
    fn a_command_without_a_flag_has_hints_of_its_own() {
        let special = Special {
            instead: &[("--dir DIR", "layermark safe DIR")],
            ..Special::default()
        };
        let failure = Failure::usage("no").hint("name another: --dir DIR");
        let hint = special.failure(failure).hint;
        assert_eq!(hint.as_deref(), Some("name another: layermark safe DIR"));
    }

    /// "No layer supports the requested work" was said of a budget of 3 s on a busy machine.
    #[test]
    fn a_run_without_time_for_a_block_is_not_for_want_of_a_layer() {
        let mut run = fixture("scripted").read().run;
        (run.plan.budget, run.cut) = (Some("3s".into()), None);
        let said = nothing_measured(&run, "RUN");
        assert!(said.message.contains("the budget was spent"), "{said:?}");
        let hint = "give it more time: layermark run --resume RUN --budget 30s";
        assert_eq!(said.hint.as_deref(), Some(hint));
        for layer in &mut run.layers {
            let labels = run.points.iter().map(|p| p.label.clone());
            layer.skips = labels.map(|label| (label, "it cannot".into())).collect();
        }
        let said = nothing_measured(&run, "RUN");
        assert!(said.message.contains("no layer supports"), "{said:?}");
    }

    /// A set-up that took all of the budget was answered with more budget alone.
    #[test]
    fn a_set_up_that_takes_all_of_the_budget_is_made_smaller() {
        let cut = |block| Cut {
            at_s: 5,
            block,
            point: None,
            layer: None,
            during: "the layers were set up".into(),
            enough_s: 20,
        };
        let hint = enough_for(&cut(None), "RUN");
        assert!(hint.contains("--scale 0.1; or give it more time"), "{hint}");
        let hint = enough_for(&cut(Some(1)), "RUN");
        assert_eq!(
            hint,
            "give it more time: layermark run --resume RUN --budget 20s"
        );
    }

    #[test]
    fn the_command_that_is_named_has_another_budget() {
        for (line, said) in [
            ("meta -l fuse --budget 5s", "meta -l fuse --budget 40s"),
            ("meta --budget=5s --json", "meta --json --budget 40s"),
            ("run 'my plan.toml'", "run 'my plan.toml' --budget 40s"),
            (
                "launch --budget 1s -- prog --budget 7",
                "launch --budget 40s -- prog --budget 7",
            ),
        ] {
            let words = shell_words::split(line).unwrap();
            assert_eq!(typed_with(&words, 40), said, "{line}");
        }
    }
}
