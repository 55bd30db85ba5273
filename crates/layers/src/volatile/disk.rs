//! A file system on a volatile disk, in whose directory layers stand.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{ChildStdin, ChildStdout},
    sync::mpsc::{self, Receiver},
    thread,
    time::Duration,
};

use layermark_model::Missing;

use super::{History, Mark, failed, history::copy_sparse, serve};
use crate::{
    Control, LayerError, Undo,
    child::{self, Process},
    extents, fuse_program, loopdev, mounts, needs, sandbox,
};

/// In errors, in the place of a layer's name.
pub(super) const NAME: &str = "volatile disk";
/// How long the disk's process may take to mount, and to answer.
const LIMIT: Duration = Duration::from_secs(10);

/// A known liar below the layer, which a check of flushes has to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lie {
    /// ext4 is mounted `nobarrier`: it flushes nothing.
    NoBarrier,
    /// The kernel was told that the disk has no cache (`queue/write_cache`): it sends no flushes.
    WriteThrough,
}

/// What a volatile disk is like.
#[derive(Debug, Clone, Copy)]
pub struct DiskOptions {
    /// Size of the disk, bytes; it is sparse. At least 64 MiB; a multiple of 4096.
    pub size: u64,
    /// What is wrong with it.
    pub lie: Option<Lie>,
}

impl Default for DiskOptions {
    /// 256 MiB, in order.
    fn default() -> Self {
        Self {
            size: 256 << 20,
            lie: None,
        }
    }
}

/// A volatile disk with an ext4 in it, mounted by a loop device in the private mount namespace of this run.
///
/// It ends with the [`Undo`] that it was made with: whatever stands on it has to be ended before.
#[derive(Debug)]
pub struct PowerCutBase {
    home: PathBuf,
    log: File,
    device: PathBuf,
    commands: ChildStdin,
    answers: Receiver<String>,
    server: u32,
}

impl PowerCutBase {
    /// What this host lacks for it.
    pub fn missing() -> Vec<Missing> {
        let mut missing: Vec<Missing> = sandbox::not_root().into_iter().collect();
        if missing.is_empty() {
            missing.extend(needs::device(loopdev::CONTROL, "loop"));
            missing.extend(needs::device(fuse_program::DEVICE, "fuse"));
        }
        missing.extend(needs::kernel_fs("ext4"));
        missing.extend(needs::program("mkfs.ext4", "e2fsprogs"));
        missing
    }

    /// Makes one in the empty directory `home`, which should be on a disk with some hundred MiB of free
    /// space. `exe` is the layermark binary. The calling thread has to live as long as the disk.
    ///
    /// # Errors
    ///
    /// A step fails. What was done before is in `undo` already.
    pub fn create(
        home: &Path,
        exe: &Path,
        options: DiskOptions,
        undo: &mut Undo,
    ) -> Result<Self, LayerError> {
        let start = home.join("start");
        Self::check()?;
        make_ext4(&start, options.size)?;
        Self::serve(home, exe, options.lie, undo)
    }

    /// Continues with the disk in `image`, such as one that survived a cut: its recovery is on a volatile
    /// disk too, and can be cut. The rest is as for [`PowerCutBase::create`].
    ///
    /// # Errors
    ///
    /// A step fails; mounting the file system is one of them.
    pub fn resume(
        home: &Path,
        exe: &Path,
        image: &Path,
        undo: &mut Undo,
    ) -> Result<Self, LayerError> {
        let start = home.join("start");
        Self::check()?;
        copy_sparse(image, &start).map_err(failed("copy the disk to", &start))?;
        Self::serve(home, exe, None, undo)
    }

    fn check() -> Result<(), LayerError> {
        let missing = Self::missing();
        if missing.is_empty() {
            return Ok(());
        }
        let layer = NAME.into();
        Err(LayerError::Missing { layer, missing })
    }

    /// Serves the disk in the file `start` and mounts it.
    fn serve(
        home: &Path,
        exe: &Path,
        lie: Option<Lie>,
        undo: &mut Undo,
    ) -> Result<Self, LayerError> {
        let path = |name| home.join(name);
        let (start, content, log, disk, mnt) = (
            path("start"),
            path("content"),
            path("log"),
            path("disk"),
            path("mnt"),
        );
        copy_sparse(&start, &content).map_err(failed("copy the disk to", &content))?;
        File::create_new(&disk).map_err(failed("make", &disk))?;
        for dir in [&mnt, &path("images")] {
            fs::create_dir(dir).map_err(failed("make", dir))?;
        }
        // Images of surviving disks are many and short-lived.
        mounts::mount_undone(
            NAME,
            Path::new("layermark"),
            &path("images"),
            "tmpfs",
            false,
            b"",
            undo,
        )?;
        let server = start_server(exe, &content, &log, &disk, undo)?;
        let device =
            loopdev::attach(&disk, false, true).map_err(failed("put a loop device over", &disk))?;
        let barrier: &[u8] = match lie {
            Some(Lie::NoBarrier) => b"nobarrier",
            _ => b"",
        };
        mounts::mount_undone(NAME, &device.path, &mnt, "ext4", false, barrier, undo)?;
        let base = Self {
            log: File::open(&log).map_err(failed("open", &log))?,
            home: home.into(),
            device: device.path.clone(),
            commands: server.commands,
            answers: server.answers,
            server: server.pid,
        };
        if lie == Some(Lie::WriteThrough) {
            base.deny_cache(undo)?;
        }
        // From here on the mount alone keeps the loop device.
        drop(device);
        Ok(base)
    }

    /// The directory of the file system on it. Layers work in directories below it.
    pub fn dir(&self) -> PathBuf {
        self.home.join("mnt")
    }

    /// A directory in memory for images of surviving disks ([`History::write_image`]) and for mounting them.
    pub fn images(&self) -> PathBuf {
        self.home.join("images")
    }

    /// The block device that the file system is on.
    pub fn device(&self) -> &Path {
        &self.device
    }

    /// The process that is the disk.
    pub fn server(&self) -> u32 {
        self.server
    }

    /// How much has completed: asked when an acknowledgement arrives, it says that all that was acknowledged
    /// had completed by then. Costs one system call.
    ///
    /// # Errors
    ///
    /// As for `fstat(2)`.
    pub fn mark(&self) -> Result<Mark, LayerError> {
        let log = self.log.metadata();
        Ok(Mark(
            log.map_err(failed("look at the log in", &self.home))?.len(),
        ))
    }

    /// Cuts the power: from now on no write and no flush reaches the disk, though all succeed. Only what was
    /// acknowledged before this was called is known to have been acknowledged before the cut.
    ///
    /// # Errors
    ///
    /// The disk's process does not answer.
    pub fn cut(&mut self) -> Result<(), LayerError> {
        self.order(serve::CUT)
    }

    /// Lets the next flush fail with `EIO`. What it covers never reaches the disk, and the flush after it
    /// succeeds.
    ///
    /// # Errors
    ///
    /// The disk's process does not answer.
    pub fn fail_next_flush(&mut self) -> Result<(), LayerError> {
        self.order(serve::FAIL_NEXT_FLUSH)
    }

    /// What has happened to the disk up to now.
    ///
    /// # Errors
    ///
    /// The log cannot be read.
    pub fn history(&self) -> Result<History, LayerError> {
        History::open(&self.home.join("start"), &self.home.join("log"))
            .map_err(failed("read the log in", &self.home))
    }

    fn order(&mut self, what: &str) -> Result<(), LayerError> {
        let done = writeln!(self.commands, "{what}").is_ok()
            && self
                .answers
                .recv_timeout(LIMIT)
                .is_ok_and(|answer| answer == what);
        if done {
            return Ok(());
        }
        Err(LayerError::Silent {
            layer: NAME.into(),
            path: self.home.join("disk"),
            after: LIMIT,
        })
    }

    /// The switch outlives the disk, so it is put back. [`loopdev::give_caches`] does that too, for a run
    /// that was killed.
    fn deny_cache(&self, undo: &mut Undo) -> Result<(), LayerError> {
        let switch = loopdev::cache_switch(&self.device);
        fs::write(&switch, "write through").map_err(failed("write to", &switch))?;
        undo.push(
            format!("give {} its cache back", self.device.display()),
            move || fs::write(&switch, "write back"),
        );
        Ok(())
    }
}

/// Offset and length on the disk of each part of a file's data, to find it in a [`History::view`]. Writes
/// the file back first. `None` if some of its data is not stored on the disk as it is read.
pub fn places(file: &File) -> Option<Vec<(u64, u64)>> {
    extents::of(file)
}

/// Makes the file and an ext4 in it: with a journal as small as it can be, since each image has it.
fn make_ext4(image: &Path, size: u64) -> Result<(), LayerError> {
    let whole = image.with_extension("whole");
    let made = File::create_new(&whole).and_then(|f| f.set_len(size));
    made.map_err(failed("make the disk", &whole))?;
    let mut mkfs = needs::tool(NAME, "mkfs.ext4", "e2fsprogs")?;
    let fixed = "lazy_itable_init=0,lazy_journal_init=0,nodiscard";
    let args = ["-q", "-F", "-b", "4096", "-J", "size=4", "-E", fixed];
    child::run(NAME, mkfs.args(args).arg(&whole))?;
    // mkfs has written zeros to its tables of inodes, and each image would have them.
    copy_sparse(&whole, image).map_err(failed("copy the disk to", image))?;
    fs::remove_file(&whole).map_err(failed("remove", &whole))
}

/// The disk's process, and the way to it.
struct Server {
    pid: u32,
    commands: ChildStdin,
    answers: Receiver<String>,
}

/// Starts `EXE disk-serve` and waits until it serves.
fn start_server(
    exe: &Path,
    content: &Path,
    log: &Path,
    disk: &Path,
    undo: &mut Undo,
) -> Result<Server, LayerError> {
    let broken = || failed("start", exe)(std::io::ErrorKind::BrokenPipe.into());
    let mut command = child::command(exe);
    command.arg("disk-serve").arg(content).arg(log).arg(disk);
    let mut process = Process::start(&mut command).map_err(failed("start", exe))?;
    let (stdin, stdout) = (process.child().stdin.take(), process.child().stdout.take());
    let commands = stdin.ok_or_else(broken)?;
    let answers = lines(stdout.ok_or_else(broken)?).map_err(failed("start", exe))?;
    let ready = answers.recv_timeout(LIMIT);
    let (pid, tail) = (process.child().id(), process.tail());
    let ended = process.wait(match ready {
        Ok(_) => Duration::ZERO,
        // It may have closed its output a moment before it ends.
        Err(_) => Duration::from_millis(500),
    });
    undo.push("end the volatile disk", move || {
        drop(process);
        Ok(())
    });
    let mounted = disk.to_owned();
    undo.push(format!("unmount {}", disk.display()), move || {
        mounts::unmount(&mounted)
    });
    match (ready.as_deref(), ended) {
        (Ok(serve::READY), None) => Ok(Server {
            pid,
            commands,
            answers,
        }),
        (_, Some(status)) => Err(LayerError::Program {
            layer: NAME.into(),
            program: "the disk's process".into(),
            status,
            tail,
        }),
        (_, None) => Err(LayerError::Slow {
            layer: NAME.into(),
            what: "mounting".into(),
            after: LIMIT,
            tail,
        }),
    }
}

/// Reads lines in a thread, which ends with the process.
fn lines(out: ChildStdout) -> std::io::Result<Receiver<String>> {
    let (send, receive) = mpsc::channel();
    thread::Builder::new().spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                return;
            }
        }
    })?;
    Ok(receive)
}
