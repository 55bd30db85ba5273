//! What a user sees while a run goes on: on a terminal only, on standard error.

use std::{
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
}

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
        Self { bar, loud }
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
                self.bar.set_length(*planned);
                self.bar.set_position(*done);
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
