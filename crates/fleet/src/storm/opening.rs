//! Layers of a storm: the own directory of each host, the share, and the share with the packaged files of all hosts.

use layermark_lab::other_machine;
use layermark_model::{Facts, FleetPlace, Machine, ONE_DIRECTORY, ONE_PACKAGE, Point};

use super::{GOING_ON, OnStorm, Storm, StormEvent};
use crate::{
    check::{facts_of, in_ms, layers, lose_without, open_order, opened, with_all},
    coordinator::Fleet,
    protocol::{Answer, LayerOrder, LookOrder, Opened, Order, PackageOrder, with_hint},
};

const PACKAGING: &str = "the package of all hosts was made";
const LOOKING: &str = "the package of all hosts was looked for";
/// How many hosts make a package that too few others see: each time, those wait for ten seconds.
const TRIES: usize = 8;

/// A package, and the hosts that see it. The first one has made it.
struct Package {
    name: String,
    seen_by: Vec<usize>,
}

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
        let opened = opened(fleet, &order);
        // If it is lost now, its package may be gone. That is no fault of the others, which are set up once more.
        let is_gone = self.lacks_package(fleet);
        for (host, opened) in opened {
            let looked = if is_gone { 1 } else { opened.layers.len() };
            lose_without(fleet, host, opened.layers.iter().skip(1).take(looked));
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

    /// Whether the host that has made the package of all hosts was lost, and its files with it.
    pub(super) fn lacks_package(&self, fleet: &Fleet) -> bool {
        self.packager.is_some_and(|host| !fleet.hosts[host].is_up())
    }

    /// Lets a host put the packaged files of all hosts on the share, another one if it cannot, or if most hosts do not see
    /// them: it may have another directory at that path. Hosts that do not see those of most are lost. Returns the name
    /// of the work directory that has them; `None` if no point has any, or no host is left.
    fn package(&mut self, fleet: &mut Fleet) -> Option<String> {
        self.packager = None;
        let points = self.request.points.iter();
        let points: Vec<Point> = points.filter(|at| has_one_package(at)).cloned().collect();
        if points.is_empty() {
            return None;
        }
        let mut made: Vec<Package> = Vec::new();
        let most_seen =
            |made: &[Package]| made.iter().map(|of| of.seen_by.len()).max().unwrap_or(0);
        while made.len() < TRIES {
            let knows = |host: &usize| made.iter().any(|of| of.seen_by.contains(host));
            let others = fleet.up().into_iter().filter(|host| !knows(host));
            let others: Vec<usize> = others.collect();
            if others.is_empty() || most_seen(&made) >= others.len() {
                break;
            }
            let host = others[spread(made.len(), others.len())];
            let Some(name) = self.made_by(fleet, host, &points) else {
                continue;
            };
            let seen_by = self.seen_by(fleet, host, &name);
            made.push(Package { name, seen_by });
            // The package of a host that has gone does not count.
            made.retain(|of| fleet.hosts[of.seen_by[0]].is_up());
        }
        let most = most_seen(&made);
        let chosen = made.into_iter().find(|of| of.seen_by.len() == most)?;
        let maker = chosen.seen_by[0];
        self.packager = Some(maker);
        let share = &self.request.share;
        let also = match most {
            1 => String::new(),
            most => format!(", where {most} hosts see it"),
        };
        let why = format!(
            "it does not see the package that {} has put into {share}{also}: that is another directory here, or its \
             client remembers for long which names there are; hint: compare what is mounted there: findmnt -T {}",
            fleet.hosts[maker].name,
            shell_words::quote(share)
        );
        for host in fleet.up() {
            if !chosen.seen_by.contains(&host) {
                fleet.lose(host, LOOKING, &why);
            }
        }
        Some(chosen.name)
    }

    /// Lets this host make the package. It is lost if it cannot.
    fn made_by(&self, fleet: &mut Fleet, host: usize, points: &[Point]) -> Option<String> {
        let order = Order::Package(Box::new(PackageOrder {
            dir: self.request.dir.clone(),
            share: self.request.share.clone(),
            points: points.to_vec(),
            silence_ms: in_ms(self.request.silence),
        }));
        match fleet.order(&[host], PACKAGING, &order).pop()?.answer {
            Answer::Packaged { name } => return Some(name),
            Answer::Failed { message, hint, .. } => {
                fleet.lose(host, PACKAGING, &with_hint(message, hint));
            }
            _ => fleet.lose(host, PACKAGING, "it answered something else"),
        }
        None
    }

    /// The hosts that see the package of `maker`, which comes first. Those that cannot look are lost.
    fn seen_by(&self, fleet: &mut Fleet, maker: usize, name: &str) -> Vec<usize> {
        let order = Order::Look(Box::new(LookOrder {
            share: self.request.share.clone(),
            name: name.to_owned(),
        }));
        let others: Vec<usize> = fleet.up().into_iter().filter(|at| *at != maker).collect();
        let mut seen_by = vec![maker];
        for answered in fleet.order(&others, LOOKING, &order) {
            let host = answered.host;
            match answered.answer {
                Answer::Looked { seen: true } => seen_by.push(host),
                Answer::Looked { seen: false } => {}
                Answer::Failed { message, hint, .. } => {
                    fleet.lose(host, LOOKING, &with_hint(message, hint));
                }
                _ => fleet.lose(host, LOOKING, "it answered something else"),
            }
        }
        seen_by
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

/// The `nth` place of a list, from 0: the first one, then places far from all earlier ones. Hosts with the same fault are
/// often neighbours, such as those of a rack.
fn spread(nth: usize, of: usize) -> usize {
    /// Multiples of the golden ratio, modulo 1, are spread more evenly than any others.
    const GOLDEN: f64 = 0.618_033_988_749_894_8;
    let place = (nth as f64 * GOLDEN).fract() * of as f64;
    (place as usize).min(of.saturating_sub(1))
}

/// Whether all hosts use the same packaged files at a point, or make theirs in the same directory.
pub(super) fn has_one_package(point: &Point) -> bool {
    point.flag(ONE_PACKAGE) || point.flag(ONE_DIRECTORY)
}

/// Type and options of the mount of a share, in words.
fn mount_of(share: &Facts) -> Option<String> {
    let mount = share.mounts.first()?;
    Some(format!("{} with {}", mount.fs, mount.common_options()))
}
