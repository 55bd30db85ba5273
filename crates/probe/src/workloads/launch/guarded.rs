//! The guard's part of a launch: X server and package, uncounted launches, and the counted
//! one.

use std::{os::fd::BorrowedFd, time::Duration};

use layermark_model::Warmth;

use super::{
    counting::Counting,
    display::Display,
    inside,
    params::LaunchCache,
    ready,
    start::{LaunchSite, Launched},
};
use crate::ProbeError;
use crate::programs::{guard::Guarded, tree::Tree};

/// Maximum number of repetitions of a launch that should be warm and was not.
const AGAIN: u64 = 2;

/// Launches of one trial.
pub struct Launches {
    pub site: LaunchSite,
    /// Number of uncounted launches before the counted one.
    pub warmups: u64,
    pub counting: Counting,
}

impl Launches {
    pub fn new(site: LaunchSite, warmups: u64) -> Self {
        // Counts without what strace reads.
        let counting = if site.p.tracing {
            Counting::default()
        } else {
            Counting::make()
        };
        Self {
            site,
            warmups,
            counting,
        }
    }

    /// Makes what the programs need besides the layer. Called in the guard.
    pub fn scene(&mut self, tree: &mut Tree) -> Result<(), ProbeError> {
        let site = &mut self.site;
        if site.p.listing {
            inside::room(site.user)?;
        }
        if ready::parse(&site.p.ready)?.0.needs_display() {
            let display = Display::start(&site.p.screen, &site.home, site.user)?;
            // Excluded first, because it is not one of the program's processes, even if a later
            // step fails.
            tree.spared.insert(display.pid());
            site.display = Some(display);
        }
        // Done last, because the package must see the directory that the X server has created.
        if let Some(root) = &site.root {
            inside::mounts(root, site.user, site.display.is_some())?;
        }
        Ok(())
    }
}

impl Guarded for Launches {
    type Done = Launched;

    fn grace(&self) -> Duration {
        self.site.p.grace()
    }

    fn prepare(&mut self, tree: &mut Tree, asker: BorrowedFd<'_>) -> Result<(), ProbeError> {
        self.scene(tree)?;
        self.counting.enter();
        let site = &self.site;
        for _ in 0..self.warmups {
            site.aside("prepare", &site.p.prepare, tree, asker)?;
            let made = site.launch(tree, &mut Counting::default(), asker);
            tree.stop(site.p.grace());
            made?;
        }
        site.aside("prepare", &site.p.prepare, tree, asker)
    }

    /// The counted launch. It is repeated when it is not as warm as requested.
    fn work(&mut self, tree: &mut Tree, asker: BorrowedFd<'_>) -> Result<Launched, ProbeError> {
        let (site, mut remade) = (&self.site, 0);
        loop {
            let mut done = site.launch(tree, &mut self.counting, asker)?;
            let cold =
                Warmth::of(done.launch.major_faults, done.launch.input_blocks) == Warmth::Cold;
            if site.p.cache == LaunchCache::Warm && cold && remade < AGAIN && !site.p.tracing {
                tree.stop(site.p.grace());
                site.aside("conclude", &site.p.conclude, tree, asker)?;
                site.aside("prepare", &site.p.prepare, tree, asker)?;
                remade += 1;
                continue;
            }
            done.launch.remade = remade;
            site.mask(&mut done.launch);
            return Ok(done);
        }
    }

    fn conclude(
        &mut self,
        tree: &mut Tree,
        asker: BorrowedFd<'_>,
    ) -> Result<Vec<String>, ProbeError> {
        let site = &self.site;
        site.aside("conclude", &site.p.conclude, tree, asker)?;
        Ok(Vec::new())
    }

    fn tidy(&mut self) {
        self.counting = Counting::default();
        self.site.display = None;
    }

    fn masked(&self, text: String) -> String {
        self.site.masked(text)
    }
}
