//! A sequence as a shell script, which another person can run without layermark: its operations, and what to look for
//! after the power was cut.

use std::{collections::BTreeSet, fmt::Write as _};

use super::{
    Basis, Edit, Name, Op, Oracle, Sequence, Sync, UNIT,
    oracle::{Certain, Held},
    tree::{Tree, fill, range},
};

/// The script. By itself it cuts the power of `layer` under its operations; with `run` and `check` it does the halves of a
/// power cut that is made in another way. What is checked is what must be there after the whole sequence by POSIX or
/// fsync(2), or with `Linux` also what Linux file systems do beyond them.
///
/// # Errors
///
/// Which operation cannot be done, or that nothing could be seen to be lost: nothing that the sequence changes has to be
/// there after its end.
pub fn script(sequence: &Sequence, basis: Basis, layer: &str) -> Result<String, String> {
    let oracle = Oracle::of(sequence)?;
    let mut tree = Tree::prepared();
    let (mut run, mut tools) = (String::new(), Vec::new());
    for (at, step) in sequence.0.iter().enumerate() {
        let op = command(step.op, &tree, fill(at));
        tree.apply(step.op, fill(at));
        let line = match synced(step.sync, &tree) {
            Some(sync) => format!("{op}; {sync}"),
            None => op,
        };
        for tool in ["xfs_io", "fallocate", "setfattr"] {
            if line.contains(tool) && !tools.contains(&tool) {
                tools.push(tool);
            }
        }
        let _ = writeln!(run, "  {line}");
    }
    let about: BTreeSet<Name> = sequence.0.iter().flat_map(|s| s.op.names()).collect();
    let is_about = |certain: &Certain| match certain {
        Certain::Of(name, _) => about.contains(name),
        Certain::OneOf(_) => true,
    };
    let mut certain = oracle.certain(basis);
    certain.retain(is_about);
    if !certain.iter().any(|c| oracle.can_fail(c)) {
        let whose = match basis {
            Basis::Posix => "by POSIX or fsync(2)",
            Basis::Linux => "on ext4, XFS and btrfs",
        };
        return Err(format!(
            "after all of `{sequence}` nothing that it changes has to be there {whose}"
        ));
    }
    let checks = certain.iter().map(|c| format!("  {}", looked_for(c)));
    let checks: Vec<String> = checks.collect();
    let needs = match tools[..] {
        [] => String::new(),
        _ => format!(" Needs {}.", tools.join(" and ")),
    };
    let layer = shell_words::quote(layer);
    Ok(format!(
        r#"#!/bin/sh
# {sequence}
# `sh THIS` cuts the power of {layer} by `layermark durability`. By hand: `sh THIS run` in an empty directory, cut the
# power, `sh THIS check` there.{needs}
fill() {{ head -c "$2" /dev/zero | tr '\0' "$1"; }}
lost() {{ echo "$1" >&2; echo "lost 1"; exit 1; }}
case ${{1-}} in
run)
  set -e; mkdir a b b/d; fill p 12288 > a/f; fill q 12288 > b/f; sync a/f b/f b/d a b .; sync
{run}  echo ack 1 ;;
check)
{}
  ;;
*) exec layermark durability -l {layer} --cuts 8 --run "set -- run; $(cat "$0")" --check "set -- check; $(cat "$0")" ;;
esac
"#,
        checks.join("\n")
    ))
}

/// An operation for a shell.
fn command(op: Op, tree: &Tree, fill: u8) -> String {
    match op {
        Op::Create(n) => format!(": > {n}"),
        Op::Mkdir(n) => format!("mkdir {n}"),
        Op::Link(from, to) => format!("ln {from} {to}"),
        Op::Symlink(n) => format!("ln -s f {n}"),
        Op::Rename(from, to) => format!("mv -T {from} {to}"),
        Op::Unlink(n) => format!("rm {n}"),
        Op::Rmdir(n) => format!("rmdir {n}"),
        Op::Edit(edit, n) => {
            let size = tree.units(n).map_or(0, Vec::len);
            changed(edit, n, range(edit, size), char::from(fill))
        }
    }
}

fn changed(edit: Edit, name: Name, (from, to): (usize, usize), fill: char) -> String {
    let (at, length) = (from * UNIT, to.saturating_sub(from) * UNIT);
    let dd = |direct: &str| {
        format!(
            "fill {fill} {length} | dd of={name} bs=4096 seek={at} iflag=fullblock oflag=seek_bytes{direct} conv=notrunc status=none"
        )
    };
    match edit {
        Edit::Overwrite | Edit::Unaligned | Edit::Append => dd(""),
        Edit::Direct | Edit::DirectAppend => dd(",direct"),
        Edit::Mapped => {
            format!(
                "xfs_io -c 'mmap -rw 0 {length}' -c 'mwrite -S {} 0 {length}' {name}",
                u32::from(fill)
            )
        }
        Edit::Shrink | Edit::Empty => format!("truncate -s {at} {name}"),
        Edit::Grow => format!("truncate -s {} {name}", to * UNIT),
        Edit::Allocate => format!("fallocate -o {at} -l {length} {name}"),
        Edit::Keep => format!("fallocate -n -o {at} -l {length} {name}"),
        Edit::Punch => format!("fallocate -p -o {at} -l {length} {name}"),
        Edit::Attribute => format!("setfattr -n user.lm -v {fill} {name}"),
    }
}

fn synced(sync: Sync, tree: &Tree) -> Option<String> {
    Some(match sync {
        Sync::None => return None,
        Sync::Fsync(n) => format!("sync {n}"),
        Sync::Fdatasync(n) => format!("sync -d {n}"),
        Sync::Parent(dir) => format!("sync {dir}"),
        Sync::All => "sync -f .".into(),
        // Of any mapping of the file.
        Sync::Msync(n) => {
            let size = tree.units(n).map_or(0, Vec::len) * UNIT;
            format!("xfs_io -c 'mmap -rw 0 {size}' -c 'msync -s 0 {size}' {n}")
        }
    })
}

/// A command that ends with an error if this is not there.
fn looked_for(certain: &Certain) -> String {
    match certain {
        Certain::Of(name, held) => held_by(*name, held),
        Certain::OneOf(names) => {
            let there: Vec<String> = names.iter().map(|name| is_there(*name)).collect();
            let names: Vec<String> = names.iter().map(Name::to_string).collect();
            let (there, names) = (there.join(" || "), names.join(" and "));
            format!("{there} || lost 'all of {names} are absent'")
        }
    }
}

/// A name is there if it is a link to nothing as well.
fn is_there(name: Name) -> String {
    format!("[ -e {name} ] || [ -L {name} ]")
}

fn held_by(name: Name, held: &Held) -> String {
    match held {
        Held::Absent => format!("[ ! -e {name} ] && [ ! -L {name} ] || lost '{name} is back'"),
        Held::Present => format!("{} || lost '{name} is absent'", is_there(name)),
        Held::File { runs, attribute } => {
            let fills = runs.iter().map(|(byte, n)| match byte {
                0 => format!("head -c {n} /dev/zero"),
                byte => format!("fill {} {n}", char::from(*byte)),
            });
            let fills: Vec<String> = fills.collect();
            let made = if fills.is_empty() {
                ":".to_owned()
            } else {
                fills.join("; ")
            };
            let mut text =
                format!("{{ {made}; }} | cmp -s - {name} || lost '{name} is not as it was'");
            if let Some(value) = attribute {
                let _ = write!(
                    text,
                    "\n  [ \"$(getfattr --only-values -n user.lm {name} 2> /dev/null)\" = {} ] || lost '{name} has no user.lm'",
                    char::from(*value)
                );
            }
            text
        }
    }
}
