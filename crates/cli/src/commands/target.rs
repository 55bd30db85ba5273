//! Files that the user names, such as the output of `-o`: finds the format and the destination, and protects existing
//! files.

use std::{
    fs::{self, File, Metadata},
    io::{self, BufWriter, IsTerminal, Write},
    os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use layermark_fd::{Held, HeldDir, Refused};
use layermark_report::{
    Report,
    render::{self, Exporter, Files},
};
use layermark_store::Archive;
use tempfile::NamedTempFile;

use super::written::{self, is_ours, misleads};
use crate::{common_args::OutArgs, failure::Failure};

/// What is written, and its destination.
pub struct Target {
    what: What,
    place: Destination,
    force: bool,
}

/// What a file holds.
#[derive(Clone, Copy)]
enum What {
    /// A report, in a format.
    Report(&'static dyn Exporter),
    /// The run itself, with its trials: see [`layermark_store::Archive`].
    Run,
}

impl What {
    /// What the name of a file says it holds.
    fn of(path: &Path) -> Result<Self, Failure> {
        if layermark_store::is_archive(path) {
            return Ok(Self::Run);
        }
        let found = render::for_path(path);
        let found = found.map_err(|e| {
            Failure::usage(format!("{e} .lm")).hint("layermark report last -o report.html")
        });
        found.map(Self::Report)
    }

    fn id(self) -> &'static str {
        match self {
            Self::Report(exporter) => exporter.id(),
            Self::Run => "lm",
        }
    }
}

/// Where something that the user named is written.
pub enum Destination {
    Stdout,
    /// A new or existing file. Its content is replaced atomically.
    File(PathBuf),
    /// A FIFO or device, written directly.
    Stream(PathBuf),
}

/// The option that names a file, and a command that names another one, for messages.
pub struct FileOption {
    pub name: &'static str,
    pub elsewhere: &'static str,
}

const OUTPUT: FileOption = FileOption {
    name: "-o",
    elsewhere: "layermark report last -o ~/report.html",
};

/// Finds the exporter of each `-o`, and checks before a run that the destination can be written.
pub fn targets(out: &OutArgs) -> Result<Vec<Target>, Failure> {
    let all: Vec<Target> = out
        .output
        .iter()
        .map(|path| target(path, out.force))
        .collect::<Result<_, _>>()?;
    let to_stdout = all.iter().filter(|t| t.is_stdout()).count();
    if to_stdout + usize::from(out.json.json) > 1 {
        let hint = "layermark report last -o json:- -o report.html";
        return Err(Failure::usage("standard output takes one report").hint(hint));
    }
    Ok(all)
}

/// Finds the exporter of one `-o`, and checks that the destination can be written.
pub fn target(path: &Path, force: bool) -> Result<Target, Failure> {
    match path.to_str().and_then(format_of_stdout) {
        Some(format) => Target::stdout(format),
        None => Target::file(path, What::of(path)?, force),
    }
}

/// The target for hyperfine's format, whatever the file's name.
pub fn times_target(path: &Path, force: bool) -> Result<Target, Failure> {
    Target::file(path, What::of(Path::new("times.hyperfine.json"))?, force)
}

/// The format of standard output: `-` is Markdown, `csv:-` names another by its ending.
fn format_of_stdout(text: &str) -> Option<&str> {
    match text {
        "-" => Some("md"),
        _ => text.strip_suffix(":-"),
    }
}

impl Target {
    fn stdout(format: &str) -> Result<Self, Failure> {
        let what = What::of(Path::new(&format!("report.{format}")))?;
        let refused = |why: &str| {
            let hint = format!("layermark report last -o report.{format}");
            Err(Failure::usage(format!("-o {format}:-: {why}")).hint(hint))
        };
        match what.id() {
            "svg" | "png" => refused("charts are several files"),
            "xlsx" | "lm" if io::stdout().is_terminal() => refused("a terminal does not show it"),
            _ => Ok(Self {
                what,
                place: Destination::Stdout,
                force: false,
            }),
        }
    }

    fn file(path: &Path, what: What, force: bool) -> Result<Self, Failure> {
        Ok(Self {
            what,
            place: Destination::find(&OUTPUT, path, force)?,
            force,
        })
    }

    /// The target for the page in the user's data directory, where every file is ours.
    pub fn page(path: PathBuf) -> Result<Self, Failure> {
        Ok(Self {
            what: What::of(&path)?,
            place: Destination::File(path),
            force: true,
        })
    }

    /// The format's name.
    pub fn format(&self) -> &'static str {
        self.what.id()
    }

    /// A warning where the format has nothing to say of this report.
    pub fn warning(&self, report: &Report) -> Option<String> {
        let What::Report(exporter) = self.what else {
            return None;
        };
        let what = exporter.lacks(report)?;
        let (run, id) = (&report.run, exporter.id());
        let found = report.store.find(run);
        let place = match &self.place {
            Destination::Stdout => id.into(),
            Destination::File(path) | Destination::Stream(path) => path.display().to_string(),
        };
        Some(format!(
            "warning: {place} is empty: run {run} has no {what}\nhint: its results: layermark report {found} -o report.csv"
        ))
    }

    pub fn is_stdout(&self) -> bool {
        matches!(self.place, Destination::Stdout)
    }

    /// Writes the report, or the run that it is of. Returns the names of the files.
    pub fn write(&self, report: &Report, kept: Option<&Archive>) -> Result<Vec<PathBuf>, Failure> {
        let again = format!(
            "the run is kept; write it elsewhere: layermark report {} -o FILE",
            report.store.find(&report.run)
        );
        let write = |out: &mut dyn Files| match self.what {
            What::Report(exporter) => exporter.write(report, out),
            What::Run => {
                let kept =
                    kept.ok_or_else(|| anyhow::anyhow!("this report is of no single run"))?;
                Ok(out.open("")?.write_all(&kept.packed()?)?)
            }
        };
        self.fill(&write).map_err(|e| e.hint(again))
    }

    /// Writes what `write` produces in the target's format. Returns the names of the files.
    pub fn fill(
        &self,
        write: &dyn Fn(&mut dyn Files) -> anyhow::Result<()>,
    ) -> Result<Vec<PathBuf>, Failure> {
        self.place.fill(self.force, write)
    }
}

impl Destination {
    /// Checks that the file at `path` can be written. With `force`, a file is replaced that layermark has not
    /// written.
    pub fn find(option: &FileOption, path: &Path, force: bool) -> Result<Self, Failure> {
        let refused = |why: String, hint: String| {
            Failure::usage(format!("{} {}: {why}", option.name, path.display())).hint(hint)
        };
        let elsewhere = || option.elsewhere.to_owned();
        hold(path).map_err(|(why, hint)| refused(why, hint))?;
        let place = match standing(path) {
            Existing::Directory => return Err(refused("this is a directory".into(), elsewhere())),
            Existing::Other(what) if !force => {
                let hint = "name another file, or replace it with --force".to_owned();
                return Err(refused(what, hint));
            }
            Existing::Other(_) => behind(path).map_err(|why| refused(why, elsewhere()))?,
            Existing::Free | Existing::Own(_) => Self::File(path.into()),
        };
        if let Self::File(path) = &place {
            let dir = hold(path).map_err(|(why, hint)| refused(why, hint))?;
            // An unnamed file that is removed at once.
            tempfile::tempfile_in(layermark_fd::path_of(&dir.fd)).map_err(|e| {
                let why = format!("no file can be made in {}: {e}", parent_of(path).display());
                refused(why, elsewhere())
            })?;
        }
        Ok(place)
    }

    /// Writes what `write` produces. Returns the names of the files.
    pub fn fill(
        &self,
        force: bool,
        write: &dyn Fn(&mut dyn Files) -> anyhow::Result<()>,
    ) -> Result<Vec<PathBuf>, Failure> {
        let failed =
            |path: &Path, e: anyhow::Error| Failure::failed(format!("{}: {e}", path.display()));
        match self {
            Destination::Stdout => {
                let mut text = Vec::new();
                write(&mut text).map_err(Failure::failed)?;
                super::stdout::write(&text)?;
                Ok(Vec::new())
            }
            Destination::Stream(path) => {
                let stream = || -> anyhow::Result<()> {
                    let mut text = Vec::new();
                    write(&mut text)?;
                    Ok(File::options().write(true).open(path)?.write_all(&text)?)
                };
                stream().map_err(|e| failed(path, e))?;
                Ok(vec![path.clone()])
            }
            Destination::File(path) => {
                let file = || -> anyhow::Result<Vec<PathBuf>> {
                    let dir = hold(path).map_err(|(why, _)| anyhow::anyhow!(why))?;
                    let mut parts = Parts::new(path, dir);
                    write(&mut parts)?;
                    parts.persist(force)
                };
                file().map_err(|e| failed(path, e))
            }
        }
    }

    /// Opens it to be written bit by bit. A file is new, and its name is durable.
    pub fn open(&self, force: bool) -> io::Result<File> {
        let path = match self {
            Self::Stdout => return Ok(File::from(rustix::io::dup(rustix::stdio::stdout())?)),
            Self::Stream(path) => return File::options().write(true).open(path),
            Self::File(path) => path,
        };
        let dir = hold(path).map_err(|(why, _)| io::Error::other(why))?;
        let (part, at) = new_file(&dir, path)?;
        let file = if force {
            part.persist(at)?
        } else {
            part.persist_noclobber(at)?
        };
        // Not every file system lets a directory be synced.
        let _ = File::from(dir.fd).sync_all();
        Ok(file)
    }
}

/// A new file of random name (`O_EXCL`, which follows no link) in the directory of `path`, and its path through the
/// open directory.
fn new_file(dir: &HeldDir, path: &Path) -> io::Result<(NamedTempFile, PathBuf)> {
    let held = layermark_fd::path_of(&dir.fd);
    let file = tempfile::Builder::new()
        .permissions(fs::Permissions::from_mode(0o666))
        .tempfile_in(&held)?;
    Ok((file, held.join(path.file_name().unwrap_or_default())))
}

/// Why a directory cannot hold a report, and a hint.
fn unusable(e: Refused, dir: &Path) -> (String, String) {
    match e {
        Refused::At(by) if by.is_symlink() => (
            format!("{} is a symbolic link of another user", by.display()),
            "name the file itself: -o ~/report.html".into(),
        ),
        Refused::At(by) => (
            format!("{} can be changed by other users", by.display()),
            format!("name another directory, or: chmod go-w {}", by.display()),
        ),
        Refused::Io(_) => (
            format!("there is no directory {}", dir.display()),
            format!("mkdir -p {}", dir.display()),
        ),
    }
}

/// Opens the directory of a report. Held open, so that nobody can redirect root afterwards.
fn hold(path: &Path) -> Result<HeldDir, (String, String)> {
    let dir = parent_of(path);
    HeldDir::find(dir, false, &mut misleads).map_err(|e| unusable(e, dir))
}

/// What exists at the destination of a report.
enum Existing {
    /// Nothing.
    Free,
    /// A file that layermark wrote, or an empty one.
    Own(Metadata),
    /// Something else, described in words.
    Other(String),
    Directory,
}

fn standing(path: &Path) -> Existing {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Existing::Free,
        // For example, the name is too long. The error is reported on writing.
        Err(_) => return Existing::Free,
    };
    let kind = found.file_type();
    if kind.is_dir() {
        Existing::Directory
    } else if kind.is_symlink() {
        let to = fs::read_link(path).unwrap_or_default();
        Existing::Other(format!("this is a symbolic link to {}", to.display()))
    } else if kind.is_fifo() {
        Existing::Other("this is a FIFO".into())
    } else if !kind.is_file() {
        Existing::Other("this is a device or a socket".into())
    } else if !is_ours(&found) {
        // The owner may write to it later, even if it holds a report now.
        Existing::Other("this file belongs to another user".into())
    } else {
        match is_own(path) {
            Ok(true) => Existing::Own(found),
            Ok(false) => Existing::Other("no record that layermark wrote this file".into()),
            Err(e) => Existing::Other(format!("whose file this is cannot be seen: {e}")),
        }
    }
}

fn is_own(path: &Path) -> io::Result<bool> {
    use rustix::fs::OFlags;
    // The file may have been replaced since the check.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut options = File::options();
    let options = options.read(true).custom_flags(flags.bits().cast_signed());
    written::is_own(&mut options.open(path)?)
}

/// The destination with `--force`: the file itself, or the target of a symbolic link.
fn behind(path: &Path) -> Result<Destination, String> {
    let target = Held::find(path, false, misleads).map_err(|e| unusable(e, parent_of(path)).0)?;
    let target = target.file();
    let kind = fs::metadata(&target)
        .map_err(|e| e.to_string())?
        .file_type();
    if kind.is_dir() {
        Err(format!("{} is a directory", target.display()))
    } else if kind.is_file() {
        Ok(Destination::File(target))
    } else if kind.is_socket() || kind.is_block_device() {
        Err("a socket or a disk is never written".into())
    } else {
        Ok(Destination::Stream(target))
    }
}

/// The files of one `-o` until all are complete. Each is a [`new_file`]. So a full disk does not destroy
/// an old report, and a new one is complete or absent.
struct Parts<'a> {
    path: &'a Path,
    // Before `dir`, so that incomplete files are removed while it is open.
    open: Option<(PathBuf, BufWriter<NamedTempFile>)>,
    done: Vec<(PathBuf, NamedTempFile)>,
    dir: HeldDir,
}

impl<'a> Parts<'a> {
    fn new(path: &'a Path, dir: HeldDir) -> Self {
        Self {
            path,
            open: None,
            done: Vec::new(),
            dir,
        }
    }

    fn close(&mut self) -> io::Result<()> {
        if let Some((path, out)) = self.open.take() {
            let part = out.into_inner().map_err(io::IntoInnerError::into_error)?;
            self.done.push((path, part));
        }
        Ok(())
    }

    fn persist(mut self, force: bool) -> anyhow::Result<Vec<PathBuf>> {
        self.close()?;
        let put = |(path, part): (PathBuf, _)| put(part, &path, &self.dir, force);
        self.done.into_iter().map(put).collect()
    }
}

impl Files for Parts<'_> {
    fn open(&mut self, part: &str) -> anyhow::Result<&mut dyn Write> {
        self.close()?;
        let (file, _) = new_file(&self.dir, self.path)?;
        let path = render::part_path(self.path, part);
        let (_, out) = self.open.insert((path, BufWriter::new(file)));
        Ok(out)
    }
}

/// Moves a file to its place, or to the next free name if a file that is not ours is there. The
/// names of charts are not known in advance, and a file may have appeared meanwhile.
fn put(
    mut part: NamedTempFile,
    wanted: &Path,
    dir: &HeldDir,
    force: bool,
) -> anyhow::Result<PathBuf> {
    written::add(part.as_file_mut());
    let mut number = 1;
    let mut path = wanted.to_path_buf();
    loop {
        let at = layermark_fd::path_of(&dir.fd).join(path.file_name().unwrap_or_default());
        match standing(&at) {
            Existing::Own(old) => {
                keep_mode(part.as_file(), &old);
                part.persist(&at)?;
                return Ok(path);
            }
            Existing::Other(_) if force && number == 1 => {
                // If another user owns it, its mode may let the owner write to it.
                if let Some(old) = fs::symlink_metadata(&at).ok().filter(is_ours) {
                    keep_mode(part.as_file(), &old);
                }
                part.persist(&at)?;
                return Ok(path);
            }
            Existing::Free => match part.persist_noclobber(&at) {
                Ok(_) => return Ok(path),
                Err(e) if e.error.kind() == io::ErrorKind::AlreadyExists => part = e.file,
                Err(e) => return Err(e.error.into()),
            },
            Existing::Other(_) | Existing::Directory => {
                number += 1;
                path = render::part_path(wanted, &number.to_string());
            }
        }
    }
}

/// Copies the mode and, if permitted, the group from our own file that is replaced.
fn keep_mode(part: &File, old: &Metadata) {
    // The mode comes last, because a change of group clears some of its bits.
    let _ = std::os::unix::fs::fchown(part, None, Some(old.gid()));
    let _ = part.set_permissions(fs::Permissions::from_mode(old.mode() & 0o777));
}

fn parent_of(path: &Path) -> &Path {
    path.parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}
