//! Files that must be in a layer so that a program can be launched from there. To find them, the
//! program is launched once natively with a trace. Every file that it found belongs to the package.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    ffi::OsString,
    fmt, fs,
    io::{BufRead, BufReader, Read, Write},
    os::unix::ffi::OsStrExt,
    path::{Component, Path, PathBuf},
    process::{Command, Stdio},
    sync::{Mutex, PoisonError},
    time::SystemTime,
};

use layermark_model::{
    Environment, FigureValue, PointError,
    protocol::{FromProbe, Job, ToProbe},
};
use layermark_sys::packages;

use super::params::{LaunchCache, LaunchParams};
use crate::{
    Placed, PlacedKind, ProbeError, param,
    programs::{PATH, sys, which},
};

/// Directory of the package below `packaged/`: one for all programs of a run.
pub const ROOT: &str = "root";

/// Paths that no package contains: they are created at every start, or belong to the machine.
const OUTSIDE: [&str; 6] = ["/proc", "/dev", "/sys", "/run", "/tmp", "/var/tmp"];

/// Loaders. The kernel itself opens them, so no trace shows them.
const LOADERS: [&str; 3] = [
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/ld-linux-aarch64.so.1",
    "/lib/ld-linux-armhf.so.3",
];

/// Longest chain of links: more than Linux follows (`path_resolution(7)`).
const HOPS: usize = 40;

/// The package of a point. Launches its programs on the first call in a process.
pub fn files(p: &LaunchParams, env: &Environment) -> Result<Vec<Placed>, PointError> {
    static MADE: Mutex<BTreeMap<String, Vec<Placed>>> = Mutex::new(BTreeMap::new());
    if !p.package {
        return Ok(Vec::new());
    }
    let key = param::key(p)?;
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(files) = made.get(&key) {
        return Ok(files.clone());
    }
    let mut names = captured(p, env)?;
    if p.trace {
        let tracer = LaunchParams {
            command: "strace -V".into(),
            ready: "exit".into(),
            prepare: String::new(),
            conclude: String::new(),
            cmd: Vec::new(),
            ..p.clone()
        };
        names.extend(captured(&tracer, env)?);
    }
    let files = placed(&names, &p.add, &OUTSIDE)?;
    made.insert(key, files.clone());
    Ok(files)
}

/// Names of all files that the point's programs use.
fn captured(p: &LaunchParams, env: &Environment) -> Result<BTreeSet<String>, PointError> {
    let mut names = BTreeSet::new();
    let commands = p.cmd.iter().filter_map(|c| layermark_model::split_layer(c));
    let commands: BTreeSet<&str> = commands
        .map(|(_, c)| c)
        .chain([p.command.as_str()])
        .collect();
    let once = LaunchParams {
        cmd: Vec::new(),
        package: false,
        add: Vec::new(),
        cache: LaunchCache::AsIs,
        restart: false,
        tracing: true,
        listing: true,
        ..p.clone()
    };
    for command in commands {
        let command = command.into();
        let its = LaunchParams {
            command,
            ..once.clone()
        };
        names.extend(capture(&its, env)?);
    }
    // Commands that run with the program use the same files.
    for (n, aside) in [&p.prepare, &p.conclude].into_iter().enumerate() {
        if !aside.is_empty() {
            let its = LaunchParams {
                command: aside.clone(),
                ready: "exit".into(),
                prepare: if n == 0 {
                    String::new()
                } else {
                    p.prepare.clone()
                },
                conclude: String::new(),
                ..once.clone()
            };
            names.extend(capture(&its, env)?);
        }
    }
    Ok(names)
}

/// Launches once in a separate probe, natively, in a home in memory.
fn capture(p: &LaunchParams, env: &Environment) -> Result<Vec<String>, PointError> {
    in_a_probe(p, env).map_err(|e| {
        let what = format!(": `{}` could not be packaged: {}", p.command, e.message);
        PointError::of("launch", "package", what)
            .hint(e.hint.unwrap_or_else(|| untraced(&p.command)))
    })
}

/// The hint for a launch that could not be traced.
fn untraced(command: &str) -> String {
    match which("strace", PATH) {
        None => format!(
            "a package is found by tracing a native launch: {}",
            packages::install("strace")
        ),
        Some(_) => format!("see that it works here: {command}"),
    }
}

fn in_a_probe(p: &LaunchParams, env: &Environment) -> Result<Vec<String>, ProbeError> {
    let failed = |what: &str, e: &dyn fmt::Display| {
        ProbeError::new(format!("the probe that traces it: {what}: {e}"))
    };
    let job = Job {
        id: 1,
        dir: "/".into(),
        point: param::point("package".into(), p)?,
        seed: 0,
        min_ms: 0,
        min_ops: 0,
        devices: Vec::new(),
        cpus: None,
        below: Vec::new(),
        peer: None,
        env: env.clone(),
    };
    let exe = std::env::current_exe().map_err(|e| failed("its program", &e))?;
    let mut command = Command::new(exe);
    sys::end_with_us(&mut command);
    let mut probe = command
        .arg("probe")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| failed("it cannot be started", &e))?;
    let (mut stdin, stdout) = (probe.stdin.take(), probe.stdout.take());
    let mut tell = |word: &ToProbe| -> Result<(), ProbeError> {
        let mut line = serde_json::to_vec(word).map_err(|e| failed("its job", &e))?;
        line.push(b'\n');
        stdin
            .as_mut()
            .map_or(Ok(()), |s| s.write_all(&line))
            .map_err(|e| failed("its input", &e))
    };
    let result = (|| {
        tell(&ToProbe::Job(Box::new(job)))?;
        let stdout = stdout.ok_or_else(|| failed("its output", &"no pipe"))?;
        for line in BufReader::new(stdout).lines() {
            let said = serde_json::from_str(&line.map_err(|e| failed("its output", &e))?)
                .map_err(|e| failed("its output", &e))?;
            if let Some(next) = ToProbe::in_one_stretch(&said) {
                tell(&next)?;
            }
            match said {
                FromProbe::Error {
                    message,
                    hint,
                    errno,
                    ..
                } => {
                    let refused = (errno == Some(libc::EPERM)).then_some(
                        "a package is found in namespaces of its own, which this user may not make: sudo layermark ...",
                    );
                    let e = ProbeError::new(message);
                    return Err(match hint.or(refused.map(str::to_owned)) {
                        Some(hint) => e.hint(hint),
                        None => e,
                    });
                }
                FromProbe::Trial { trial, .. } => {
                    let files = trial.figures.group("trace").get("files").cloned();
                    return Ok(match files {
                        Some(FigureValue::Names(files)) => files,
                        _ => Vec::new(),
                    });
                }
                _ => {}
            }
        }
        Err(ProbeError::new(
            "the probe that traces it ended before its answer",
        ))
    })();
    drop(stdin);
    let _ = probe.wait();
    result
}

/// Every file with the directories and links that lead to it.
fn placed(
    names: &BTreeSet<String>,
    add: &[String],
    outside: &[&str],
) -> Result<Vec<Placed>, PointError> {
    let mut found = BTreeMap::new();
    for name in names.iter().map(String::as_str).chain(LOADERS) {
        reach(Path::new(name), outside, &mut found);
    }
    for name in add {
        if !Path::new(name).is_absolute() || Path::new(name).symlink_metadata().is_err() {
            return Err(
                PointError::of("launch", "add", format!(" = {name}: it is not there"))
                    .hint("write the absolute path of a file or directory"),
            );
        }
        walk(Path::new(name), outside, &mut found);
    }
    let scripts: Vec<PathBuf> = found.keys().filter_map(|at| interpreter(at)).collect();
    for script in scripts {
        reach(&script, outside, &mut found);
    }
    for name in ["proc", "dev", "tmp", "run"] {
        let modified = SystemTime::UNIX_EPOCH;
        found.insert(
            Path::new("/").join(name),
            PlacedKind::Directory { modified },
        );
    }
    found.remove(Path::new("/"));
    let below = |at: PathBuf| Path::new(ROOT).join(at.strip_prefix("/").unwrap_or(&at));
    Ok(found
        .into_iter()
        .map(|(at, kind)| Placed {
            path: below(at),
            kind,
        })
        .collect())
}

/// The program in the first line of a script.
fn interpreter(at: &Path) -> Option<PathBuf> {
    let mut start = [0; 256];
    let mut file = layermark_fd::open_now(at).ok()?;
    let n = file.read(&mut start).ok()?;
    let line = start[..n]
        .strip_prefix(b"#!")?
        .split(|b| *b == b'\n')
        .next()?;
    let word = line.trim_ascii().split(|b| *b == b' ').next()?;
    let path = Path::new(std::ffi::OsStr::from_bytes(word));
    path.is_absolute().then(|| path.to_owned())
}

/// Adds the target of a path, and everything on the way. Skips paths that are missing, unreadable,
/// or belong to the machine and not to the program.
fn reach(path: &Path, outside: &[&str], found: &mut BTreeMap<PathBuf, PlacedKind>) {
    let parts = |p: &Path| -> VecDeque<OsString> {
        p.components()
            .filter(|c| matches!(c, Component::Normal(_) | Component::ParentDir))
            .map(|c| c.as_os_str().to_owned())
            .collect()
    };
    let (mut at, mut rest, mut hops) = (PathBuf::from("/"), parts(path), 0);
    while let Some(part) = rest.pop_front() {
        if part == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&part);
        if outside.iter().any(|out| next.starts_with(out)) {
            return;
        }
        let Ok(meta) = next.symlink_metadata() else {
            return;
        };
        if meta.is_symlink() {
            let Ok(target) = fs::read_link(&next) else {
                return;
            };
            hops += 1;
            if hops > HOPS {
                return;
            }
            if target.is_absolute() {
                at = "/".into();
            }
            let mut first = parts(&target);
            first.append(&mut rest);
            rest = first;
            let link = relative(&next, &target);
            found.insert(next, PlacedKind::Link(link));
        } else if meta.is_dir() {
            let modified = meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            found.insert(next.clone(), PlacedKind::Directory { modified });
            at = next;
        } else {
            if meta.is_file() && layermark_fd::open_now(&next).is_ok() {
                let size = meta.len();
                found.insert(next.clone(), PlacedKind::File { source: next, size });
            }
            return;
        }
    }
}

/// The text of a link that is valid below the root of any tree. Some servers follow links
/// themselves, such as SMB servers, and do not know the program's root.
fn relative(link: &Path, target: &Path) -> PathBuf {
    let Ok(below) = target.strip_prefix("/") else {
        return target.to_owned();
    };
    let above = link.components().count().saturating_sub(2);
    let mut path: PathBuf = std::iter::repeat_n("..", above).collect();
    path.push(below);
    if path.as_os_str().is_empty() {
        path.push(".");
    }
    path
}

/// A directory with all its content.
fn walk(path: &Path, outside: &[&str], found: &mut BTreeMap<PathBuf, PlacedKind>) {
    reach(path, outside, found);
    if !path.is_dir() || path.is_symlink() {
        return;
    }
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        walk(&entry.path(), outside, found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_the_same_place_in_any_root() {
        let to = |link: &str, target: &str| relative(Path::new(link), Path::new(target));
        assert_eq!(to("/etc/fonts/a", "/usr/b"), Path::new("../../usr/b"));
        assert_eq!(to("/lib64", "usr/lib64"), Path::new("usr/lib64"));
        assert_eq!(to("/lib64", "/usr/lib64"), Path::new("usr/lib64"));
        assert_eq!(to("/a/b", "/"), Path::new(".."));
        assert_eq!(to("/a", "/"), Path::new("."));
    }

    #[test]
    fn links_are_followed_and_kept_and_the_machine_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("real")).unwrap();
        fs::write(at("real/script"), "#!/bin/sh -e\n").unwrap();
        std::os::unix::fs::symlink("real/../real", at("short")).unwrap();
        std::os::unix::fs::symlink("loop", at("loop")).unwrap();
        let names = [at("short/script"), at("loop"), at("gone")];
        let names = names.iter().map(|n| n.to_string_lossy().into_owned());
        let names: BTreeSet<String> = names.chain(["/proc/self/maps".into()]).collect();
        let files = placed(&names, &[], &["/proc"]).unwrap();
        let kind = |path: &Path| {
            let path = Path::new(ROOT).join(path.strip_prefix("/").unwrap());
            files.iter().find(|f| f.path == path).map(|f| &f.kind)
        };
        assert!(
            matches!(kind(&at("short")), Some(PlacedKind::Link(to)) if to == Path::new("real/../real"))
        );
        assert!(matches!(
            kind(&at("real/script")),
            Some(PlacedKind::File { size: 13, .. })
        ));
        assert!(matches!(
            kind(Path::new("/proc")),
            Some(PlacedKind::Directory { .. })
        ));
        assert_eq!(kind(Path::new("/proc/self")), None);
        assert!(kind(&at("gone")).is_none());
        let sh = fs::canonicalize("/bin/sh").unwrap();
        assert!(
            matches!(kind(&sh), Some(PlacedKind::File { .. })),
            "the interpreter"
        );
        assert!(placed(&names, &["relative".into()], &[]).is_err());
    }
}
