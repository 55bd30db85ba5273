//! Layers of a storm: the own directory of each host, the share, and the share with the packaged files of all hosts.

use layermark_lab::other_machine;
use layermark_model::{Facts, FleetPlace, Machine, ONE_PACKAGE, Point};

use super::{GOING_ON, OnStorm, Storm, StormEvent};
use crate::{
    check::{facts_of, in_ms, layers, open_order, opened, with_all, with_hint},
    coordinator::Fleet,
    protocol::{Answer, LayerOrder, Opened, Order, PackageOrder},
};

const PACKAGING: &str = "the package of all hosts was made";

impl Storm<'_> {
    /// Sets up the layers of all hosts: the own directory, the share, and the share with the packaged files of all hosts if
    /// there are any.
    pub(super) fn open<E>(&mut self, fleet: &mut Fleet, on: OnStorm<'_, E>) -> Result<(), E> {
        let request = self.request;
        let mut layers = with_all(&layers(Some(&request.share)), &request.points);
        if let Some(name) = self.package(fleet) {
            let shared = &mut layers[FleetPlace::Share as usize];
            shared
                .points
                .retain(|at| !has_one_package(&request.points[*at]));
            let mut spec = shared.spec.clone();
            spec.options.insert("packaged".into(), name);
            let points = Vec::new();
            layers.push(LayerOrder { spec, points });
        }
        let limits = (fleet.hosts.len(), request.silence);
        let order = open_order(&request.dir, layers, &request.points, limits);
        for (host, opened) in opened(fleet, &order) {
            let mut shares = opened.layers.iter().skip(1);
            let failed = shares.find_map(|share| share.failed.clone());
            if let Some((why, hint)) = failed {
                fleet.lose(host, "the share was set up", &with_hint(why, hint));
            }
            match self.differs(host, &opened) {
                Ok(all) => {
                    for one in all {
                        on(StormEvent::Differs(&fleet.hosts[host].name, &one))?;
                    }
                    self.add(host, opened);
                }
                Err(why) => fleet.lose(host, GOING_ON, &why),
            }
        }
        Ok(())
    }

    /// Lets a host put the packaged files of all hosts on the share, another one if it cannot. Returns the name of the work
    /// directory that has them; `None` if no point has any, or no host is left.
    fn package(&mut self, fleet: &mut Fleet) -> Option<String> {
        self.packager = None;
        let request = self.request;
        let points = request.points.iter().filter(|at| has_one_package(at));
        let points: Vec<Point> = points.cloned().collect();
        if points.is_empty() {
            return None;
        }
        let order = Order::Package(Box::new(PackageOrder {
            dir: request.dir.clone(),
            share: request.share.clone(),
            points,
            silence_ms: in_ms(request.silence),
        }));
        for host in fleet.up() {
            let answered = fleet.order(&[host], PACKAGING, &order).pop();
            match answered.map(|answered| answered.answer) {
                Some(Answer::Packaged { name }) => {
                    self.packager = Some(host);
                    return Some(name);
                }
                Some(Answer::Failed { message, hint }) => {
                    fleet.lose(host, PACKAGING, &with_hint(message, hint));
                }
                Some(_) => fleet.lose(host, PACKAGING, "it answered something else"),
                None => {}
            }
        }
        None
    }

    /// How a host differs from what it was before the run went on. `Err`: it is another machine, whose times would be
    /// compared with those of the first.
    fn differs(&self, host: usize, now: &Opened) -> Result<Vec<String>, String> {
        let fleet = self.run.fleet.as_deref();
        let before = self.of[host].and_then(|at| fleet?.hosts.get(at));
        let Some((before, then)) = before.and_then(|b| Some((b, b.machine.as_ref()?))) else {
            return Ok(Vec::new());
        };
        if let Some(difference) = other_machine(then, &now.machine) {
            return Err(format!("it is another machine: {difference}"));
        }
        let mut all = Vec::new();
        if then.kernel != now.machine.kernel {
            let (then, now) = (&then.kernel, &now.machine.kernel);
            all.push(format!("kernel {then} then, {now} now"));
        }
        let share = facts_of(now, 1).map(|(facts, _)| facts);
        let mounts =
            (before.share.as_ref().and_then(mount_of)).zip(share.as_ref().and_then(mount_of));
        if let Some((then, now)) = mounts.filter(|(then, now)| then != now) {
            all.push(format!("its share was mounted as {then}, and is as {now}"));
        }
        Ok(all)
    }

    /// Keeps what a host has set up. What it had before stays if it could not set it up now.
    fn add(&mut self, host: usize, opened: Opened) {
        let Some(at) = self.of[host] else { return };
        let facts = |layer| facts_of(&opened, layer).map(|(facts, _)| facts);
        let (own, share) = (facts(0), facts(1));
        let is_up = share.is_some();
        let of = &mut self.of_fleet().hosts[at];
        of.own = own.or(of.own.take());
        of.share = share.or(of.share.take());
        of.machine = Some(opened.machine.clone());
        if is_up && self.shown.is_none() {
            let mut layers = opened.layers.into_iter();
            self.shown = layers.next().zip(layers.next()).map(<[_; 2]>::from);
            self.run.machine = Machine {
                label: self.run.machine.label.take(),
                ..opened.machine
            };
        }
    }
}

/// Whether all hosts use the same packaged files at a point.
pub(super) fn has_one_package(point: &Point) -> bool {
    point.flag(ONE_PACKAGE)
}

/// Type and options of the mount of a share, in words.
fn mount_of(share: &Facts) -> Option<String> {
    let mount = share.mounts.first()?;
    Some(format!("{} with {}", mount.fs, mount.common_options()))
}
