//! The task: what a launcher starts on each host. It obeys orders from its standard input, and answers in frames.

use std::{
    collections::BTreeMap,
    env, fs,
    io::{self, BufRead, Read, Write},
    path::PathBuf,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    thread,
    time::{Duration, Instant},
};

use layermark_lab::{DrivenHost, DrivenLayer, DrivenTrial, StepError, Stop};
use layermark_model::{Spec, hex};
use sha2::{Digest, Sha256};

use crate::{
    frame,
    protocol::{
        Answer, FromTask, Hello, LONGEST_ORDER, OpenOrder, Opened, OpenedLayer, Order,
        PrepareOrder, ToTasks, VERSION, spec_with_host, with_host,
    },
};

/// Interval of [`Answer::Alive`].
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
    thread::scope(|scope| {
        thread::Builder::new()
            .name("alive".into())
            .spawn_scoped(scope, move || keep_alive(at_work, &ended))?;
        let obeyed = obey(name, &orders, &said, &stop);
        drop(end);
        obeyed
    })
}

/// Says every second that an order is at work.
fn keep_alive<W: Write>(said: &Said<W>, ended: &Receiver<()>) {
    use std::sync::mpsc::RecvTimeoutError::Timeout;
    while ended.recv_timeout(ALIVE) == Err(Timeout) {
        let n = said.at_work.load(Ordering::SeqCst);
        if n > 0 && said.say(n, Answer::Alive).is_err() {
            return;
        }
    }
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
                order: Order::Quit, ..
            }) => break,
            Ok(ToTasks { n, order, .. }) => {
                said.at_work.store(n, Ordering::SeqCst);
                let done = host.obey(order);
                said.at_work.store(0, Ordering::SeqCst);
                (n, done.unwrap_or_else(failed))
            }
            Err(message) => (
                0,
                Answer::Failed {
                    message,
                    hint: None,
                },
            ),
        };
        said.say(n, answer)?;
    }
    Ok(())
}

fn failed(e: StepError) -> Answer {
    Answer::Failed {
        message: e.message,
        hint: e.hint,
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
        self.driven.as_mut().ok_or_else(|| StepError {
            message: "its layers were not set up".into(),
            hint: None,
        })
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

    fn open(&mut self, open: &OpenOrder) -> Result<Opened, StepError> {
        let host = &self.name.host;
        let silence = Duration::from_millis(open.silence_ms.max(1));
        if self.driven.is_none() {
            let exe = env::current_exe().map_err(|e| StepError {
                message: format!("the path of layermark itself: {e}"),
                hint: None,
            })?;
            let dir = PathBuf::from(with_host(&open.dir, host));
            self.driven = Some(DrivenHost::new(&dir, &exe, silence, &self.stop)?);
        }
        let specs: Vec<Spec> = open
            .layers
            .iter()
            .map(|s| spec_with_host(s, host))
            .collect();
        let driven = self.driven()?;
        let opened = driven.open(&specs, &open.points, open.sharing);
        let layers = specs.into_iter().zip(opened);
        Ok(Opened {
            machine: driven.machine(),
            layers: layers.map(|(spec, opened)| told(spec, opened)).collect(),
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
