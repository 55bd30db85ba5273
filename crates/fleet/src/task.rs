//! The task: what a launcher starts on each host. It obeys orders from its standard input, and answers in frames.

use std::{
    collections::BTreeMap,
    env, fs,
    io::{self, BufRead, Read, Write},
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    thread,
    time::{Duration, Instant},
};

use layermark_lab::{DrivenHost, DrivenLayer, DrivenTrial, StepError, Stop};
use layermark_model::{Point, Spec, hex};
use layermark_sys::process::Schedstat;
use sha2::{Digest, Sha256};

use crate::{
    frame,
    protocol::{
        Answer, FromTask, Hello, LONGEST_ORDER, LayerOrder, LookOrder, OpenOrder, Opened,
        OpenedLayer, Order, PackageOrder, PrepareOrder, ToTasks, VERSION, spec_with_host,
        with_host,
    },
};

/// Interval of [`Answer::Alive`]. The thread that obeys looks after its probe ten times in it, so one that only waits for a
/// probe has used CPU time.
const ALIVE: Duration = Duration::from_secs(1);

/// Variables in which launchers tell a task its number.
const NUMBERS: [&str; 6] = [
    "LAYERMARK_TASK",
    "SLURM_PROCID",
    "FLUX_TASK_RANK",
    "OMPI_COMM_WORLD_RANK",
    "PMIX_RANK",
    "PMI_RANK",
];

/// Who a task is, by its arguments and its environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskName {
    /// Its number, from 0.
    pub number: u32,
    /// Its host.
    pub host: String,
}

impl TaskName {
    /// From the arguments `[NUMBER HOST]`; without them, from the variables of a launcher.
    ///
    /// # Errors
    ///
    /// If neither tells the number.
    pub fn find(
        arguments: &[String],
        variables: &BTreeMap<String, String>,
    ) -> Result<Self, String> {
        let named = arguments.first().map(String::as_str);
        let from_launcher = || NUMBERS.iter().find_map(|name| variables.get(*name));
        let number = named.or_else(|| from_launcher().map(String::as_str));
        let number = number.and_then(|n| n.trim().parse().ok()).ok_or_else(|| {
            format!(
                "its number is not known: the launcher sets none of {}",
                NUMBERS.join(", ")
            )
        })?;
        let host = arguments
            .get(1)
            .or_else(|| variables.get("SLURMD_NODENAME"));
        let host = host.cloned().unwrap_or_else(|| {
            let name = rustix::system::uname();
            name.nodename().to_string_lossy().into_owned()
        });
        Ok(Self { number, host })
    }
}

/// The output, which two threads write.
struct Said<W> {
    task: u32,
    to: Mutex<(W, u64)>,
    /// Number of the order at work; 0: none.
    at_work: AtomicU64,
}

impl<W: Write> Said<W> {
    fn say(&self, n: u64, answer: Answer) -> io::Result<()> {
        let message = serde_json::to_vec(&FromTask { n, answer })?;
        let mut to = self.to.lock().unwrap_or_else(PoisonError::into_inner);
        let (out, next) = &mut *to;
        out.write_all(&frame::cut(self.task, next, &message))?;
        out.flush()
    }
}

/// Runs a task until its input ends or it is told to quit.
///
/// # Errors
///
/// If its output fails, because the coordinator has gone.
pub fn serve(
    name: &TaskName,
    input: impl Read + Send + 'static,
    output: impl Write + Send,
) -> io::Result<()> {
    let said = Said {
        task: name.number,
        to: Mutex::new((output, 0)),
        at_work: AtomicU64::new(0),
    };
    let stop = Stop::new();
    let orders = listen(input, name.number, &stop)?;
    said.say(0, Answer::Hello(Box::new(hello(name))))?;
    let (end, ended) = channel::<()>();
    let at_work = &said;
    let obeying = rustix::thread::gettid().as_raw_nonzero().get();
    thread::scope(|scope| {
        thread::Builder::new()
            .name("alive".into())
            .spawn_scoped(scope, move || {
                keep_alive(at_work, &ended, ALIVE, &mut || used_ns(obeying));
            })?;
        let obeyed = obey(name, &orders, &said, &stop);
        drop(end);
        obeyed
    })
}

/// Says every second that an order is at work, if `used`, the CPU time of the work, is another one than a second ago. A
/// thread that hangs is no work, whatever other threads do: the coordinator then waits as long as for a dead host.
fn keep_alive<W: Write>(
    said: &Said<W>,
    ended: &Receiver<()>,
    every: Duration,
    used: &mut dyn FnMut() -> u64,
) {
    use std::sync::mpsc::RecvTimeoutError::Timeout;
    let mut before = used();
    while ended.recv_timeout(every) == Err(Timeout) {
        let n = said.at_work.load(Ordering::SeqCst);
        let now = used();
        let works = now != before;
        before = now;
        if n > 0 && works && said.say(n, Answer::Alive).is_err() {
            return;
        }
    }
}

/// CPU time of a thread of this process, nanoseconds. Not that of the probes: their heartbeats go on when nobody listens.
fn used_ns(thread: i32) -> u64 {
    let own = Schedstat::of(Path::new(&format!("/proc/self/task/{thread}")));
    own.map_or(0, |own| own.run_ns)
}

/// Reads orders in a thread. When the input ends, the coordinator has gone, and what is at work is cut.
fn listen(
    input: impl Read + Send + 'static,
    task: u32,
    stop: &Stop,
) -> io::Result<Receiver<Result<ToTasks, String>>> {
    let (send, orders) = channel();
    let stop = stop.clone();
    thread::Builder::new()
        .name("orders".into())
        .spawn(move || {
            hear(input, task, &send);
            stop.ask();
            stop.ask();
        })?;
    Ok(orders)
}

fn hear(input: impl Read, task: u32, send: &Sender<Result<ToTasks, String>>) {
    let mut input = io::BufReader::new(input);
    let mut line = Vec::new();
    loop {
        line.clear();
        let most = LONGEST_ORDER as u64 + 1;
        match (&mut input).take(most).read_until(b'\n', &mut line) {
            Ok(n) if n > 0 && line.last() == Some(&b'\n') => {}
            _ => return,
        }
        let order = match serde_json::from_slice::<ToTasks>(&line) {
            Ok(order) if order.to.is_empty() || order.to.contains(&task) => Ok(order),
            Ok(_) => continue,
            Err(e) => Err(format!("an order that it cannot read: {e}")),
        };
        if send.send(order).is_err() {
            return;
        }
    }
}

/// This program's binary as a hash.
///
/// # Errors
///
/// If it cannot be read.
pub fn own_hash() -> io::Result<String> {
    let mut file = fs::File::open("/proc/self/exe")?;
    let mut hash = Sha256::new();
    let mut piece = vec![0; 1 << 20];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(hex(hash.finalize())),
            n => hash.update(&piece[..n]),
        }
    }
}

fn hello(name: &TaskName) -> Hello {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    Hello {
        protocol: VERSION,
        version: env!("CARGO_PKG_VERSION").into(),
        binary: own_hash().unwrap_or_default(),
        host: name.host.clone(),
        boot: boot.trim().to_owned(),
    }
}

fn obey<W: Write>(
    name: &TaskName,
    orders: &Receiver<Result<ToTasks, String>>,
    said: &Said<W>,
    stop: &Stop,
) -> io::Result<()> {
    let begun = Instant::now();
    let mut host = HostTask {
        name: name.clone(),
        driven: None,
        started_ms: layermark_lab::now_ms(),
        // Not the machine's clock itself: two tasks of one machine need no common zero either.
        begun,
        stop: stop.clone(),
    };
    for order in orders {
        let (n, answer) = match order {
            Ok(ToTasks {
                n,
                order: Order::Quit,
                ..
            }) => {
                // To remove its files is work too.
                said.at_work.store(n, Ordering::SeqCst);
                break;
            }
            Ok(ToTasks { n, order, .. }) => {
                said.at_work.store(n, Ordering::SeqCst);
                let done = host.obey(order);
                said.at_work.store(0, Ordering::SeqCst);
                (n, done.unwrap_or_else(failed))
            }
            Err(message) => (0, failed(StepError::new(message))),
        };
        said.say(n, answer)?;
    }
    Ok(())
}

fn failed(e: StepError) -> Answer {
    Answer::Failed {
        message: e.message,
        hint: e.hint,
        no_room: e.no_room,
        lost: e.lost,
    }
}

struct HostTask {
    name: TaskName,
    driven: Option<DrivenHost>,
    started_ms: i64,
    begun: Instant,
    stop: Stop,
}

impl HostTask {
    fn obey(&mut self, order: Order) -> Result<Answer, StepError> {
        Ok(match order {
            Order::Package(order) => Answer::Packaged {
                name: self.package(&order)?,
            },
            Order::Look(order) => Answer::Looked {
                seen: self.look(&order)?,
            },
            Order::Open(open) => Answer::Opened(Box::new(self.open(&open)?)),
            Order::Prepare(prepare) => {
                let trial = self.trial(*prepare);
                self.driven()?.prepare(trial)?;
                Answer::Ready
            }
            Order::Turn {
                round,
                ns,
                lead_in_ns,
            } => {
                let begun = self.begun;
                let span = self.driven()?.turn(round, ns, lead_in_ns)?;
                let since = |at: Instant| at.saturating_duration_since(begun).as_nanos() as u64;
                Answer::Turned {
                    span_ns: span.map(since),
                }
            }
            Order::Finish => Answer::Finished(Box::new(self.driven()?.finish()?)),
            Order::Clock | Order::Quit => Answer::Clock {
                ns: self.begun.elapsed().as_nanos() as u64,
                wall_ms: layermark_lab::now_ms(),
            },
        })
    }

    fn driven(&mut self) -> Result<&mut DrivenHost, StepError> {
        let not_set_up = || StepError::new("its layers were not set up");
        self.driven.as_mut().ok_or_else(not_set_up)
    }

    fn trial(&self, order: PrepareOrder) -> DrivenTrial {
        DrivenTrial {
            seq: order.seq,
            cell: order.cell,
            point: order.point,
            seed: order.seed,
            started_ms: self.started_ms,
            least: order.least,
        }
    }

    /// Begins to work below this directory, unless it does.
    fn begin(&mut self, dir: &str, silence_ms: u64) -> Result<&mut DrivenHost, StepError> {
        if self.driven.is_none() {
            let no_path = |e| StepError::new(format!("the path of layermark itself: {e}"));
            let exe = env::current_exe().map_err(no_path)?;
            let dir = PathBuf::from(with_host(dir, &self.name.host));
            let silence = Duration::from_millis(silence_ms.max(1));
            self.driven = Some(DrivenHost::new(&dir, &exe, silence, &self.stop)?);
        }
        self.driven()
    }

    fn package(&mut self, order: &PackageOrder) -> Result<String, StepError> {
        let share = with_host(&order.share, &self.name.host);
        let driven = self.begin(&order.dir, order.silence_ms)?;
        driven.package(Path::new(&share), &order.points)
    }

    fn look(&mut self, order: &LookOrder) -> Result<bool, StepError> {
        let share = with_host(&order.share, &self.name.host);
        DrivenHost::sees_package(Path::new(&share), &order.name)
    }

    fn open(&mut self, open: &OpenOrder) -> Result<Opened, StepError> {
        let host = self.name.host.clone();
        let driven = self.begin(&open.dir, open.silence_ms)?;
        let of = |layer: &LayerOrder| {
            let points = layer.points.iter();
            let points = points.filter_map(|at| open.points.get(*at).cloned());
            (spec_with_host(&layer.spec, &host), points.collect())
        };
        let layers: Vec<(Spec, Vec<Point>)> = open.layers.iter().map(of).collect();
        let opened = driven.open(&layers, open.sharing);
        let specs = layers.into_iter().map(|(spec, _)| spec);
        Ok(Opened {
            machine: driven.machine(),
            layers: specs
                .zip(opened)
                .map(|(spec, opened)| told(spec, opened))
                .collect(),
        })
    }
}

fn told(spec: Spec, opened: Result<DrivenLayer, StepError>) -> OpenedLayer {
    let failed = opened.as_ref().err();
    let failed = failed.map(|e| (e.message.clone(), e.hint.clone()));
    let up = opened.ok();
    let up = up.as_ref();
    OpenedLayer {
        spec,
        failed,
        facts: up.map(|up| up.facts.clone()).unwrap_or_default(),
        self_test: up.map(|up| up.self_test).unwrap_or_default(),
        read_only: up.is_some_and(|up| up.read_only),
        setup_s: up.map_or(0.0, |up| up.setup_s),
    }
}

/// The variables by which a task finds its number and its host.
pub fn variables() -> BTreeMap<String, String> {
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    env::vars_os().filter_map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said while the work has used these CPU times, one after the other, and then the last one again and again.
    fn said_with(times: &[u64]) -> usize {
        let said = Said {
            task: 0,
            to: Mutex::new((Vec::new(), 0)),
            at_work: AtomicU64::new(7),
        };
        let (end, ended) = channel::<()>();
        let mut left = times.iter().copied();
        let last = times.last().copied().unwrap_or(0);
        let mut looks = 0;
        let mut end = Some(end);
        keep_alive(&said, &ended, Duration::from_millis(1), &mut || {
            looks += 1;
            // The work ends some looks later.
            if looks == times.len() + 5 {
                end = None;
            }
            left.next().unwrap_or(last)
        });
        let to = said.to.into_inner().unwrap();
        let text = String::from_utf8(to.0).unwrap();
        text.matches("alive").count()
    }

    #[test]
    fn a_task_is_at_work_while_it_removes_its_files() {
        let said = Said {
            task: 0,
            to: Mutex::new((Vec::new(), 0)),
            at_work: AtomicU64::new(0),
        };
        let name = TaskName {
            number: 0,
            host: "h".into(),
        };
        let (send, orders) = channel();
        let quit = ToTasks {
            n: 7,
            to: Vec::new(),
            order: Order::Quit,
        };
        send.send(Ok(quit)).unwrap();
        obey(&name, &orders, &said, &Stop::new()).unwrap();
        assert_eq!(said.at_work.into_inner(), 7);
    }

    #[test]
    fn a_task_that_hangs_does_not_say_that_it_is_at_work() {
        assert_eq!(said_with(&[5]), 0);
        assert_eq!(said_with(&[5, 6, 7]), 2);
    }

    #[test]
    fn work_is_that_of_the_thread_that_obeys() {
        let (tell, told) = channel();
        let (end, ended) = channel::<()>();
        let hung = thread::Builder::new()
            .spawn(move || {
                tell.send(rustix::thread::gettid().as_raw_nonzero().get())
                    .unwrap();
                let _ = ended.recv();
            })
            .unwrap();
        let thread = told.recv().unwrap();
        let deadline = Instant::now() + Duration::from_mins(1);
        while used_ns(thread) == 0 {
            assert!(Instant::now() < deadline, "it has not begun");
        }
        // This thread has used CPU time since, and the other one waits: its last is what it used to get there.
        let mut before = used_ns(thread);
        while used_ns(rustix::thread::gettid().as_raw_nonzero().get()) < before + 5_000_000 {
            assert!(Instant::now() < deadline, "this thread uses no time");
        }
        let then = std::mem::replace(&mut before, used_ns(thread));
        assert!(before - then < 5_000_000, "{then} and {before}");
        drop(end);
        hung.join().unwrap();
    }

    #[test]
    fn a_task_knows_its_number_from_its_arguments_or_its_launcher() {
        let of = |arguments: &[&str], variables: &[(&str, &str)]| {
            let arguments: Vec<String> = arguments.iter().map(|a| (*a).to_owned()).collect();
            let own = |(k, v): &(&str, &str)| ((*k).to_owned(), (*v).to_owned());
            TaskName::find(&arguments, &variables.iter().map(own).collect())
        };
        let named = of(&["3", "n3"], &[("SLURM_PROCID", "7")]).unwrap();
        assert_eq!((named.number, &*named.host), (3, "n3"));
        let slurm = of(&[], &[("SLURM_PROCID", "7"), ("SLURMD_NODENAME", "n8")]).unwrap();
        assert_eq!((slurm.number, &*slurm.host), (7, "n8"));
        assert!(!of(&[], &[("PMI_RANK", "1")]).unwrap().host.is_empty());
        let e = of(&[], &[]).unwrap_err();
        assert!(e.contains("SLURM_PROCID"), "{e}");
        of(&["x"], &[("SLURM_PROCID", "7")]).unwrap_err();
    }
}
