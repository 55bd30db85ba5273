//! This host's end of the line to a guest's agent.

use std::{
    io::{self, Read, Write},
    net::Shutdown,
    os::unix::net::UnixStream,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        mpsc::{self, Receiver, RecvTimeoutError, SyncSender},
    },
    thread,
    time::{Duration, Instant},
};

use crate::{
    Control, Wire,
    child::Tail,
    vm::talk::{self, Answer, Ask, Channel, PIECE, Pieces},
};

/// Frames of the probe's output that may wait to be read.
const QUEUE: usize = 256;

/// How long a guest may take nothing of what it is sent: one that hangs leaves the line full.
const TAKES: Duration = Duration::from_secs(30);

/// Why the guest gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Broken {
    /// It answered that it could not.
    #[error("{0}")]
    Failed(String),
    /// Nothing came.
    #[error("the guest gave no answer for {0:?}")]
    Silent(Duration),
    /// The line is cut.
    #[error("the guest is gone")]
    Gone,
    /// Something else came.
    #[error("the guest answered what was not asked")]
    OutOfTurn,
}

/// The line to one guest.
pub(crate) struct Link {
    out: Mutex<UnixStream>,
    /// Held while a question is open: there is one at a time.
    answers: Mutex<Receiver<Answer>>,
    probe: Mutex<Arc<Probe>>,
}

/// The probe in the guest, as seen from here.
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

    /// Nothing more will come from it.
    fn end(&self, how: &str) {
        *lock(&self.output) = None;
        lock(&self.ended).get_or_insert_with(|| how.to_owned());
        self.told.notify_all();
    }
}

impl Link {
    /// Speaks through `stream`, which is connected to the guest's port.
    pub(crate) fn new(stream: UnixStream) -> io::Result<Arc<Self>> {
        let (sender, answers) = mpsc::channel();
        stream.set_write_timeout(Some(TAKES))?;
        let mut input = stream.try_clone()?;
        let link = Arc::new(Self {
            out: Mutex::new(stream),
            answers: Mutex::new(answers),
            probe: Mutex::new(Probe::new(None)),
        });
        // Not a strong one: the thread ends when the line is cut, which the last owner does.
        let weak = Arc::downgrade(&link);
        thread::Builder::new().name("guest".into()).spawn(move || {
            while let Ok(Some((channel, bytes))) = talk::receive(&mut input) {
                let Some(link) = weak.upgrade() else { return };
                if !link.take(channel, bytes, &sender) {
                    break;
                }
            }
            if let Some(link) = weak.upgrade() {
                link.current().end("the guest is gone");
            }
        })?;
        Ok(link)
    }

    fn current(&self) -> Arc<Probe> {
        lock(&self.probe).clone()
    }

    /// Whether to go on.
    fn take(&self, channel: Channel, bytes: Vec<u8>, answers: &mpsc::Sender<Answer>) -> bool {
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
                    // Nobody reads it any more.
                    *lock(&probe.output) = None;
                }
            }
            Channel::Errors => probe.tail.add(&bytes),
            Channel::Ended => probe.end(&String::from_utf8_lossy(&bytes)),
            Channel::File => return false,
        }
        true
    }

    /// Asks and waits for the answer.
    pub(crate) fn ask(&self, ask: &Ask, limit: Duration) -> Result<Answer, Broken> {
        let answers = lock(&self.answers);
        talk::say(&mut *lock(&self.out), ask).map_err(|e| match e.kind() {
            io::ErrorKind::WouldBlock => Broken::Silent(TAKES),
            _ => Broken::Gone,
        })?;
        wait(&answers, limit)
    }

    /// Asks for something that is done or not.
    pub(crate) fn order(&self, ask: &Ask, limit: Duration) -> Result<(), Broken> {
        match self.ask(ask, limit)? {
            Answer::Done => Ok(()),
            _ => Err(Broken::OutOfTurn),
        }
    }

    /// Waits for what the agent says first.
    pub(crate) fn hello(&self, limit: Duration) -> Result<Answer, Broken> {
        wait(&lock(&self.answers), limit)
    }

    /// Sends what is not answered: an [`Ask::Make`], or an [`Ask::Put`] with the bytes of the file.
    pub(crate) fn put(&self, what: &Ask, from: &mut impl Read) -> io::Result<()> {
        self.send(what, from).map_err(|e| match e.kind() {
            io::ErrorKind::WouldBlock => io::Error::other(Broken::Silent(TAKES)),
            _ => e,
        })
    }

    fn send(&self, what: &Ask, from: &mut impl Read) -> io::Result<()> {
        let _turn = lock(&self.answers);
        let mut out = lock(&self.out);
        talk::say(&mut *out, what)?;
        let mut left = match what {
            Ask::Put { size, .. } => *size,
            _ => 0,
        };
        let mut piece = vec![0; PIECE];
        while left > 0 {
            let length = PIECE.min(usize::try_from(left).unwrap_or(PIECE));
            from.read_exact(&mut piece[..length])?;
            talk::send(&mut *out, Channel::File, &piece[..length])?;
            left -= length as u64;
        }
        Ok(())
    }

    /// Starts a probe of this name, after the one before has ended.
    pub(crate) fn start(self: &Arc<Self>, name: String, limit: Duration) -> Result<Wire, Broken> {
        // What the one before still says comes before the answer to this.
        self.order(&Ask::Kill, limit)?;
        let (sender, output) = mpsc::sync_channel(QUEUE);
        let probe = Probe::new(Some(sender));
        *lock(&self.probe) = probe.clone();
        self.order(&Ask::Start { name }, limit)?;
        Ok(Wire {
            stdin: Box::new(Input(self.clone())),
            stdout: Box::new(Pieces::from(output)),
            control: Box::new(Remote {
                link: self.clone(),
                probe,
            }),
        })
    }

    /// Ends the conversation; an agent that hears nobody switches its machine off.
    pub(crate) fn cut(&self) {
        // Not connected any more is as good.
        let _ = lock(&self.out).shutdown(Shutdown::Both);
    }
}

fn wait(answers: &Receiver<Answer>, limit: Duration) -> Result<Answer, Broken> {
    match answers.recv_timeout(limit) {
        Ok(Answer::Failed(why)) => Err(Broken::Failed(why)),
        Ok(answer) => Ok(answer),
        Err(RecvTimeoutError::Timeout) => Err(Broken::Silent(limit)),
        Err(RecvTimeoutError::Disconnected) => Err(Broken::Gone),
    }
}

/// The probe's standard input. Dropped: its end.
struct Input(Arc<Link>);

impl Write for Input {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = &bytes[..bytes.len().min(PIECE)];
        // An empty frame is the end of the input.
        if !piece.is_empty() {
            talk::send(&mut *lock(&self.0.out), Channel::Probe, piece)?;
        }
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        // A guest that is gone needs no end.
        let _ = talk::send(&mut *lock(&self.0.out), Channel::Probe, &[]);
    }
}

/// A probe that is a process of the guest.
struct Remote {
    link: Arc<Link>,
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
            let _ = self.link.order(&Ask::Kill, Duration::from_secs(5));
        }
    }

    fn wait(&mut self, limit: Duration) -> Option<String> {
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

    /// Plays the guest: answers each question with what `with` makes of it.
    fn pair(mut with: impl FnMut(Ask, &mut UnixStream) + Send + 'static) -> Arc<Link> {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        thread::spawn(move || {
            while let Ok(Some((channel, bytes))) = talk::receive(&mut theirs) {
                match channel {
                    Channel::Control => {
                        with(serde_json::from_slice(&bytes).unwrap(), &mut theirs);
                    }
                    Channel::Probe if bytes.is_empty() => {
                        talk::send(&mut theirs, Channel::Probe, &[]).unwrap();
                        talk::send(&mut theirs, Channel::Ended, b"exit code 0").unwrap();
                    }
                    other => talk::send(&mut theirs, other, &bytes).unwrap(),
                }
            }
        });
        Link::new(ours).unwrap()
    }

    #[test]
    fn a_probe_speaks_through_the_guest() {
        let link = pair(|_, out| talk::say(out, &Answer::Done).unwrap());
        let data = vec![7; 200_000];
        for _ in 0..2 {
            let mut wire = link.start("x".into(), Duration::from_secs(5)).unwrap();
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
        let link = pair(|ask, out| match ask {
            Ask::Time => talk::say(out, &Answer::Time { ns: 1 }).unwrap(),
            Ask::Cool => talk::say(out, &Answer::Failed("no".into())).unwrap(),
            _ => {}
        });
        let (long, short) = (Duration::from_secs(5), Duration::from_millis(50));
        assert_eq!(link.ask(&Ask::Time, long), Ok(Answer::Time { ns: 1 }));
        assert_eq!(link.order(&Ask::Time, long), Err(Broken::OutOfTurn));
        assert_eq!(link.ask(&Ask::Cool, long), Err(Broken::Failed("no".into())));
        assert_eq!(link.ask(&Ask::Seal, short), Err(Broken::Silent(short)));
        link.cut();
        assert_eq!(link.ask(&Ask::Time, long), Err(Broken::Gone));
    }
}
