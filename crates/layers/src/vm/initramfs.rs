//! The guest's user space: our own binary and the modules it loads.
//!
//! Format `newc`: Documentation/driver-api/early-userspace/buffer-format.rst of the kernel.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::Path,
};

use crate::vm::modules::{self, Module};

/// Our binary in the guest.
pub(crate) const INIT: &str = "layermark";
/// Names of the modules' files, in load order; a line that begins with `?` is optional.
pub(crate) const LIST: &str = "modules";

/// Writes an archive with `exe` and these modules. Returns its size in bytes.
pub(crate) fn write(to: &Path, exe: &Path, modules: &[Module]) -> io::Result<u64> {
    let mut out = Archive {
        out: BufWriter::with_capacity(1 << 20, File::create(to)?),
        entries: 0,
        size: 0,
    };
    for dir in ["dev", "proc", "sys", "run", "tmp", "ko", "layer"] {
        out.entry(dir, 0o040_755, &[])?;
    }
    out.entry(INIT, 0o100_755, &slim(fs::read(exe)?))?;
    let mut list = String::new();
    for (index, module) in modules.iter().enumerate() {
        let name = format!("ko/{index:03}");
        let mark = if module.optional { "?" } else { "" };
        list = format!("{list}{mark}{name} {}\n", module.path.display());
        out.entry(&name, 0o100_644, &modules::load(&module.path)?)?;
    }
    out.entry(LIST, 0o100_644, list.as_bytes())?;
    out.entry("TRAILER!!!", 0, &[])?;
    out.out.flush()?;
    Ok(out.size)
}

struct Archive<W> {
    out: W,
    entries: u32,
    size: u64,
}

impl<W: Write> Archive<W> {
    fn entry(&mut self, name: &str, mode: u32, data: &[u8]) -> io::Result<()> {
        let length = u32::try_from(data.len())
            .map_err(|_| io::Error::new(io::ErrorKind::FileTooLarge, name.to_owned()))?;
        self.entries += 1;
        // Fields: number, mode, uid, gid, links, time, length, device of the file (2), its own
        // device (2), length of the name including its zero byte, checksum.
        let fields = [
            self.entries,
            mode,
            0,
            0,
            1,
            0,
            length,
            0,
            0,
            0,
            0,
            name.len() as u32 + 1,
            0,
        ];
        let fields: String = fields.iter().map(|n| hex(*n)).collect();
        let header = format!("070701{fields}{name}\0");
        self.padded(header.as_bytes())?;
        self.padded(data)
    }

    /// Writes bytes, padded to a multiple of four.
    fn padded(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        let gap = bytes.len().next_multiple_of(4) - bytes.len();
        self.out.write_all(&[0; 4][..gap])?;
        self.size += (bytes.len() + gap) as u64;
        Ok(())
    }
}

fn hex(n: u32) -> String {
    format!("{n:08X}")
}

/// An ELF file without the parts that are not loaded. Symbols and debug information at its end
/// would fill half of a guest's memory. Anything but a 64-bit ELF file stays as it is.
fn slim(mut elf: Vec<u8>) -> Vec<u8> {
    const HEADER: usize = 64;
    let number = |elf: &[u8], at: usize, length: usize| -> Option<u64> {
        let bytes = elf.get(at..at.checked_add(length)?)?;
        Some(bytes.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b)))
    };
    let end = |elf: &[u8]| -> Option<usize> {
        let (table, size) = (number(elf, 32, 8)? as usize, number(elf, 54, 2)? as usize);
        let mut end = HEADER.max(table + size * number(elf, 56, 2)? as usize);
        for index in 0..number(elf, 56, 2)? as usize {
            let at = table.checked_add(index * size)?;
            let (begin, length) = (number(elf, at + 8, 8)?, number(elf, at + 32, 8)?);
            end = end.max(begin.checked_add(length)? as usize);
        }
        (end <= elf.len()).then_some(end)
    };
    if !elf.starts_with(b"\x7fELF\x02\x01") {
        return elf;
    }
    if let Some(end) = end(&elf) {
        elf.truncate(end);
        // Clears the section table: its offset, the size and number of entries, and the index of
        // names.
        elf[40..48].fill(0);
        elf[58..64].fill(0);
    }
    elf
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_aligned_and_named() {
        let dir = tempfile::tempdir().unwrap();
        let (exe, to) = (dir.path().join("exe"), dir.path().join("cpio"));
        fs::write(&exe, b"#!binary").unwrap();
        let module = Module {
            path: exe.clone(),
            optional: true,
        };
        let size = write(&to, &exe, &[module]).unwrap();
        let bytes = fs::read(&to).unwrap();
        assert_eq!(bytes.len() as u64, size);
        assert_eq!(bytes.len() % 4, 0);
        let text = String::from_utf8_lossy(&bytes);
        for name in ["dev", INIT, "ko/000", LIST, "TRAILER!!!"] {
            let at = text.find(&format!("{name}\0")).unwrap();
            assert_eq!((at - 110) % 4, 0, "{name}");
            assert!(text[at - 110..].starts_with("070701"), "{name}");
        }
        assert!(text.contains("?ko/000 "));
        assert!(write(&to, Path::new("/absent"), &[]).is_err());
    }

    #[test]
    fn a_binary_runs_without_its_symbols() {
        let exe = std::env::current_exe().unwrap();
        let whole = fs::read(exe).unwrap();
        let (before, slim) = (whole.len(), slim(whole));
        assert!(slim.len() < before, "{} of {before}", slim.len());
        let dir = tempfile::tempdir().unwrap();
        let (data, path) = (dir.path().join("data"), dir.path().join("slim"));
        fs::write(&data, slim).unwrap();
        // Another program writes it. A child that another test forks meanwhile would hold our
        // descriptor, and the file could not be executed (ETXTBSY).
        let mut install = std::process::Command::new("install");
        assert!(install.arg(&data).arg(&path).status().unwrap().success());
        let output = std::process::Command::new(&path).arg("--list").output();
        assert!(output.unwrap().status.success());
    }

    #[test]
    fn what_is_no_binary_stays_as_it_is() {
        for bytes in [
            &b""[..],
            b"\x7fELF\x02\x01",
            b"\x7fELF\x02\x01\0\0\xff\xff",
            b"#!/bin/sh",
        ] {
            assert_eq!(slim(bytes.to_vec()), bytes);
        }
    }
}
