//! The agent in a place that was entered by a command: `layermark place TOKEN [mounted]`.
//!
//! Its standard input and output are the connection. When the input ends, for whatever reason, it ends the
//! probe, removes its work directory and, if it was brought here, its own binary.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{self, BufReader, Read, Write},
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::process::CommandExt,
    },
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use layermark_model::Spec;
use rustix::fs::{MemfdFlags, OFlags, fcntl_getfl, fcntl_setfl, memfd_create};
use xxhash_rust::xxh3::Xxh3;

use super::{BROUGHT, HELLO, MOUNTED, PUSHED, limits};
use crate::{
    Base, Content, KernelCaches, LayerError, Place, WorkDir,
    agent::{
        Packaged, Port, Probe,
        protocol::{self, AgentReply, AgentRequest, Channel, LONGEST, PIECE},
    },
    host::{HostPlace, PACKAGED},
};

/// Serves the host that has started this process, until the connection ends.
pub fn place(arguments: &[OsString]) -> io::Result<()> {
    ignore_signals();
    // A command may have become this process by execve(2), and then it would be killed with layermark, before it
    // has removed anything. The end of the connection ends it.
    rustix::process::set_parent_process_death_signal(None)?;
    let (token, is_mounted) = match arguments {
        [token] => (token, false),
        [token, word] if word == MOUNTED => (token, true),
        _ => return Err(io::Error::other("this is started by layermark itself")),
    };
    let own = env::args_os().next().map(PathBuf::from).unwrap_or_default();
    let served = serve(token, &own, is_mounted);
    served.and(remove_pushed(&own))
}

/// A closed terminal and Ctrl-C end the connection, and that is when this ends.
#[allow(unsafe_code)]
fn ignore_signals() {
    for signal in [libc::SIGINT, libc::SIGHUP] {
        // SAFETY: ignoring a signal installs no handler.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Removes the binary and its directory, the current one, if layermark has brought it here.
fn remove_pushed(own: &Path) -> io::Result<()> {
    if own != Path::new(BROUGHT) {
        return Ok(());
    }
    let dir = env::current_dir()?;
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    if !name.starts_with(PUSHED) {
        return Ok(());
    }
    fs::remove_file(own)?;
    fs::remove_dir(dir)
}

fn serve(token: &OsStr, own: &Path, is_mounted: bool) -> io::Result<()> {
    let input = File::from(rustix::io::dup(rustix::stdio::stdin())?);
    let mut output = File::from(rustix::io::dup(rustix::stdio::stdout())?);
    wait_for_data(&input)?;
    wait_for_data(&output)?;
    // A place may not have /proc.
    let program = Some(Path::new("/proc/self/exe")).filter(|exe| exe.exists());
    let program = program.unwrap_or(own);
    let hash = if is_mounted {
        MOUNTED.to_owned()
    } else {
        hash(File::open(program)?)?
    };
    // What was printed before this may have no end of line.
    write!(output, "\n{HELLO}{} {hash}\n", token.display())?;
    output.flush()?;
    let mut agent = Agent {
        port: Arc::new(Mutex::new(output)),
        program: program.into(),
        probe: None,
        work: None,
    };
    let mut input = BufReader::with_capacity(2 * PIECE, input);
    while let Some((channel, bytes)) = protocol::receive(&mut input)? {
        agent.hear(channel, &bytes)?;
    }
    agent.leave()
}

/// Makes reads and writes wait. gVisor makes a socket that is both input and output one that does not wait.
fn wait_for_data(connection: &File) -> io::Result<()> {
    let flags = fcntl_getfl(connection)? - OFlags::NONBLOCK;
    Ok(fcntl_setfl(connection, flags)?)
}

/// Hash of a binary, to compare both ends of a connection. New memory for all of it would take longer than the rest.
pub(super) fn hash(mut binary: impl Read) -> io::Result<String> {
    let (mut hash, mut piece) = (Xxh3::new(), vec![0; PIECE]);
    loop {
        match binary.read(&mut piece) {
            Ok(0) => return Ok(format!("{:032x}", hash.digest128())),
            Ok(got) => hash.update(&piece[..got]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

struct Agent {
    port: Port,
    /// The binary that runs the probe.
    program: PathBuf,
    probe: Option<Probe>,
    work: Option<Work>,
}

/// The directory that the probe works in.
struct Work {
    dir: WorkDir,
    packaged: Packaged,
    /// A file in memory with the secret name. Nobody else knows the name, so nobody else is taken for this agent.
    proof: Option<OwnedFd>,
}

impl Work {
    fn make(parent: &Path, secret: &str) -> Result<Self, LayerError> {
        let dir = WorkDir::shared(parent)?;
        let packaged = Packaged::below(dir.path());
        let proof = memfd_create(secret, MemfdFlags::CLOEXEC).ok();
        Ok(Self {
            dir,
            packaged,
            proof,
        })
    }

    fn held(&self) -> Option<[i32; 2]> {
        let proof = self.proof.as_ref()?;
        Some([self.dir.as_fd().as_raw_fd(), proof.as_raw_fd()])
    }

    fn as_place(&self) -> HostPlace {
        let dir = self.dir.path().to_owned();
        let base = Base {
            packaged: dir.join(PACKAGED),
            dir: dir.clone(),
            exe: PathBuf::new(),
            silence: Duration::ZERO,
            until: None,
            content: Content::Fresh,
        };
        HostPlace::new(&base, &Spec::bare("place"), dir)
    }
}

impl Agent {
    fn hear(&mut self, channel: Channel, bytes: &[u8]) -> io::Result<()> {
        match channel {
            Channel::Control => {
                let asked = serde_json::from_slice(bytes)?;
                let answer = self.answer(asked);
                let answer = answer.unwrap_or_else(|why| Some(AgentReply::Failed(why)));
                if let Some(answer) = answer {
                    let mut port = self.port.lock().unwrap_or_else(PoisonError::into_inner);
                    protocol::say(&mut *port, &answer)?;
                }
            }
            Channel::Probe => {
                if let Some(probe) = &mut self.probe {
                    probe.feed(bytes);
                }
            }
            Channel::File => {
                if let Some(work) = &mut self.work {
                    work.packaged.store(bytes);
                }
            }
            Channel::Errors | Channel::Ended => {}
        }
        Ok(())
    }

    /// `None`: the request has no reply.
    fn answer(&mut self, asked: AgentRequest) -> Result<Option<AgentReply>, String> {
        let said = |e: io::Error| e.to_string();
        if let AgentRequest::Enter { dir, secret } = asked {
            let work = Work::make(&dir, &secret).map_err(|e| e.reason())?;
            let (dir, held) = (work.dir.path().to_owned(), work.held());
            self.work = Some(work);
            return Ok(Some(AgentReply::Entered { dir, held }));
        }
        let work = self.work.as_mut().ok_or("it has no directory yet")?;
        Ok(Some(match asked {
            AgentRequest::Start { name } => {
                // There is at most one.
                self.probe = None;
                let mut command = Command::new(&self.program);
                let started = Probe::start(&self.port, command.arg0(name));
                self.probe = Some(started.map_err(said)?);
                AgentReply::Done
            }
            AgentRequest::Kill => {
                self.probe = None;
                AgentReply::Done
            }
            AgentRequest::Facts => {
                let mut facts = work.as_place().facts().map_err(|e| e.reason())?;
                facts.notes.extend(limits::of(Path::new("/proc/self")));
                AgentReply::Facts {
                    facts: Box::new(facts),
                    clock: layermark_sys::clocksource().unwrap_or_default(),
                    card: None,
                }
            }
            AgentRequest::DropCaches => {
                let dropped = work.as_place().drop_caches(KernelCaches::Now);
                AgentReply::DroppedCaches(dropped.map_err(|e| e.reason())?)
            }
            AgentRequest::Changed => {
                let paths = work.packaged.changed().map_err(said)?;
                // A longer list would not fit into a frame.
                if paths.iter().map(String::len).sum::<usize>() > LONGEST / 2 {
                    return Err(format!("{} packaged files have changed", paths.len()));
                }
                AgentReply::Changed { paths }
            }
            AgentRequest::Put {
                path,
                size,
                runs,
                modified,
            } => {
                work.packaged.begin(&path, size, runs, modified);
                return Ok(None);
            }
            AgentRequest::Make {
                path,
                link,
                modified,
            } => {
                work.packaged.make(&path, link.as_deref(), modified);
                return Ok(None);
            }
            AgentRequest::Seal => {
                work.packaged.seal().map_err(said)?;
                AgentReply::Done
            }
            other => return Err(format!("{other:?} is only for a guest of layermark")),
        }))
    }

    /// Removes what it has made.
    fn leave(self) -> io::Result<()> {
        drop(self.probe);
        self.work.map_or(Ok(()), |mut work| work.dir.remove())
    }
}
