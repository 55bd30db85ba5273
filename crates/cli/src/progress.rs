//! What a user sees while a run goes on: on a terminal only, on standard error.

use std::{
    cell::Cell,
    io::{IsTerminal, stderr},
    time::Duration,
};

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};
use layermark_lab::Event;
use layermark_model::plain;

use crate::say::say;

/// A bar with the time left, and a line for each layer. Piped, only warnings are printed.
pub struct Progress {
    bar: ProgressBar,
    loud: bool,
    /// How far the bar has come (0..=1): it never goes back, though more blocks may turn out to be
    /// needed than was known when it started.
    share: Cell<f64>,
}

/// Steps of the bar.
const STEPS: f64 = 1000.0;

impl Progress {
    /// Draws on standard error when that is a terminal.
    pub fn new() -> Self {
        let loud = stderr().is_terminal();
        let target = if loud {
            ProgressDrawTarget::stderr_with_hz(5)
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(1), target);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {msg}") {
            bar.set_style(style);
        }
        bar.set_message("setting up");
        bar.set_length(STEPS as u64);
        Self {
            bar,
            loud,
            share: Cell::new(0.0),
        }
    }

    /// Shows an event.
    pub fn show(&self, event: &Event) {
        match event {
            Event::RunStarted {
                id,
                layers,
                points,
                seed,
                resumed,
            } => {
                let verb = if *resumed { "resuming" } else { "run" };
                self.line(&format!(
                    "{verb} {id}: {points} points in {} layers, seed {seed}",
                    layers.len()
                ));
            }
            Event::LayerReady { name, seconds } => {
                self.line(&format!("  {name:<24} ready in {seconds:.2} s"));
            }
            Event::LayerFailed { name, reason, hint } => {
                let id = name.split([':', ',', ' ']).next().unwrap_or(name);
                let needs = format!("what it needs: layermark layers {id}");
                self.warn(
                    &format!("layer {name} is left out: {reason}"),
                    Some(hint.as_deref().unwrap_or(&needs)),
                );
            }
            Event::SessionStarted { session, sessions } if *sessions > 1 => {
                self.line(&format!("session {session} of {sessions}"));
            }
            Event::TrialDone {
                done,
                planned,
                left,
                layer,
                point,
                ..
            } => {
                self.bar
                    .set_position((self.advance(*done, *planned) * STEPS) as u64);
                let left = left.map_or(String::new(), |left| {
                    format!("{} left, ", HumanDuration(rounded(left)))
                });
                let at = format!("{layer}: {point}").replace('\n', " ");
                self.bar
                    .set_message(format!("{done}/{planned} trials, {left}{}", plain(&at)));
            }
            Event::Note(text) => self.line(text),
            Event::Warning { text, hint } => self.warn(text, hint.as_deref()),
            Event::RunEnded { .. } => self.bar.finish_and_clear(),
            _ => {}
        }
    }

    /// The share that is done, or was thought to be.
    fn advance(&self, done: u64, planned: u64) -> f64 {
        let now = done as f64 / planned.max(done).max(1) as f64;
        self.share.set(self.share.get().max(now));
        self.share.get()
    }

    fn line(&self, text: &str) {
        if self.loud {
            self.bar.suspend(|| say(text));
        }
    }

    fn warn(&self, text: &str, hint: Option<&str>) {
        self.bar.suspend(|| {
            say(format!("warning: {text}"));
            if let Some(hint) = hint {
                say(format!("hint: {hint}"));
            }
        });
    }
}

fn rounded(left: Duration) -> Duration {
    Duration::from_secs(left.as_secs().max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_never_goes_back() {
        let progress = Progress::new();
        let seen: Vec<f64> = [
            (1, 10),
            (5, 10),
            (6, 40),
            (20, 40),
            (30, 40),
            (40, 40),
            (41, 40),
        ]
        .map(|(done, planned)| progress.advance(done, planned))
        .to_vec();
        assert!(
            seen.is_sorted() && (seen[1] - 0.5).abs() < 1e-12,
            "{seen:?}"
        );
        assert!((seen[5] - 1.0).abs() < 1e-12 && seen[6] <= 1.0);
    }
}
