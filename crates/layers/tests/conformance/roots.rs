//! Trees of files that become the root of a guest's programs: a directory, an image of a file
//! system, and an image of a disk with partitions.

use std::{
    fs::{self, File},
    io::{Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
};

/// A program of the tree, and what it reads there.
pub const PROGRAM: &str = "/usr/bin/own";
const WHOSE: &str = "etc/whose";
const TEXT: &str = "the user's own";

/// Makes them below `home` and puts their paths into `spec`, where it names one.
pub fn named(spec: &str, home: &Path, exe: &Path) -> Result<String, String> {
    static ONE: Mutex<()> = Mutex::new(());
    if !spec.contains("root={") {
        return Ok(spec.to_owned());
    }
    let _one_makes_them = ONE.lock().unwrap();
    let roots = home.join("roots");
    if !roots.exists() {
        make(&roots, exe).inspect_err(|_| drop(fs::remove_dir_all(&roots)))?;
    }
    let names = ["dir", "raw", "qcow2"];
    Ok(names.iter().fold(spec.to_owned(), |spec, name| {
        let path = roots.join(format!("root.{name}"));
        spec.replace(&format!("{{{name}}}"), &path.to_string_lossy())
    }))
}

fn make(roots: &Path, exe: &Path) -> Result<(), String> {
    let at = |name: &str| roots.join(name);
    let dir = at("root.dir");
    for name in ["usr/bin", "etc"] {
        fs::create_dir_all(dir.join(name)).map_err(|e| e.to_string())?;
    }
    fs::copy(exe, dir.join(&PROGRAM[1..])).map_err(|e| e.to_string())?;
    fs::write(dir.join(WHOSE), TEXT).map_err(|e| e.to_string())?;
    let raw = at("root.raw");
    let size = exe.metadata().map_err(|e| e.to_string())?.len() * 5 / 4 + (16 << 20);
    run(
        "mkfs.ext4",
        &["-q", "-F", "-d"],
        &[dir, raw.clone(), format!("{}k", size >> 10).into()],
    )?;
    let disk = at("disk");
    partitioned(&raw, &disk).map_err(|e| e.to_string())?;
    let convert = ["convert", "-f", "raw", "-O", "qcow2"];
    run("qemu-img", &convert, &[disk.clone(), at("root.qcow2")])?;
    fs::remove_file(disk).map_err(|e| e.to_string())
}

fn run(program: &str, args: &[&str], paths: &[PathBuf]) -> Result<(), String> {
    let status = Command::new(program)
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .args(args)
        .args(paths)
        .status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{program}: {status}")),
        Err(e) => Err(format!("{program}: {e}")),
    }
}

/// A disk whose only partition, the first of four, is this file system.
fn partitioned(raw: &Path, disk: &Path) -> std::io::Result<()> {
    const BEGIN: u32 = 2048;
    let mut from = File::open(raw)?;
    let sectors = (from.metadata()?.len() / 512) as u32;
    let mut table = [0; 512];
    table[446 + 4] = 0x83;
    table[446 + 8..][..4].copy_from_slice(&BEGIN.to_le_bytes());
    table[446 + 12..][..4].copy_from_slice(&sectors.to_le_bytes());
    table[510..].copy_from_slice(&[0x55, 0xaa]);
    let mut to = File::create(disk)?;
    to.write_all(&table)?;
    to.seek(SeekFrom::Start(u64::from(BEGIN) * 512))?;
    std::io::copy(&mut from, &mut to)?;
    Ok(())
}

/// The program: it finds its tree, writes to it, and runs on a kernel's own file systems.
pub fn own() -> Result<(), String> {
    let root = Path::new("/");
    let text = fs::read_to_string(root.join(WHOSE)).map_err(|e| e.to_string())?;
    fs::write(root.join("etc/new"), &text).map_err(|e| e.to_string())?;
    let back = fs::read_to_string(root.join("etc/new")).map_err(|e| e.to_string())?;
    let there = ["proc/self/stat", "dev/null", "layer"].map(|p| root.join(p).exists());
    if back == TEXT && there == [true; 3] {
        Ok(())
    } else {
        Err(format!("{back:?} {there:?}"))
    }
}
