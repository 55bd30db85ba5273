//! Progress of a run, on standard error: a bar and the ratios so far on a terminal, else a line every half
//! minute.

use std::{
    cell::{Cell, RefCell},
    fmt::Write,
    io::{IsTerminal, stderr},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use layermark_lab::{Event, Ratio};
use layermark_model::plain;
use layermark_report::{Estimate, SoFar, count, ratio_with, render::Growing};

use crate::{
    failure::in_full,
    say::{is_dumb, say},
};

/// A bar with the time left, and a line for each layer. Piped, warnings and a line every [`PACE`] are
/// printed.
pub struct Progress {
    bar: ProgressBar,
    loud: bool,
    /// Position of the bar (0..=1). It never moves back, even if more blocks turn out to be needed.
    share: Cell<f64>,
    /// Layers that are ready since the last line about them, and the seconds that each took.
    ready: RefCell<Vec<(String, f64)>>,
    /// Ratios so far, below the bar.
    growing: RefCell<Growing>,
    /// The time left as the last trial reported it, for the bar and [`log`]; `None` before the first.
    left: Reported,
    /// Ends [`log`] when it is dropped.
    logged: RefCell<Option<mpsc::Sender<()>>>,
}

type Reported = Arc<Mutex<Option<Left>>>;

/// The expected time left, counted down from the trial that reported it.
#[derive(Debug, Clone, Copy)]
struct Left {
    /// `None` while nothing is known.
    expected: Option<Duration>,
    at: Instant,
}

impl Left {
    /// `1:52 left`.
    fn words(self, now: Instant) -> String {
        let passed = now.saturating_duration_since(self.at);
        match self.expected {
            None => "time left not known yet".into(),
            Some(left) if passed > left && !left.is_zero() => "longer than expected".into(),
            Some(left) => format!("{} left", clock(left.saturating_sub(passed))),
        }
    }
}

/// Lines of a terminal that the matrix leaves for the bar and what was printed before it.
const BESIDE: usize = 6;

/// Number of steps of the bar.
const STEPS: f64 = 1000.0;

/// Time between two lines of a log.
const PACE: Duration = Duration::from_secs(30);

impl Progress {
    /// Draws on standard error if that is a terminal on which lines can be drawn again.
    pub fn new() -> Self {
        let loud = stderr().is_terminal() && !is_dumb();
        let target = if loud {
            ProgressDrawTarget::stderr_with_hz(5)
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(1), target);
        let left = Reported::default();
        let template = "{bar:20} {elapsed}  {left}{wide_msg}\n{prefix}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            let left = left.clone();
            let words = move |_: &ProgressState, out: &mut dyn Write| {
                if let Some(left) = now(&left) {
                    // A failure to draw is the bar's.
                    let _ = write!(out, "{}  ", left.words(Instant::now()));
                }
            };
            bar.set_style(style.with_key("left", words));
        }
        bar.set_message("setting up");
        bar.set_length(STEPS as u64);
        // The time passes even where a trial takes long.
        let logged = if loud {
            bar.enable_steady_tick(Duration::from_secs(1));
            None
        } else {
            let (end, ended) = mpsc::channel();
            let (bar, left) = (bar.clone(), left.clone());
            let body = move || log(&bar, &left, PACE, &ended, say);
            // Without a thread, the log has fewer lines.
            let _ = thread::Builder::new().spawn(body);
            Some(end)
        };
        Self {
            bar,
            loud,
            share: Cell::new(0.0),
            ready: RefCell::default(),
            growing: RefCell::default(),
            left,
            logged: RefCell::new(logged),
        }
    }

    /// Shows an event.
    pub fn show(&self, event: &Event) {
        match event {
            Event::RunStarted {
                id,
                baseline,
                layers,
                points,
                seed,
                resumed,
            } => {
                let verb = if *resumed { "resuming" } else { "run" };
                self.growing.replace(Growing::of(points, layers));
                let beside = match layers.len() {
                    0 => String::new(),
                    n => format!(" and {}", count(n, "layer")),
                };
                self.line(&format!(
                    "{verb} {id}: {} in {baseline}{beside}, seed {seed}",
                    count(points.len(), "point")
                ));
            }
            Event::LayerReady { name, seconds } => {
                self.bar.set_message(format!("setting up: {name} is ready"));
                self.ready.borrow_mut().push((name.clone(), *seconds));
            }
            Event::LayerFailed { name, reason, hint } => {
                let id = name.split([':', ',', ' ']).next().unwrap_or(name);
                // A label says nothing about the layer.
                let id = layermark_layers::find(id).map_or("", |layer| layer.id());
                let needs = format!("what it needs: layermark layers {id}");
                let needs = needs.trim_end();
                self.warn(
                    &format!("layer {name} is left out: {reason}"),
                    Some(hint.as_deref().unwrap_or(needs)),
                );
            }
            Event::SessionStarted { session, sessions } if *sessions > 1 => {
                self.line(&format!("session {session} of {sessions}"));
            }
            Event::TrialDone {
                done,
                planned,
                left,
                ..
            } => {
                let ready = self.ready.take();
                if let Some(text) = set_up(&ready) {
                    self.line(&text);
                }
                let reported = Left {
                    expected: *left,
                    at: Instant::now(),
                };
                *self.left.lock().unwrap_or_else(PoisonError::into_inner) = Some(reported);
                let share = share(self.bar.elapsed(), *left, *done, *planned);
                self.bar.set_position((self.advance(share) * STEPS) as u64);
                self.bar.set_message(message(event));
                self.grow(event);
            }
            Event::Note(text) => self.line(text),
            Event::Warning { text, hint } => self.warn(text, hint.as_deref()),
            Event::RunEnded { .. } => {
                self.logged.take();
                self.bar.finish_and_clear();
            }
            _ => {}
        }
    }

    /// Adds the trial's ratio to the matrix below the bar.
    fn grow(&self, event: &Event) {
        let Event::TrialDone {
            layer,
            point,
            ratio: Some(ratio),
            ..
        } = event
        else {
            return;
        };
        if !self.loud {
            return;
        }
        self.growing.borrow_mut().set(point, layer, estimate(ratio));
        self.draw();
    }

    /// Shows the words of a look in the matrix.
    pub fn look(&self, so_far: &SoFar) {
        if self.loud {
            self.growing.borrow_mut().look(so_far);
            self.draw();
        }
    }

    /// Whether the matrix is shown.
    pub fn shows_matrix(&self) -> bool {
        self.loud
    }

    /// Draws the matrix.
    fn draw(&self) {
        let growing = self.growing.borrow();
        let size = rustix::termios::tcgetwinsize(stderr());
        // A serial line may know none: 0.
        let known = size.ok().filter(|size| size.ws_col > 0 && size.ws_row > 0);
        let (columns, rows) = known.map_or((80, 24), |size| (size.ws_col, size.ws_row));
        let text = growing.print(columns.into(), usize::from(rows).saturating_sub(BESIDE));
        self.bar.set_prefix(text.trim_end().to_owned());
    }

    /// The share done (0..=1), or a higher share shown before.
    fn advance(&self, now: f64) -> f64 {
        self.share.set(self.share.get().max(now));
        self.share.get()
    }

    /// Prints a line, also if standard error is not a terminal.
    pub fn tell(&self, text: &str) {
        self.bar.suspend(|| say(text));
    }

    fn line(&self, text: &str) {
        if self.loud {
            self.bar.suspend(|| say(text));
        }
    }

    fn warn(&self, text: &str, hint: Option<&str>) {
        let (text, hint) = in_full(text, hint);
        self.bar.suspend(|| {
            say(format!("warning: {text}"));
            if let Some(hint) = hint {
                say(format!("hint: {hint}"));
            }
        });
    }
}

fn now(left: &Reported) -> Option<Left> {
    *left.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Prints a line each `pace` for a log, until the other end of `ended` is gone.
fn log(
    bar: &ProgressBar,
    left: &Reported,
    pace: Duration,
    ended: &mpsc::Receiver<()>,
    print: impl Fn(String),
) {
    while ended.recv_timeout(pace) == Err(RecvTimeoutError::Timeout) {
        let left = now(left).map_or_else(String::new, |left| left.words(Instant::now()) + "  ");
        print(format!("{}  {left}{}", clock(bar.elapsed()), bar.message()));
    }
}

/// `12 layers ready in 4.1 s, the slowest vm in 3.2 s`.
fn set_up(ready: &[(String, f64)]) -> Option<String> {
    let (name, most) = ready.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let all: f64 = ready.iter().map(|(_, seconds)| seconds).sum();
    Some(match ready.len() {
        1 => format!("{name} ready in {most:.1} s"),
        n => format!("{n} layers ready in {all:.1} s, the slowest {name} in {most:.1} s"),
    })
}

/// The share done (0..=1): of the time if known, else of the trials.
fn share(passed: Duration, left: Option<Duration>, done: u64, planned: u64) -> f64 {
    match left {
        Some(left) => passed.as_secs_f64() / (passed + left).as_secs_f64().max(1e-9),
        None => done as f64 / planned.max(done).max(1) as f64,
    }
}

/// The line after a trial: `block 5/8  fuse · read 4K  1.84x (1.71-1.98)`. What a narrow terminal has
/// no room for is cut off at its end.
fn message(event: &Event) -> String {
    let Event::TrialDone {
        layer,
        point,
        block,
        blocks,
        ratio,
        ..
    } = event
    else {
        return String::new();
    };
    let at = format!("{layer} · {point}").replace('\n', " ");
    let ratio = ratio.as_ref().map(|r| ratio_with(&estimate(r)));
    // A point may need more blocks than planned for all points.
    let of = if block <= blocks {
        format!("/{blocks}")
    } else {
        String::new()
    };
    let parts = [
        Some(format!("block {block}{of}")),
        Some(plain(&at).into_owned()),
        ratio,
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("  ")
}

fn estimate(ratio: &Ratio) -> Estimate {
    Estimate {
        estimate: ratio.estimate,
        interval: Some(ratio.interval),
        average: None,
    }
}

/// `0:07`, `1:52`, `2:05:00`.
fn clock(time: Duration) -> String {
    let s = time.as_secs();
    match s / 3600 {
        0 => format!("{}:{:02}", s / 60, s % 60),
        hours => format!("{hours}:{:02}:{:02}", s / 60 % 60, s % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(block: u32, ratio: Option<[f64; 3]>) -> Event {
        Event::TrialDone {
            done: 1,
            planned: 9,
            left: None,
            block,
            blocks: 8,
            ratio: ratio.map(|[estimate, low, high]| Ratio {
                estimate,
                interval: [low, high],
            }),
            layer: "fuse".into(),
            point: "read\n4K\u{1b}[2J".into(),
            ns_per_op: Some(1.0),
            error: None,
            flags: Vec::new(),
        }
    }

    #[test]
    fn the_ratio_is_told_as_it_narrows() {
        let run = [
            (1, None),
            (5, Some([1.84, 1.714, 1.975])),
            (9, Some([18.4, 18.1, 18.6])),
        ];
        let said = run.map(|(block, ratio)| message(&done(block, ratio)));
        let at = format!("fuse · {}", plain("read 4K\u{1b}[2J"));
        assert_eq!(
            said,
            [
                format!("block 1/8  {at}"),
                format!("block 5/8  {at}  1.84x (1.71-1.98)"),
                format!("block 9  {at}  18.4x (18.1-18.6)"),
            ]
        );
        assert!(!said[1].contains(['\n', '\u{1b}']));
    }

    /// It stood still during a long trial.
    #[test]
    fn the_time_left_counts_down_between_trials() {
        let at = Instant::now();
        let after = |expected: Option<u64>, seconds: u64| {
            let expected = expected.map(Duration::from_secs);
            Left { expected, at }.words(at + Duration::from_secs(seconds))
        };
        assert_eq!(after(Some(112), 0), "1:52 left");
        assert_eq!(after(Some(112), 10), "1:42 left");
        assert_eq!(after(Some(112), 112), "0:00 left");
        assert_eq!(after(Some(112), 113), "longer than expected");
        assert_eq!(after(Some(0), 3), "0:00 left");
        assert_eq!(after(None, 40), "time left not known yet");
    }

    /// Only the end of a trial printed a line.
    #[test]
    fn a_log_gets_lines_while_a_trial_goes_on() {
        let left = Left {
            expected: None,
            at: Instant::now(),
        };
        let left = Reported::new(Mutex::new(Some(left)));
        let bar = ProgressBar::hidden();
        bar.set_message("block 1/8  fuse");
        let ((end, ended), (said, lines)) = (mpsc::channel(), mpsc::channel());
        thread::scope(|scope| {
            let (bar, left) = (&bar, &left);
            scope.spawn(move || {
                log(bar, left, Duration::from_millis(1), &ended, |line| {
                    let _ = said.send(line);
                });
            });
            let first = lines.recv().unwrap();
            assert_eq!(first, "0:00  time left not known yet  block 1/8  fuse");
            assert_eq!(lines.recv().unwrap(), first);
            // It ends with the run: the scope waits for it.
            drop(end);
        });
    }

    #[test]
    fn setting_up_is_one_line() {
        let ready = [("native", 0.01), ("vm", 3.21), ("fuse", 0.25)];
        let ready = ready.map(|(name, seconds)| (name.to_owned(), seconds));
        let told = "3 layers ready in 3.5 s, the slowest vm in 3.2 s";
        assert_eq!(set_up(&ready).as_deref(), Some(told));
        assert_eq!(
            set_up(&ready[..1]).as_deref(),
            Some("native ready in 0.0 s")
        );
        assert_eq!(set_up(&[]), None);
    }

    #[test]
    fn times_move_each_second() {
        let shown = [7, 112, 113, 7500].map(|s| clock(Duration::from_secs(s)));
        assert_eq!(shown, ["0:07", "1:52", "1:53", "2:05:00"]);
    }

    #[test]
    fn the_bar_never_goes_back() {
        let progress = Progress::new();
        let second = Duration::from_secs(1);
        // More blocks turn out to be needed. The time left is then known, does not change, and runs
        // out.
        let seen: Vec<f64> = [
            (1, None, 1, 10),
            (2, None, 5, 10),
            (3, None, 6, 40),
            (10, Some(10), 20, 40),
            (20, Some(10), 30, 40),
            (30, Some(10), 40, 40),
            (31, Some(0), 41, 41),
        ]
        .map(|(passed, left, done, planned)| {
            let left = left.map(|s| second * s);
            progress.advance(share(second * passed, left, done, planned))
        })
        .to_vec();
        assert!(
            seen.is_sorted() && (seen[1] - 0.5).abs() < 1e-12,
            "{seen:?}"
        );
        assert!((seen[5] - 0.75).abs() < 1e-12 && (seen[6] - 1.0).abs() < 1e-12);
        assert!(share(second, None, 9, 8) <= 1.0 && share(Duration::ZERO, None, 0, 0) <= 1.0);
    }
}
