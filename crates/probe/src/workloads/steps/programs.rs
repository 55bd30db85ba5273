//! The guard's part of a step: setup, prepare, the execution, and what it has left.

use std::{os::fd::BorrowedFd, path::PathBuf, time::Duration};

use layermark_model::Stopped;
use layermark_sys::process::Io;
use serde::{Deserialize, Serialize};

use super::{
    capture::{Capture, StepFigure},
    expect::Expect,
    params::StepParams,
    tree,
};
use crate::{
    ProbeError,
    programs::{guard::Guarded, tree::Tree},
    usage,
    workloads::{
        launch::{
            guarded::Launches,
            start::{LaunchSite, Launched},
        },
        work_dir::{self, WorkDir},
    },
};

/// The commands of a step, which is executed several times in a block.
pub struct StepPrograms {
    launches: Launches,
    p: StepParams,
    expected: Vec<Expect>,
    /// Whether `setup` has to be run first.
    set_up: bool,
    /// The tree that is copied before each execution.
    source: Option<PathBuf>,
    /// The files that tested the directory of the copy.
    tests: Option<WorkDir>,
    /// The shortest time to create one of them, ns.
    least_ns: Option<u64>,
    /// The trees before the execution, in words.
    before: Vec<String>,
    /// Whether an execution was not concluded.
    open: bool,
}

/// An execution that has ended as expected.
#[derive(Debug, Serialize, Deserialize)]
pub struct StepDone {
    pub launched: Launched,
    /// Figures that it has printed.
    pub figures: Vec<StepFigure>,
    /// Whether processes were ended that it had left running.
    pub left: bool,
    /// Whether it has written to files.
    pub wrote: bool,
    /// CPU time of all processes before it, and of this one, ns.
    pub cpu_before_ns: u64,
    /// CPU time of its processes to their end, and of this one meanwhile, ns.
    pub programs_ns: u64,
}

impl StepPrograms {
    pub fn new(
        site: LaunchSite,
        p: StepParams,
        set_up: bool,
        source: Option<PathBuf>,
    ) -> Result<Self, ProbeError> {
        Ok(Self {
            launches: Launches::new(site, 0),
            expected: p.expected()?,
            p,
            set_up,
            source,
            tests: None,
            least_ns: None,
            before: Vec::new(),
            open: false,
        })
    }

    /// The content of the expected trees: `src: 3 entries, 0123456789abcdef`.
    fn trees(&self) -> Result<Vec<String>, ProbeError> {
        let mut all = Vec::new();
        for expected in &self.expected {
            if let Expect::Tree(dir) = expected {
                let at = self.launches.site.dir.join(dir);
                let content =
                    tree::content(&at).map_err(|e| ProbeError::io("read the tree", &at, &e))?;
                all.push(format!("`{dir}`: {content}"));
            }
        }
        Ok(all)
    }

    /// An error unless the step has ended as expected.
    fn judge(&self, code: Option<i32>, capture: &Capture) -> Result<(), ProbeError> {
        let (run, said) = (&self.p.run, capture.said());
        let mut wanted = 0;
        for expected in &self.expected {
            if let Expect::Exit(code) = expected {
                wanted = *code;
            }
        }
        if code != Some(wanted) {
            let code = code.map_or_else(|| "unknown".into(), |code| code.to_string());
            let text = format!("`{run}` ended with exit code {code} instead of {wanted}{said}");
            return Err(ProbeError {
                errno: tree::is_full(&self.launches.site.dir).then_some(libc::ENOSPC),
                ..ProbeError::new(text).hint("--expect exit=CODE, where another exit code is right")
            });
        }
        if let Some(missing) = capture.missing() {
            let text = format!("`{run}` printed no line that matches `{missing}`{said}");
            return Err(ProbeError::new(text));
        }
        Ok(())
    }
}

impl Guarded for StepPrograms {
    type Done = StepDone;

    fn grace(&self) -> Duration {
        self.launches.site.p.grace()
    }

    fn prepare(&mut self, tree: &mut Tree, asker: BorrowedFd<'_>) -> Result<(), ProbeError> {
        self.launches.scene(tree)?;
        self.launches.counting.enter();
        let site = &self.launches.site;
        if self.set_up {
            site.aside("setup", &self.p.setup, tree, asker)?;
        }
        self.renew(tree, asker)
    }

    /// Executes the step, and ends the processes that it has left: they would run in the turns of
    /// other layers.
    fn work(&mut self, tree: &mut Tree, asker: BorrowedFd<'_>) -> Result<StepDone, ProbeError> {
        let lines = self.expected.iter().filter_map(|e| match e {
            Expect::Line(regex) => Some(regex.clone()),
            _ => None,
        });
        let capture = Capture::new(lines);
        // Processes of the step count here once they have been waited for.
        let written = || Io::of(std::process::id()).written_by_calls;
        let (cpu_ns, written_before) = (usage::with_children_ns(), written());
        let Launches { site, counting, .. } = &mut self.launches;
        let launched = site.launch_until(&capture, "", tree, counting, asker);
        let launched = launched.map_err(|e| ProbeError {
            message: e.message + &capture.said(),
            ..e
        })?;
        let left = tree.stop(site.p.grace()) != Stopped::Itself;
        self.open = true;
        self.judge(launched.launch.exit, &capture)?;
        let open = |text: &str| self.launches.site.masked(text.to_owned()) == text;
        let mut figures = capture.figures();
        figures.retain(|figure| open(&figure.name) && open(&figure.unit));
        Ok(StepDone {
            launched,
            figures,
            left,
            // What is written to a pipe between two of its processes cannot be told from a file.
            wrote: written().saturating_sub(written_before) > capture.bytes(),
            cpu_before_ns: cpu_ns,
            programs_ns: usage::with_children_ns().saturating_sub(cpu_ns),
        })
    }

    /// Checks what the execution has left, and cleans up.
    fn conclude(
        &mut self,
        tree: &mut Tree,
        asker: BorrowedFd<'_>,
    ) -> Result<Vec<String>, ProbeError> {
        if !std::mem::take(&mut self.open) {
            return Ok(Vec::new());
        }
        let after = self.trees()?;
        let site = &self.launches.site;
        site.aside("check", &self.p.check, tree, asker)?;
        site.aside("cleanup", &self.p.cleanup, tree, asker)?;
        let texts = |when: &str, trees: &[String]| -> Vec<String> {
            let all = trees.iter();
            all.map(|text| format!("{when}, {text}")).collect()
        };
        let outcome = [texts("before", &self.before), texts("after", &after)].concat();
        self.before = after;
        Ok(outcome)
    }

    fn renew(&mut self, tree: &mut Tree, asker: BorrowedFd<'_>) -> Result<(), ProbeError> {
        let site = &self.launches.site;
        if let Some(source) = &self.source {
            // What is removed after the test could slow what it has found quick.
            self.tests = None;
            let emptied = match work_dir::replace(&site.dir, &mut self.least_ns) {
                Ok([old, tests]) => {
                    self.tests = Some(tests);
                    old.remove()
                }
                // Not every layer can rename a directory.
                Err(_) => tree::empty(&site.dir),
            };
            emptied.map_err(|e| ProbeError::io("empty", &site.dir, &e))?;
            tree::copy(source, &site.dir)?;
        }
        site.aside("prepare", &self.p.prepare, tree, asker)?;
        self.before = self.trees()?;
        Ok(())
    }

    fn tidy(&mut self) {
        // The guard ends without dropping anything.
        self.tests = None;
        self.launches.tidy();
    }

    fn masked(&self, text: String) -> String {
        self.launches.masked(text)
    }
}
