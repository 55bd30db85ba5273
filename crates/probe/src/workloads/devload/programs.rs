//! The programs that the jobs need: checks that they exist, and identifies them.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use xxhash_rust::xxh3::xxh3_128;

use layermark_sys::packages;

use super::params::JobSet;
use crate::{
    ProbeError,
    programs::{ELSEWHERE, PATH, which},
    resident,
};

/// Programs in a package of Debian and Ubuntu.
struct Package {
    name: &'static str,
    programs: &'static [&'static str],
    /// Whether only the jobs that compile need it.
    compiler: bool,
}

const fn package(name: &'static str, programs: &'static [&'static str]) -> Package {
    Package {
        name,
        programs,
        compiler: false,
    }
}

const fn compiler(name: &'static str, programs: &'static [&'static str]) -> Package {
    Package {
        name,
        programs,
        compiler: true,
    }
}

const PACKAGES: [Package; 14] = [
    package("dash", &["sh"]),
    package(
        "coreutils",
        &[
            "cat", "chmod", "cksum", "comm", "cp", "date", "expr", "fold", "head", "ls", "mkdir",
            "mv", "pr", "rm", "rmdir", "sort", "tail", "touch", "tr", "uniq", "wc",
        ],
    ),
    package("cpio", &["cpio"]),
    package("diffutils", &["cmp"]),
    package("ed", &["ed"]),
    package("findutils", &["find", "xargs"]),
    package("grep", &["grep"]),
    package("gzip", &["gzip"]),
    package("mawk", &["awk"]),
    package("procps", &["ps"]),
    package("sed", &["sed"]),
    package("tar", &["tar"]),
    compiler("gcc libc6-dev", &["cc", "as", "ld"]),
    compiler("make", &["make"]),
];

/// The path of each program. Fails with all that are missing, and with their packages.
pub fn find(job_set: JobSet) -> Result<BTreeMap<&'static str, PathBuf>, ProbeError> {
    let mut found = search(job_set, PATH)?;
    if let Some(cc) = found.get("cc") {
        found.extend(parts_of(cc));
    }
    Ok(found)
}

fn search(job_set: JobSet, path: &str) -> Result<BTreeMap<&'static str, PathBuf>, ProbeError> {
    let (mut found, mut missing, mut packages) = (BTreeMap::new(), Vec::new(), Vec::new());
    for package in &PACKAGES {
        if package.compiler && job_set == JobSet::NoCc {
            continue;
        }
        let before = missing.len();
        for program in package.programs {
            match which(program, path) {
                Some(path) => drop(found.insert(*program, path)),
                None => missing.push(*program),
            }
        }
        if missing.len() > before {
            packages.push((package.name, package.compiler));
        }
    }
    if missing.is_empty() {
        return Ok(found);
    }
    let names: Vec<&str> = packages.iter().map(|p| p.0).collect();
    let install = packages::install(&names.join(" "));
    let hint = if missing.contains(&"sh") {
        format!("{ELSEWHERE}; elsewhere: {install}")
    } else if packages.iter().all(|p| p.1) {
        format!("{install}; without a compiler: --job-set no-cc")
    } else {
        install
    };
    let message = format!(
        "the jobs need programs that are not in {path}: {}",
        missing.join(", ")
    );
    Err(ProbeError::new(message).hint(hint))
}

/// The programs that do the work of a compiler: `cc` only starts them. Empty if the compiler has
/// them built in.
fn parts_of(cc: &Path) -> Vec<(&'static str, PathBuf)> {
    let path = |part: &'static str| -> Option<_> {
        let mut ask = Command::new(cc);
        ask.env_clear().env("PATH", PATH);
        let said = ask.arg(format!("-print-prog-name={part}")).output().ok()?;
        let path = PathBuf::from(String::from_utf8(said.stdout).ok()?.trim_end());
        path.is_absolute().then_some((part, path))
    };
    ["cc1", "collect2"].into_iter().filter_map(path).collect()
}

/// Share of a program's file in the page cache when it was read and not dropped since.
const IN_MEMORY: f64 = 0.95;

/// Whether all programs are still in the page cache. They are read completely before each trial.
pub fn in_memory(programs: &BTreeMap<&'static str, PathBuf>) -> bool {
    let dropped = |path: &PathBuf| resident::share(path).is_some_and(|share| share < IN_MEMORY);
    !programs.values().any(dropped)
}

/// The hash of each program. Different programs have different hashes.
pub fn hashes(
    programs: &BTreeMap<&'static str, PathBuf>,
) -> Result<BTreeMap<String, String>, ProbeError> {
    let hash = |(name, path): (&&str, &PathBuf)| -> Result<_, ProbeError> {
        let fail = |e: io::Error| ProbeError::io("read", path, &e);
        let content = fs::read(path).map_err(fail)?;
        Ok(((*name).to_owned(), format!("{:032x}", xxh3_128(&content))))
    };
    programs.iter().map(hash).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A directory with all programs except these.
    fn place(without: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let all = PACKAGES.iter().flat_map(|p| p.programs);
        for program in all.filter(|p| !without.contains(p)) {
            let path = dir.path().join(program);
            fs::write(&path, program).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        dir
    }

    fn fails(job_set: JobSet, without: &[&str]) -> (String, String) {
        let dir = place(without);
        let e = search(job_set, dir.path().to_str().unwrap()).unwrap_err();
        (e.message, e.hint.unwrap())
    }

    #[test]
    fn what_is_missing_is_named_with_the_packages_that_bring_it() {
        let (message, hint) = fails(JobSet::Cc, &["cpio", "ed"]);
        assert!(message.ends_with(": cpio, ed"), "{message}");
        assert_eq!(hint, "apt-get install cpio ed");
        let (message, hint) = fails(JobSet::Cc, &["cc", "as", "make"]);
        assert!(message.ends_with(": cc, as, make"), "{message}");
        let wanted = "apt-get install gcc libc6-dev make; without a compiler: --job-set no-cc";
        assert_eq!(hint, wanted);
        let (_, hint) = fails(JobSet::NoCc, &["sh"]);
        assert!(hint.contains("vm:root=host"), "{hint}");
    }

    #[test]
    fn without_a_compiler_none_is_asked_for() {
        let dir = place(&["cc", "as", "ld", "make"]);
        let found = search(JobSet::NoCc, dir.path().to_str().unwrap()).unwrap();
        assert!(found.contains_key("sh") && !found.contains_key("cc"));
        assert!(search(JobSet::Cc, dir.path().to_str().unwrap()).is_err());
    }

    #[test]
    fn the_parts_of_a_compiler_are_hashed_too() {
        let found = find(JobSet::Cc).unwrap();
        assert!(found["cc1"].ends_with("cc1") && found["collect2"].is_absolute());
        let hashes = hashes(&found).unwrap();
        assert_ne!(hashes["cc1"], hashes["cc"]);
        assert!(!find(JobSet::NoCc).unwrap().contains_key("cc1"));
    }

    #[test]
    fn programs_that_were_dropped_from_memory_are_noticed() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = dir.path().join("program");
        fs::write(&path, vec![1; 1 << 20]).unwrap();
        let programs = BTreeMap::from([("program", path.clone())]);
        hashes(&programs).unwrap();
        assert!(in_memory(&programs));
        crate::files::evict(&fs::File::open(&path).unwrap()).unwrap();
        assert!(!in_memory(&programs));
    }

    #[test]
    fn another_program_has_another_hash() {
        let dir = place(&[]);
        let find = || search(JobSet::Cc, dir.path().to_str().unwrap()).unwrap();
        let before = hashes(&find()).unwrap();
        fs::write(dir.path().join("sort"), "changed").unwrap();
        let after = hashes(&find()).unwrap();
        let changed: Vec<_> = before.iter().filter(|(p, h)| after[*p] != **h).collect();
        assert_eq!(changed.len(), 1);
        assert_eq!(changed[0].0, "sort");
    }
}
