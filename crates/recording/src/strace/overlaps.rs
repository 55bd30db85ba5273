//! Calls of different tasks that overlap in time, in an order that their outcomes allow.
//!
//! A log has calls in the order of their ends as strace saw them. Two calls overlap if the later one began before the
//! other one had ended, and the kernel may have done the later one first. Then a directory is there for a call that did
//! not find it, say. Such a call is moved: to just before the other one's end, when it was under way.
//!
//! Lines are held back from the end of a call until no call is unfinished that may have to come before it.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    hash::BuildHasher,
};

use super::{
    claims::{Claim, Named, Orders, claims_of, has_names, names, orders},
    lex::{Ended, Line},
    paths::parent,
    sequence::Sequence,
};
use crate::limits;

/// The most lines that are held, and their bytes. Behind a call that hangs, nothing is held again.
pub(super) const LINES: usize = 4096;
const BYTES: usize = 16 << 20;
/// The most names of which is known whether they are there.
const KNOWN: usize = 1 << 16;
/// Below more directories than this, nothing is known.
const DEEPEST: usize = 100;
/// The longest begin of a call that is remembered, bytes.
const BEGIN: usize = limits::LINE as usize;

/// Lines that are held back, and why.
#[derive(Default)]
pub(super) struct Overlaps {
    /// Calls with names in the tree, by task.
    unfinished: HashMap<u32, Unfinished>,
    held: VecDeque<Held>,
    bytes: usize,
    /// The number of the next line.
    next: u64,
    /// What is given next, the last one first: the first line that is held, and those that were moved to before it.
    due: Vec<u64>,
    /// Whether a name is there, by its hash, as the call in the line of this number shows it. Empty as long as no calls
    /// overlap.
    there: HashMap<u64, (bool, u64)>,
    /// The last line in which a name was moved, by its hash: what was below it is not known any more.
    moved: HashMap<u64, u64>,
    some_overlap: bool,
    /// Lines that are held and free a descriptor's number (all numbers: `None`), by process if it is known.
    freed: HashMap<(Option<u32>, Option<i64>), u64>,
    /// Tasks of whom a line is held that may change their directory.
    entering: HashSet<u32>,
}

/// A call that has begun.
struct Unfinished {
    begun: u64,
    text: String,
    names: Vec<Named>,
    /// Calls that have ended since then, and that may have to come after it.
    met: Vec<u64>,
}

/// A line that is held back.
struct Held {
    /// `None` once it was given.
    given: Option<Given>,
    /// The line in which its call began.
    begun: u64,
    call: Call,
    /// How many calls are unfinished that may have to come before it.
    waits: usize,
}

impl Held {
    fn bytes(&self) -> usize {
        let text = self.given.as_ref().map_or(0, |given| given.text.len());
        text + self.call.claims.iter().map(Claim::bytes).sum::<usize>()
    }
}

/// A call that has ended.
#[derive(Default)]
struct Call {
    claims: Vec<Claim>,
    /// Calls that overlap with it and have to come before it.
    after: Vec<u64>,
}

/// A line that was held back.
pub(super) struct Given {
    task: u32,
    at: Option<u64>,
    text: String,
    in_brackets: bool,
    /// It is given before a line that comes earlier in the log.
    pub moved: bool,
}

impl Given {
    pub fn line(&self) -> Line<'_> {
        Line {
            task: self.task,
            at: self.at,
            text: &self.text,
            in_brackets: self.in_brackets,
        }
    }
}

impl Overlaps {
    /// Takes the next line of the log. Whether it is held back: otherwise it comes now.
    pub fn holds(&mut self, line: &Line<'_>, sequence: &mut Sequence) -> bool {
        if self.held.is_empty() && !line.text.starts_with("+++") {
            // It may be new, and its directory is needed.
            sequence.task(line.task);
        }
        let now = self.next;
        let (begun, call) = self.call(line, sequence);
        let waits = self.meet(&call.claims);
        let holds = waits > 0 || !self.held.is_empty();
        if holds {
            self.changes_task(line, sequence);
            let held = Held {
                given: Some(Given {
                    task: line.task,
                    at: line.at,
                    text: line.text.to_owned(),
                    in_brackets: line.in_brackets,
                    moved: false,
                }),
                begun,
                call,
                waits,
            };
            self.bytes += held.bytes();
            self.held.push_back(held);
        }
        self.next = now + 1;
        if self.held.len() > LINES || self.bytes > BYTES {
            self.end();
        }
        holds
    }

    /// No line is held for the calls that are unfinished now: the log has ended, or they take too long.
    pub fn end(&mut self) {
        self.unfinished.clear();
        self.held.iter_mut().for_each(|held| held.waits = 0);
    }

    /// The next line that is not held any more.
    pub fn give(&mut self) -> Option<Given> {
        while self.held.front().is_some_and(|held| held.given.is_none()) {
            let held = self.held.pop_front()?;
            self.bytes -= held.bytes();
        }
        if self.held.is_empty() {
            self.freed.clear();
            self.entering.clear();
            return None;
        }
        if self.due.is_empty() {
            self.due = self.next_due()?;
        }
        let number = self.due.pop()?;
        let moved = number != self.first();
        let mut given = self.at(number)?.given.take()?;
        self.bytes -= given.text.len();
        given.moved = moved;
        Some(given)
    }

    /// The number of the first line that is held.
    fn first(&self) -> u64 {
        self.next - self.held.len() as u64
    }

    /// The line of a number, if it is held.
    fn at(&mut self, number: u64) -> Option<&mut Held> {
        let at = number.checked_sub(self.first())?;
        self.held.get_mut(at as usize)
    }

    /// The call that ends in a line, and where it began.
    fn call(&mut self, line: &Line<'_>, sequence: &Sequence) -> (u64, Call) {
        let (now, text) = (self.next, line.text);
        if text.starts_with("---") {
            return (now, Call::default());
        }
        // If a call begins in this line, the end of the one before was not seen.
        let unfinished = self.unfinished.remove(&line.task);
        for number in unfinished.iter().flat_map(|call| &call.met) {
            if let Some(held) = self.at(*number) {
                held.waits -= 1;
            }
        }
        if text.starts_with("<... ") {
            let resumed = unfinished.zip(text.split_once(" resumed>"));
            return resumed.map_or((now, Call::default()), |(call, (_, rest))| {
                (call.begun, self.resumed(line.task, call, rest, sequence))
            });
        }
        if let Some(begin) = text.strip_suffix("<unfinished ...>") {
            self.begins(line.task, begin.trim_end(), sequence);
            return (now, Call::default());
        }
        let mut call = Call::default();
        if self.some_overlap
            && has_names(text)
            && let Some(ended) = Ended::read(text)
        {
            call.claims = claims_of(&ended, self.names(line.task, &ended, sequence));
            self.learn(&mut call.claims);
        }
        (now, call)
    }

    fn names(&self, task: u32, e: &Ended<'_>, sequence: &Sequence) -> Vec<Named> {
        let own = sequence.live.get(&task);
        let cwd = own.filter(|_| !self.entering.contains(&task));
        names(e, cwd.map(|own| own.cwd.as_slice()), &sequence.root)
    }

    fn begins(&mut self, task: u32, begin: &str, sequence: &Sequence) {
        if begin.len() > BEGIN || self.unfinished.len() as u64 >= limits::TASKS || !has_names(begin)
        {
            return;
        }
        let whole = format!("{begin}) = 0");
        let names = Ended::read(&whole).map(|e| self.names(task, &e, sequence));
        if let Some(names) = names.filter(|names| !names.is_empty()) {
            let call = Unfinished {
                begun: self.next,
                text: begin.to_owned(),
                names,
                met: Vec::new(),
            };
            self.unfinished.insert(task, call);
            self.some_overlap = true;
        }
    }

    /// Learns which names are there now, and which were after the call before.
    fn learn(&mut self, claims: &mut [Claim]) {
        for claim in claims {
            if self.there.len() >= KNOWN || self.moved.len() >= KNOWN {
                self.there.clear();
                self.moved.clear();
            }
            let name = self.hash(&claim.path);
            if claim.moves() {
                self.moved.insert(name, self.next);
            }
            let before = self.there.insert(name, (claim.leaves(), self.next));
            let before = before.filter(|(_, at)| !self.has_moved(&claim.path, *at));
            claim.before = before.map(|(is_there, _)| is_there);
        }
    }

    fn hash(&self, path: &[u8]) -> u64 {
        self.there.hasher().hash_one(path)
    }

    /// Whether a directory above a name was moved after this line.
    fn has_moved(&self, path: &[u8], since: u64) -> bool {
        let above = std::iter::successors(Some(parent(path)), |at| Some(parent(at)));
        let mut above = above.take_while(|at| at.len() > 1);
        let near = above.by_ref().take(DEEPEST);
        let moved = near.map(|at| self.moved.get(&self.hash(at)));
        moved.flatten().any(|at| *at > since) || above.next().is_some()
    }

    /// Adds a call that has ended to those that unfinished calls have met. How many these are.
    fn meet(&mut self, claims: &[Claim]) -> usize {
        let mut count = 0;
        for other in self.unfinished.values_mut() {
            let meets = |name: &Named| claims.iter().any(|claim| name.may_meet(claim));
            if other.names.iter().any(meets) {
                other.met.push(self.next);
                count += 1;
            }
        }
        count
    }

    fn resumed(&mut self, task: u32, call: Unfinished, rest: &str, sequence: &Sequence) -> Call {
        let text = call.text + rest;
        let Some(ended) = Ended::read(&text) else {
            return Call::default();
        };
        let own = sequence.live.get(&task).map(|own| own.group);
        let opens = ended.name.starts_with("open") || ended.name == "creat";
        if opens && own.is_none() {
            // Whose descriptors these are is not known yet.
            return Call::default();
        }
        let mut claims = claims_of(&ended, call.names);
        let mut after = self.compare(&mut claims, &call.met);
        if opens {
            // Its descriptor had another file until then.
            let keys = [own, None].into_iter();
            let keys = keys.flat_map(|of| [(of, ended.returned), (of, None)]);
            let freed = keys.filter_map(|key| self.freed.get(&key));
            after.extend(freed.filter(|number| **number > call.begun));
        }
        Call { claims, after }
    }

    /// Compares a call that ends now with those that have ended since it began. Those that it must come before learn it;
    /// returns those that it must come after.
    fn compare(&mut self, claims: &mut [Claim], met: &[u64]) -> Vec<u64> {
        let (now, mut before, mut after) = (self.next, Vec::new(), Vec::new());
        let (mut is_last, mut emptied) = (true, false);
        // From the newest one back, until a change that led to what the call found.
        let mut open: Vec<&Claim> = claims.iter().collect();
        for number in met.iter().rev() {
            let Some(other) = self.at(*number) else { break };
            if other.given.is_none() {
                continue;
            }
            let others = &other.call.claims;
            let any = |is: fn(&Claim, &Claim) -> bool| {
                others
                    .iter()
                    .any(|other| open.iter().any(|own| is(other, own)))
            };
            match orders(others, &open, emptied) {
                Orders {
                    as_ended: true,
                    other: true,
                } => {}
                Orders {
                    as_ended: true,
                    other: false,
                } => after.push(*number),
                Orders {
                    as_ended: false,
                    other: true,
                } => {
                    before.push(*number);
                    if any(Claim::decides) {
                        // What others have seen since then is due to that one.
                        is_last = false;
                        after.clear();
                    }
                }
                // A third call is not known.
                Orders {
                    as_ended: false,
                    other: false,
                } => {
                    before.clear();
                    after.clear();
                    break;
                }
            }
            emptied |= any(Claim::empties);
            open.retain(|own| !others.iter().any(|other| other.leads_to(own)));
        }
        for number in before {
            let Some(other) = self.at(number) else {
                continue;
            };
            other.call.after.push(now);
            for other in &mut other.call.claims {
                if claims.iter().any(|own| other.lacks(own)) {
                    other.before = None;
                }
            }
        }
        if is_last {
            self.learn(claims);
        }
        after
    }

    /// The first line that is held, behind those that have to come before it, from the last one. `None` as long as an
    /// unfinished call may have to come before one of them.
    fn next_due(&self) -> Option<Vec<u64>> {
        let front = self.held.front()?;
        let mut due = Vec::new();
        // A task has one call at a time.
        let mut left = limits::TASKS;
        for number in &front.call.after {
            let known = due.len();
            if !self.comes_first(*number, &mut due, &mut left) {
                due.truncate(known);
            }
        }
        due.push(self.first());
        due.reverse();
        let waits = |number: &u64| self.held[(number - self.first()) as usize].waits > 0;
        (!due.iter().any(waits)).then_some(due)
    }

    /// Adds a call to those that come before the first line, behind those that it must come after. Whether all of them
    /// were under way then.
    fn comes_first(&self, number: u64, due: &mut Vec<u64>, left: &mut u64) -> bool {
        let first = self.first();
        let Some(at) = number.checked_sub(first) else {
            return true;
        };
        let held = &self.held[at as usize];
        if held.given.is_none() || due.contains(&number) {
            return true;
        }
        // Also if they come after each other in a circle.
        if at == 0 || held.begun >= first || *left == 0 {
            return false;
        }
        *left -= 1;
        let after = &held.call.after;
        let all = after
            .iter()
            .all(|number| self.comes_first(*number, due, left));
        if all {
            due.push(number);
        }
        all
    }

    /// Remembers what a line changes of its task, so that calls do not change places with it.
    fn changes_task(&mut self, line: &Line<'_>, sequence: &Sequence) {
        let text = line.text;
        let call = text.strip_prefix("<... ").unwrap_or(text);
        if call.starts_with("chdir") || call.starts_with("fchdir") {
            self.entering.insert(line.task);
        }
        let of_all = text.starts_with("close_range(").then_some(None);
        let of_one = || {
            let number = text.strip_prefix("close(")?;
            let end = number.find(|c: char| !c.is_ascii_digit())?;
            Some(Some(number[..end].parse().ok()?))
        };
        if let Some(freed) = of_all.or_else(of_one) {
            let group = sequence.live.get(&line.task).map(|own| own.group);
            self.freed.insert((group, freed), self.next);
        }
    }
}
