//! The host's end of the connection to a guest's agent.

use std::{
    io::{self, Read, Write},
    net::Shutdown,
    os::unix::net::UnixStream,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError, SyncSender},
    },
    thread,
    time::{Duration, Instant},
};

use crate::{
    Control, Wire,
    agent::protocol::{self, AgentReply, AgentRequest, Channel, PIECE, Pieces},
    child::Tail,
};

/// Frames of the probe's output that may be queued.
const QUEUE: usize = 256;

/// Longest interval of checks for progress.
const TICK: Duration = Duration::from_millis(500);

/// Why the agent did not answer a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AgentError {
    /// It answered that the request failed.
    #[error("{0}")]
    Failed(String),
    /// No answer arrived.
    #[error("it gave no answer for {0:?}")]
    Silent(Duration),
    /// The connection is closed.
    #[error("the connection to it has ended")]
    Gone,
    /// The answer was for another request.
    #[error("it sent an unexpected answer")]
    OutOfTurn,
}

/// The connection to one guest.
pub(crate) struct AgentClient {
    out: Mutex<UnixStream>,
    /// Locked during a request: there is one at a time.
    answers: Mutex<Receiver<AgentReply>>,
    probe: Mutex<Arc<Probe>>,
    /// How long the guest may accept no data. A guest that hangs leaves the connection full.
    reads_within: Duration,
    /// How long the guest was silent when it was given up. It gets no more requests: each would be waited for
    /// again, and a late answer could be taken for the answer to another request.
    given_up: Mutex<Option<Duration>>,
    /// Nothing more can be received.
    ended: AtomicBool,
}

/// The guest's probe, as the host sees it.
struct Probe {
    output: Mutex<Option<SyncSender<Vec<u8>>>>,
    ended: Mutex<Option<String>>,
    told: Condvar,
    tail: Tail,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Probe {
    fn new(output: Option<SyncSender<Vec<u8>>>) -> Arc<Self> {
        Arc::new(Self {
            output: Mutex::new(output),
            ended: Mutex::new(None),
            told: Condvar::new(),
            tail: Tail::default(),
        })
    }

    /// Marks it as ended: nothing more is received from it.
    fn end(&self, how: &str) {
        *lock(&self.output) = None;
        lock(&self.ended).get_or_insert_with(|| how.to_owned());
        self.told.notify_all();
    }
}

impl AgentClient {
    /// Uses `stream`, which is connected to the guest's port. A guest that reads nothing for
    /// `reads_within` is given up.
    pub(crate) fn new(stream: UnixStream, reads_within: Duration) -> io::Result<Arc<Self>> {
        let (sender, answers) = mpsc::channel();
        stream.set_write_timeout(Some(reads_within))?;
        let mut input = stream.try_clone()?;
        let client = Arc::new(Self {
            out: Mutex::new(stream),
            answers: Mutex::new(answers),
            probe: Mutex::new(Probe::new(None)),
            reads_within,
            given_up: Mutex::new(None),
            ended: AtomicBool::new(false),
        });
        // A weak reference, because the thread ends only when the last owner closes the connection.
        let weak = Arc::downgrade(&client);
        thread::Builder::new().name("guest".into()).spawn(move || {
            while let Ok(Some((channel, bytes))) = protocol::receive(&mut input) {
                let Some(client) = weak.upgrade() else { return };
                if !client.take(channel, bytes, &sender) {
                    break;
                }
            }
            if let Some(client) = weak.upgrade() {
                client.ended.store(true, Ordering::Release);
                client
                    .current()
                    .end("the connection to its agent has ended");
            }
        })?;
        Ok(client)
    }

    fn current(&self) -> Arc<Probe> {
        lock(&self.probe).clone()
    }

    /// Handles one frame. Returns whether to continue.
    fn take(&self, channel: Channel, bytes: Vec<u8>, answers: &mpsc::Sender<AgentReply>) -> bool {
        let probe = self.current();
        match channel {
            Channel::Control => match serde_json::from_slice(&bytes) {
                Ok(answer) => return answers.send(answer).is_ok(),
                Err(_) => return false,
            },
            Channel::Probe if bytes.is_empty() => *lock(&probe.output) = None,
            Channel::Probe => {
                let output = lock(&probe.output).clone();
                if output.is_some_and(|o| o.send(bytes).is_err()) {
                    // The reader is gone.
                    *lock(&probe.output) = None;
                }
            }
            Channel::Errors => probe.tail.add(&bytes),
            Channel::Ended => probe.end(&String::from_utf8_lossy(&bytes)),
            Channel::File => return false,
        }
        true
    }

    /// Sends a request and waits for the answer.
    pub(crate) fn ask(
        &self,
        ask: &AgentRequest,
        limit: Duration,
    ) -> Result<AgentReply, AgentError> {
        self.ask_long(ask, (limit, limit), || false)
    }

    /// Sends a request that takes time. Waits while `works` returns true, then for `silence`, and never longer
    /// than `limit`.
    pub(crate) fn ask_long(
        &self,
        ask: &AgentRequest,
        (silence, limit): (Duration, Duration),
        works: impl FnMut() -> bool,
    ) -> Result<AgentReply, AgentError> {
        let answers = lock(&self.answers);
        self.still_speaks()?;
        protocol::say(&mut *lock(&self.out), ask).map_err(|e| match e.kind() {
            io::ErrorKind::WouldBlock => self.give_up(self.reads_within),
            _ => AgentError::Gone,
        })?;
        self.wait(&answers, (silence, limit), works)
    }

    /// Whether it was not given up and its connection has not ended.
    pub(crate) fn is_connected(&self) -> bool {
        self.still_speaks().is_ok() && !self.ended.load(Ordering::Acquire)
    }

    fn still_speaks(&self) -> Result<(), AgentError> {
        let given_up = lock(&self.given_up).map(AgentError::Silent);
        given_up.map_or(Ok(()), Err)
    }

    fn give_up(&self, silent: Duration) -> AgentError {
        *lock(&self.given_up) = Some(silent);
        AgentError::Silent(silent)
    }

    fn wait(
        &self,
        answers: &Receiver<AgentReply>,
        (silence, limit): (Duration, Duration),
        mut works: impl FnMut() -> bool,
    ) -> Result<AgentReply, AgentError> {
        let tick = TICK.min(silence);
        // Counted in ticks and not by the clock, because the guest also stands still when the whole machine does.
        let (mut waited, mut quiet) = (Duration::ZERO, Duration::ZERO);
        while quiet < silence && waited < limit {
            match answers.recv_timeout(tick) {
                Ok(AgentReply::Failed(why)) => return Err(AgentError::Failed(why)),
                Ok(answer) => return Ok(answer),
                Err(RecvTimeoutError::Disconnected) => return Err(AgentError::Gone),
                Err(RecvTimeoutError::Timeout) => {}
            }
            waited += tick;
            quiet = if works() {
                Duration::ZERO
            } else {
                quiet + tick
            };
        }
        Err(self.give_up(if quiet >= silence { quiet } else { waited }))
    }

    /// Sends a request whose answer is only success or failure.
    pub(crate) fn order(&self, ask: &AgentRequest, limit: Duration) -> Result<(), AgentError> {
        match self.ask(ask, limit)? {
            AgentReply::Done => Ok(()),
            _ => Err(AgentError::OutOfTurn),
        }
    }

    /// Waits for the agent's first message, as [`Self::ask_long`] does for an answer.
    pub(crate) fn hello(
        &self,
        limits: (Duration, Duration),
        works: impl FnMut() -> bool,
    ) -> Result<AgentReply, AgentError> {
        self.wait(&lock(&self.answers), limits, works)
    }

    /// Sends a request without a reply: an [`AgentRequest::Make`], or an [`AgentRequest::Put`] with
    /// the bytes of the file.
    pub(crate) fn put(&self, what: &AgentRequest, from: &mut impl Read) -> io::Result<()> {
        self.send(what, from).map_err(|e| match e.kind() {
            io::ErrorKind::WouldBlock => io::Error::other(self.give_up(self.reads_within)),
            _ => e,
        })
    }

    fn send(&self, what: &AgentRequest, from: &mut impl Read) -> io::Result<()> {
        let _turn = lock(&self.answers);
        self.still_speaks().map_err(io::Error::other)?;
        let mut out = lock(&self.out);
        protocol::say(&mut *out, what)?;
        let mut left = match what {
            AgentRequest::Put { size, .. } => *size,
            _ => 0,
        };
        let mut piece = vec![0; PIECE];
        while left > 0 {
            let length = PIECE.min(usize::try_from(left).unwrap_or(PIECE));
            from.read_exact(&mut piece[..length])?;
            protocol::send(&mut *out, Channel::File, &piece[..length])?;
            left -= length as u64;
        }
        Ok(())
    }

    /// Starts a probe of this name, after the previous one has ended.
    pub(crate) fn start(
        self: &Arc<Self>,
        name: String,
        limit: Duration,
    ) -> Result<Wire, AgentError> {
        // Output of the previous probe arrives before the reply to this.
        self.order(&AgentRequest::Kill, limit)?;
        let (sender, output) = mpsc::sync_channel(QUEUE);
        let probe = Probe::new(Some(sender));
        *lock(&self.probe) = probe.clone();
        self.order(&AgentRequest::Start { name }, limit)?;
        Ok(Wire {
            stdin: Box::new(Input(self.clone())),
            stdout: Box::new(Pieces::from(output)),
            control: Box::new(Remote {
                client: self.clone(),
                probe,
            }),
        })
    }

    /// Closes the connection; an agent without a connection powers its machine off.
    pub(crate) fn cut(&self) {
        // An error means that it is not connected any more.
        let _ = lock(&self.out).shutdown(Shutdown::Both);
    }
}

/// The probe's standard input. Dropping it closes the input.
struct Input(Arc<AgentClient>);

impl Write for Input {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = &bytes[..bytes.len().min(PIECE)];
        // An empty frame is the end of the input.
        if !piece.is_empty() {
            protocol::send(&mut *lock(&self.0.out), Channel::Probe, piece)?;
        }
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        // A guest that has ended does not need it.
        let _ = protocol::send(&mut *lock(&self.0.out), Channel::Probe, &[]);
    }
}

/// A probe that is a process of the guest.
struct Remote {
    client: Arc<AgentClient>,
    probe: Arc<Probe>,
}

impl Control for Remote {
    fn pid(&self) -> Option<u32> {
        None
    }

    fn kill(&mut self) {
        let over = lock(&self.probe.ended).is_some();
        if !over {
            // A guest that does not answer is ended with its layer.
            let _ = self
                .client
                .order(&AgentRequest::Kill, Duration::from_secs(5));
        }
    }

    fn wait(&mut self, limit: Duration) -> Option<String> {
        // A guest that was given up says nothing more.
        let limit = match self.client.still_speaks() {
            Ok(()) => limit,
            Err(_) => Duration::ZERO,
        };
        let until = Instant::now() + limit;
        let mut ended = lock(&self.probe.ended);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if ended.is_some() || left.is_zero() {
                return ended.clone();
            }
            let woken = self.probe.told.wait_timeout(ended, left);
            ended = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn tail(&self) -> Vec<String> {
        self.probe.tail.lines()
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays the guest: answers each request with the result of `with`.
    fn pair(
        mut with: impl FnMut(AgentRequest, &mut UnixStream) + Send + 'static,
    ) -> Arc<AgentClient> {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        thread::spawn(move || {
            while let Ok(Some((channel, bytes))) = protocol::receive(&mut theirs) {
                match channel {
                    Channel::Control => {
                        with(serde_json::from_slice(&bytes).unwrap(), &mut theirs);
                    }
                    Channel::Probe if bytes.is_empty() => {
                        protocol::send(&mut theirs, Channel::Probe, &[]).unwrap();
                        protocol::send(&mut theirs, Channel::Ended, b"exit code 0").unwrap();
                    }
                    other => protocol::send(&mut theirs, other, &bytes).unwrap(),
                }
            }
        });
        AgentClient::new(ours, Duration::from_secs(30)).unwrap()
    }

    #[test]
    fn a_probe_speaks_through_the_guest() {
        let client = pair(|_, out| protocol::say(out, &AgentReply::Done).unwrap());
        let data = vec![7; 200_000];
        for _ in 0..2 {
            let mut wire = client.start("x".into(), Duration::from_secs(5)).unwrap();
            wire.stdin.write_all(&data).unwrap();
            drop(wire.stdin);
            let mut back = Vec::new();
            wire.stdout.read_to_end(&mut back).unwrap();
            assert!(back == data, "{} came back", back.len());
            let how = wire.control.wait(Duration::from_secs(5));
            assert_eq!(how.as_deref(), Some("exit code 0"));
        }
    }

    #[test]
    fn silence_and_a_cut_line_are_told_apart() {
        let client = pair(|ask, out| match ask {
            AgentRequest::Time => protocol::say(out, &AgentReply::Time { ns: 1 }).unwrap(),
            AgentRequest::DropCaches => {
                protocol::say(out, &AgentReply::Failed("no".into())).unwrap();
            }
            _ => {}
        });
        let (long, short) = (Duration::from_secs(5), Duration::from_millis(50));
        assert_eq!(
            client.ask(&AgentRequest::Time, long),
            Ok(AgentReply::Time { ns: 1 })
        );
        assert_eq!(
            client.order(&AgentRequest::Time, long),
            Err(AgentError::OutOfTurn)
        );
        assert_eq!(
            client.ask(&AgentRequest::DropCaches, long),
            Err(AgentError::Failed("no".into()))
        );
        client.cut();
        assert_eq!(client.ask(&AgentRequest::Time, long), Err(AgentError::Gone));
        let client = pair(|_, _| {});
        // As long as it works, and no longer than the limit.
        let mut works = [true; 5].into_iter();
        let asked = client.ask_long(&AgentRequest::Seal, (short, long), || {
            works.next().unwrap_or(false)
        });
        assert_eq!((asked, works.len()), (Err(AgentError::Silent(short)), 0));
        // It is not waited for again.
        assert_eq!(
            client.ask(&AgentRequest::Time, Duration::MAX),
            Err(AgentError::Silent(short))
        );
        let client = pair(|_, _| {});
        let limits = (short, 3 * short);
        assert_eq!(
            client.ask_long(&AgentRequest::Seal, limits, || true),
            Err(AgentError::Silent(3 * short))
        );
    }
}
