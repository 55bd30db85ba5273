//! The time that a program spends between its calls: its own time on tmpfs, without that of a replay there. strace's
//! own times cannot tell it: strace takes several times as long. They tell only where most of it is.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs::{self, File},
    io::BufReader,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use layermark_model::format_size;
use layermark_probe::workloads::replay;
use layermark_recording::{
    Call, Entry, Recording, limits,
    strace::{self, OpenFile, TraceOf},
    words_of,
};

use super::{
    Scratch,
    interrupts::Interrupts,
    listed,
    program::{self, Elsewhere},
    standard,
};

/// The tmpfs of every Linux machine.
const MEMORY: &str = "/dev/shm";
/// `TMPFS_MAGIC`.
const TMPFS: i64 = 0x0102_1994;
/// How many times the program and its replay are run in turn.
const ROUNDS: usize = 5;
/// Bytes of a page: what a file has of tmpfs is a multiple.
const PAGE: u64 = 4096;
/// How often the time that several tasks compute is tried, at most.
const TRIES: usize = 6;
/// It is right within this part.
const NEAR: u64 = 50;
/// From one try to the next it changes at most by this factor.
const MOST_AT_ONCE: f64 = 4.0;
/// After this time no further round is begun.
const ENOUGH: Duration = Duration::from_secs(30);

/// The tree before the program has run, in memory.
pub struct Copy {
    dir: Scratch,
    bytes: u64,
}

/// The time between calls, and what it is made of.
pub struct Think {
    pub ns: u64,
    /// How far the rounds were from it at most, ns.
    pub spread_ns: u64,
    /// What all tasks together compute in that time, ns; `None` if it is the same.
    pub computing_ns: Option<u64>,
    pub words: String,
    /// What strace adds to the program's time on tmpfs.
    pub tracing: String,
}

impl Copy {
    /// Copies a tree with the contents of its files, which a replay does not have.
    pub fn make(root: &Path, tree: &[Entry]) -> Result<Self, String> {
        let files = tree.iter().filter(|entry| entry.same.is_none());
        let bytes = files.fold(0u64, |sum, entry| {
            sum.saturating_add(entry.stored().div_ceil(PAGE).saturating_mul(PAGE))
        });
        let found = rustix::fs::statfs(MEMORY).map_err(|e| format!("{MEMORY}: {e}"))?;
        if found.f_type != TMPFS {
            return Err(format!("{MEMORY} is not a tmpfs"));
        }
        let free = free();
        // The tree before, one for the program, and one for its replay.
        if bytes.saturating_mul(4) > free {
            let (bytes, free) = (format_size(bytes), format_size(free));
            return Err(format!(
                "a tree of {bytes} does not fit into {MEMORY}, which has {free}, four times"
            ));
        }
        let dir = Scratch::new(Path::new(MEMORY)).map_err(|e| format!("{MEMORY}: {e}"))?;
        copy(root, &dir.path().join("before"))?;
        Ok(Self { dir, bytes })
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A fresh copy for the program.
    fn fresh(&self) -> Result<PathBuf, String> {
        let now = self.at("now");
        layermark_fd::remove_tree(&now).map_err(|e| e.to_string())?;
        copy(&self.at("before"), &now)?;
        Ok(now)
    }
}

/// Copies a directory with permissions, times and links.
fn copy(from: &Path, to: &Path) -> Result<(), String> {
    fs::create_dir(to).map_err(|e| format!("{}: {e}", to.display()))?;
    let all = from.join(".");
    let done = Command::new("cp")
        .args(["-a", "--"])
        .arg(&all)
        .arg(to)
        .output();
    match done {
        Ok(done) if done.status.success() => Ok(()),
        Ok(done) => {
            let why = layermark_model::brief(&String::from_utf8_lossy(&done.stderr));
            Err(format!("the tree cannot be copied into {MEMORY}: {why}"))
        }
        Err(e) => Err(format!("cp: {e}")),
    }
}

/// What was recorded, and how it ended.
pub struct Recorded<'a> {
    pub interrupts: &'a Interrupts,
    pub strace: &'a Path,
    pub argv: &'a [OsString],
    pub cwd: &'a Path,
    pub root: &'a Path,
    pub traced: &'a program::Traced,
    /// Files of the tree that the shell has opened for it.
    pub opened: &'a [OpenFile],
}

/// The program under strace, on tmpfs.
struct Tried {
    calls: Vec<Call>,
    /// Calls in its trace.
    traced: u64,
    took: Duration,
}

/// Runs the program and its replay in turn.
pub fn measure(before: &Copy, run: &Recorded<'_>, recording: &Recording) -> Result<Think, String> {
    run.can_be_repeated()?;
    let new = recording
        .written()
        .saturating_add(recording.made().saturating_mul(PAGE));
    // The tree before is there already.
    let needed = before.bytes.saturating_mul(3);
    if needed.saturating_add(new.saturating_mul(4)) > free() {
        return Err(format!(
            "what the program writes does not fit into {MEMORY}"
        ));
    }
    let within = run.cwd.strip_prefix(run.root);
    let within = within.map_err(|_| "the program was started outside of the tree".to_owned())?;
    let replays = before.at("replays");
    fs::create_dir(&replays).map_err(|e| format!("{}: {e}", replays.display()))?;
    let found = |dir: &Path| Ok::<_, String>(listed(dir).map_err(|e| e.message)?.entries);
    let mut dir = before.fresh()?;
    let first = found(&dir)?;
    // It is not counted: it also loads the program.
    let mut tried = run.try_in(&dir, within, &first)?;
    let repeats = words_of(&found(&dir)?) == words_of(&first);
    if repeats {
        // As in every round: the program finds what it has left, such as an index with the times of these files.
        tried = run.try_in(&dir, within, &first)?;
    }
    if let Some(difference) = differ(&recording.calls, &tried.calls) {
        return Err(format!(
            "on tmpfs the program does something else: {difference}"
        ));
    }
    let mut rounds = Vec::new();
    let begun = Instant::now();
    for round in 0..ROUNDS {
        // One alone says nothing of how far it varies.
        if round > 1 && begun.elapsed() > ENOUGH {
            break;
        }
        if !repeats {
            dir = before.fresh()?;
        }
        let own = run.time_in(&dir, within)?;
        rounds.push((own, replayed(recording, &replays, 0)?));
    }
    let mut think = between(&rounds, &tried)?;
    if recording.head.tasks > 1 {
        let calls = median(rounds.iter().map(|(_, calls)| *calls).collect());
        let (computing, off) = computing((think.ns, calls.as_nanos() as u64), &mut |ns| {
            if run.interrupts.any() {
                return Err("it was interrupted".into());
            }
            Ok(replayed(recording, &replays, ns)?.as_nanos() as u64)
        })?;
        think.computing_ns = Some(computing);
        think.spread_ns = think.spread_ns.max(off);
    }
    Ok(think)
}

/// A replay on tmpfs whose tasks compute for so long altogether.
fn replayed(recording: &Recording, dir: &Path, think_ns: u64) -> Result<Duration, String> {
    let replayed = replay::replay(recording, dir, think_ns);
    let replayed = replayed.map_err(|e| format!("a replay on tmpfs: {}", e.message))?;
    Ok(Duration::from_nanos(replayed.elapsed_ns))
}

/// How long several tasks have to compute so that a replay takes `think` longer than without: they do it at the same time,
/// and while others wait for their calls. Returns that, and how far from `think` the replay was. `calls`: a replay without
/// it. `replay` makes one and returns its time, ns.
///
/// # Errors
/// If no replay comes near.
fn computing(
    (think, calls): (u64, u64),
    replay: &mut dyn FnMut(u64) -> Result<u64, String>,
) -> Result<(u64, u64), String> {
    let (mut next, mut best) = (think, None);
    for _ in 0..TRIES {
        let longer = replay(next)?.saturating_sub(calls).max(1);
        let tried = (longer.abs_diff(think), next);
        best = Some(best.map_or(tried, |best| tried.min(best)));
        if tried.0 <= think / NEAR {
            break;
        }
        let scale = (think as f64 / longer as f64).clamp(1.0 / MOST_AT_ONCE, MOST_AT_ONCE);
        next = ((next as f64 * scale) as u64).min(limits::THINK_NS);
    }
    match best {
        Some((off, computing)) if off <= think / 2 => Ok((computing, off)),
        _ => Err("no replay of its tasks takes as long on tmpfs as the program".into()),
    }
}

/// Whether a word has the path `root` or one below it, also behind other text, such as `--dir=`.
fn is_path_in(word: &[u8], root: &[u8]) -> bool {
    let is_of_name = |c: &u8| c.is_ascii_alphanumeric() || b"._-".contains(c);
    let begins = |at: usize| at == 0 || !is_of_name(&word[at - 1]);
    // All that begins with `/` is below it.
    let ends = |at: usize| root.ends_with(b"/") || !word.get(at).is_some_and(is_of_name);
    let places = word.windows(root.len()).enumerate();
    let mut places = places.filter(|(_, part)| *part == root);
    places.any(|(at, _)| begins(at) && ends(at + root.len()))
}

/// The time between calls of a program, of rounds of its own time and that of its calls.
fn between(rounds: &[(Duration, Duration)], tried: &Tried) -> Result<Think, String> {
    let own = median(rounds.iter().map(|(own, _)| *own).collect());
    let calls = median(rounds.iter().map(|(_, calls)| *calls).collect());
    let taken = format!(
        "on tmpfs the program takes {} and its calls {}",
        shown(own),
        shown(calls)
    );
    let Some(think) = own.checked_sub(calls) else {
        return Err(format!("{taken}, which is more"));
    };
    let ns = |time: &Duration| time.as_nanos() as i64;
    let off = |(own, calls): &(Duration, Duration)| (ns(own) - ns(calls)).abs_diff(ns(&think));
    let spread = Duration::from_nanos(rounds.iter().map(off).max().unwrap_or(0));
    let seen = format!("±{} in {} rounds", shown(spread), rounds.len());
    let more = tried.took.saturating_sub(own).as_secs_f64() * 1e6;
    let tracing = format!(
        "{:.1} us more for each of {} traced calls: on tmpfs the program takes {} under strace",
        more / tried.traced.max(1) as f64,
        tried.traced,
        shown(tried.took)
    );
    Ok(Think {
        tracing,
        computing_ns: None,
        ns: think.as_nanos() as u64,
        spread_ns: spread.as_nanos() as u64,
        words: format!("{} ({seen}): {taken}", shown(think)),
    })
}

impl Recorded<'_> {
    /// Whether it can run again without the user.
    fn can_be_repeated(&self) -> Result<(), String> {
        if self.interrupts.any() {
            return Err("the program was interrupted".into());
        }
        let root = self.root.as_os_str().as_bytes();
        let is_named = |word: &OsString| is_path_in(word.as_bytes(), root);
        if self.argv.iter().any(is_named) {
            // Repeated, it would change these files again.
            return Err("the program is given files of the tree by absolute paths".into());
        }
        if self.opened.iter().any(|file| file.descriptor > 2) {
            // Repeated, it would write to this tree.
            return Err("the program has more files of the tree from the shell than its standard input, output and error".into());
        }
        if self.opened.iter().any(|file| file.descriptor == 0) {
            return Ok(());
        }
        let input = fs::read_link("/proc/self/fd/0").unwrap_or_default();
        let input = escaped(input.as_os_str().as_bytes());
        let mut reads = false;
        let log = |line: &[u8]| reads |= takes(line, &input);
        self.traced
            .lines(log)
            .map_err(|e| format!("the trace: {e}"))?;
        if reads {
            return Err(
                "the program reads its standard input, which is empty when it is repeated".into(),
            );
        }
        Ok(())
    }

    /// Runs the program in a copy, and looks whether it uses the copy alone.
    fn try_in(&self, copy: &Path, within: &Path, tree: &[Entry]) -> Result<Tried, String> {
        let elsewhere = self.elsewhere(copy, within)?;
        let traced = program::run(self.interrupts, self.strace, self.argv, Some(elsewhere))
            .map_err(|e| e.message)?;
        if traced.code != self.traced.code {
            return Err(format!("the program ends with {} on tmpfs", traced.shown()));
        }
        let unreadable = |e: std::io::Error| format!("the trace: {e}");
        let mut absolute = false;
        let root = escaped(self.root.as_os_str().as_bytes());
        traced
            .lines(|line| absolute |= names(line, &root))
            .map_err(unreadable)?;
        if absolute {
            return Err("the program uses files of the tree by absolute paths".into());
        }
        // strace shows paths without links.
        let copy = fs::canonicalize(copy).map_err(unreadable)?;
        let of = TraceOf {
            cwd: copy.join(within).as_os_str().as_bytes().to_vec(),
            opened: standard::in_copy(self.opened, self.root, &copy),
            root: copy.into_os_string().into_encoded_bytes(),
            tree: Some(tree.to_vec()),
            faults: None,
        };
        let log = BufReader::new(File::open(traced.log()).map_err(unreadable)?);
        let converted =
            strace::convert(log, &of).map_err(|why| format!("its trace on tmpfs: {why}"))?;
        Ok(Tried {
            calls: converted.recording.calls,
            traced: converted.traced,
            took: traced.took,
        })
    }

    fn time_in(&self, copy: &Path, within: &Path) -> Result<Duration, String> {
        let ended = program::alone(self.interrupts, self.argv, self.elsewhere(copy, within)?);
        let (status, took) = ended.map_err(|e| format!("the program: {e}"))?;
        if self.interrupts.any() {
            return Err("it was interrupted".into());
        }
        if status.code() == self.traced.code {
            Ok(took)
        } else {
            Err(format!("the program ends with {status} on tmpfs"))
        }
    }

    /// As the program was started, in a copy of the tree.
    fn elsewhere(&self, copy: &Path, within: &Path) -> Result<Elsewhere, String> {
        let standard = standard::open(&standard::in_copy(self.opened, self.root, copy));
        Ok(Elsewhere {
            dir: copy.join(within),
            standard: standard.map_err(|e| format!("standard input and output on tmpfs: {e}"))?,
        })
    }
}

/// The first kind of call whose number differs by more than a tenth. A few calls depend on the file system (tar reads once
/// more on tmpfs) or on which task is first (make, npm). So many have no weight that are less than three in a hundred of
/// all: the time on tmpfs is wrong by so little. Mappings are recorded only with page faults, which are not recorded there.
fn differ(recorded: &[Call], here: &[Call]) -> Option<String> {
    let mut counts = BTreeMap::<&str, [u64; 2]>::new();
    for (at, calls) in [recorded, here].into_iter().enumerate() {
        for call in calls.iter().filter(|call| !call.kind.is_of_mappings()) {
            counts.entry(call.kind.id()).or_default()[at] += 1;
        }
    }
    let apart: u64 = counts.values().map(|[then, now]| now.abs_diff(*then)).sum();
    let all: u64 = counts.values().map(|[then, _]| then).sum();
    if apart * 100 < all * 3 {
        return None;
    }
    let other = |(_, [then, now]): &(&str, [u64; 2])| now.abs_diff(*then) > (then / 10).max(2);
    let (kind, [then, now]) = counts.into_iter().find(other)?;
    Some(format!("{now} x {kind}, and {then} x when it was recorded"))
}

/// A path as strace prints it.
fn escaped(path: &[u8]) -> Vec<u8> {
    let mut all = Vec::with_capacity(path.len());
    for byte in path {
        match byte {
            b'"' | b'\\' => all.extend([b'\\', *byte]),
            0x80.. => all.extend(format!("\\{byte:o}").into_bytes()),
            _ => all.push(*byte),
        }
    }
    all
}

/// Whether a line of a trace reads something from standard input, which is this file.
fn takes(line: &[u8], input: &[u8]) -> bool {
    let line = without_time(line.trim_ascii_end());
    let of = [&b"(0<"[..], input].concat();
    let reads = [&b" read"[..], b" pread"].iter().any(|call| {
        let at = line.windows(call.len()).position(|found| found == *call);
        at.is_some_and(|at| line[at..].windows(of.len()).any(|found| found == of))
    });
    reads && !line.ends_with(b" = 0")
}

/// A line without the time that the call took.
fn without_time(line: &[u8]) -> &[u8] {
    let at = line.iter().rposition(|byte| *byte == b'<');
    let Some((before, time)) = at.map(|at| line.split_at(at)) else {
        return line;
    };
    let is_time = time.len() > 2
        && time.ends_with(b">")
        && time[1..time.len() - 1]
            .iter()
            .all(|b| b.is_ascii_digit() || *b == b'.');
    if is_time {
        before.trim_ascii_end()
    } else {
        line
    }
}

/// Whether a line of a trace has a path below `root`, in quotes or as the path of a descriptor. Data is in quotes, too.
fn names(line: &[u8], root: &[u8]) -> bool {
    let call = line.split(|byte| b"(\"".contains(byte)).next();
    let call = call.unwrap_or_default();
    let has = |word: &&[u8]| call.windows(word.len()).any(|found| found == *word);
    let moves_data = [&b"read"[..], b"write", b"send", b"recv"].iter().any(has);
    let is_named = !moves_data || has(&&b"readlink"[..]);
    let mut places = line.windows(root.len() + 2);
    is_named
        && places.any(|found| {
            let (before, after) = (found[0], found[root.len() + 1]);
            matches!(before, b'"' | b'<')
                && matches!(after, b'/' | b'"' | b'>')
                && &found[1..=root.len()] == root
        })
}

/// A time in words.
pub fn shown(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

fn free() -> u64 {
    rustix::fs::statfs(MEMORY).map_or(0, |found| {
        found.f_bavail.saturating_mul(found.f_bsize.cast_unsigned())
    })
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_with_the_original_tree_is_found() {
        let has = |log: &str| names(log.as_bytes(), b"/a/b");
        assert!(has("1 stat(\"/a/b/c\", 0x7) = 0\n") && has("1 chdir(\"/a/b\") = 0"));
        assert!(has("1 openat(AT_FDCWD</a/b>, \"c\") = 3"));
        assert!(!has("1 stat(\"/a/bc\", 0x7) = 0\n") && !has("1 stat(\"/x/a/b/c\", 0x7) = 0"));
        assert!(!has(""));
        assert!(has("1 readlink(\"/a/b\", 0x7, 9) = -1 EINVAL"));
        for data in [
            "1 write(1<pipe:[7]>, \"/a/b\", 4) = 4",
            "1 <... read resumed>\"/a/b/c\"..., 9) = 9",
        ] {
            assert!(!has(data), "{data}");
        }
        let root = escaped("/a/größe \"x\"".as_bytes());
        assert_eq!(root, br#"/a/gr\303\266\303\237e \"x\""#);
    }

    #[test]
    fn a_word_names_the_tree_only_as_a_whole_path() {
        let is = |word: &str, root: &str| is_path_in(word.as_bytes(), root.as_bytes());
        for word in [
            "/home/u/app",
            "/home/u/app/x",
            "--dir=/home/u/app",
            "a:/home/u/app:b",
        ] {
            assert!(is(word, "/home/u/app"), "{word}");
        }
        for word in [
            "/home/u/app-tools/x",
            "/home/u/app2",
            "/mnt/home/u/app",
            "app",
            "",
        ] {
            assert!(!is(word, "/home/u/app"), "{word}");
        }
        assert!(is("/etc/passwd", "/") && !is("etc/passwd", "/"));
    }

    #[test]
    fn what_is_read_from_standard_input_is_found() {
        let takes = |line: &str| takes(line.as_bytes(), b"/dev/pts/0");
        assert!(takes(
            "7 read(0</dev/pts/0<char 136:0>>, \"\"..., 100) = 5\n"
        ));
        assert!(takes("7 read(0</dev/pts/0>,  <unfinished ...>\n"));
        assert!(!takes("7 read(0</dev/pts/0>, \"\", 100) = 0\n"));
        assert!(!takes(
            "7 1.2 read(0</dev/pts/0>, \"\", 100) = 0 <0.000012>\n"
        ));
        assert!(takes(
            "7 1.2 read(0</dev/pts/0>, \"\", 100) = 5 <0.000012>\n"
        ));
        assert!(
            !takes("7 read(0<pipe:[7]>, \"\"..., 100) = 5\n"),
            "of another process"
        );
        assert!(!takes("7 fstat(0</dev/pts/0>, {st_mode=S_IFCHR}) = 0\n"));
    }

    #[test]
    fn other_calls_are_found() {
        use layermark_recording::CallKind as K;
        let calls = |kinds: &[K]| {
            kinds
                .iter()
                .map(|kind| Call::new(*kind))
                .collect::<Vec<_>>()
        };
        let of = |reads: usize, stats: usize| {
            let all = [[K::Read].repeat(reads), [K::Stat].repeat(stats)];
            calls(&all.concat())
        };
        let recorded = of(40, 0);
        for near in [of(40, 0), of(44, 2), of(36, 0)] {
            assert_eq!(differ(&recorded, &near), None);
        }
        let mapped = [
            recorded.clone(),
            calls(&[K::Map, K::Touch, K::Unmap].repeat(9)),
        ]
        .concat();
        assert_eq!(differ(&mapped, &recorded), None);
        // A twentieth of a hundred calls, and a hundredth of five hundred.
        let (few, many) = (of(100, 5), of(500, 5));
        assert_eq!(
            differ(&few, &of(100, 0)).as_deref(),
            Some("0 x stat, and 5 x when it was recorded")
        );
        assert_eq!(differ(&many, &of(500, 0)), None);
        for (other, says) in [
            (of(0, 0), "0 x read, and 40 x when it was recorded"),
            (of(45, 0), "45 x read, and 40 x when it was recorded"),
            (of(40, 3), "3 x stat, and 0 x when it was recorded"),
        ] {
            assert_eq!(differ(&recorded, &other).as_deref(), Some(says));
        }
    }

    #[test]
    fn the_time_between_calls_has_a_spread_and_is_never_guessed() {
        let rounds = |all: &[(u64, u64)]| {
            let all = all.iter();
            let ms = Duration::from_millis;
            between(
                &all.map(|(own, calls)| (ms(*own), ms(*calls)))
                    .collect::<Vec<_>>(),
                &Tried {
                    calls: Vec::new(),
                    traced: 2000,
                    took: ms(61),
                },
            )
        };
        let found = rounds(&[(10, 2), (12, 2), (11, 3)]).unwrap();
        assert_eq!((found.ns, found.spread_ns), (9_000_000, 1_000_000));
        assert_eq!(
            found.words,
            "9.0 ms (±1.0 ms in 3 rounds): on tmpfs the program takes 11.0 ms and its calls 2.0 ms"
        );
        assert_eq!(
            found.tracing,
            "25.0 us more for each of 2000 traced calls: on tmpfs the program takes 61.0 ms under strace"
        );
        let Err(why) = rounds(&[(2, 3)]) else {
            panic!("less than its calls")
        };
        assert_eq!(
            why,
            "on tmpfs the program takes 2.0 ms and its calls 3.0 ms, which is more"
        );
    }

    #[test]
    fn tasks_compute_as_long_as_makes_the_time_of_the_program() {
        // Two tasks that compute at once, behind 5 ms of calls.
        let two = |ns: u64| Ok(5_000_000 + ns / 2);
        let (found, off) = computing((40_000_000, 5_000_000), &mut { two }).unwrap();
        assert!(
            found.abs_diff(80_000_000) < 2_000_000 && off <= 800_000,
            "{found}"
        );
        // A time that does not depend on it is no estimate.
        let why = computing((40_000_000, 5_000_000), &mut |_| Ok(5_000_000)).unwrap_err();
        assert!(why.contains("no replay"), "{why}");
        let why = computing((1, 0), &mut |_| Err("no".into())).unwrap_err();
        assert_eq!(why, "no");
    }

    #[test]
    fn the_middle_one() {
        assert_eq!(
            median([3, 1, 2].map(Duration::from_secs).into()),
            Duration::from_secs(2)
        );
        assert_eq!(median(Vec::new()), Duration::ZERO);
    }
}
