//! A recording without a program: a search through 100 files.

use layermark_recording::{Call, CallKind, Entry, Head, Name, OPEN_FLAGS, Recording};

/// Directories of the tree.
const DIRECTORIES: u32 = 10;
/// Files of each.
const FILES: u32 = 10;
/// Bytes of each file.
const SIZE: u64 = 8 << 10;

/// The directories are listed, and each file is looked at, opened, read and closed.
pub fn example() -> Recording {
    let mut it = Recording {
        head: Head {
            seed: 1,
            tasks: 1,
            ..Head::default()
        },
        ..Recording::default()
    };
    for directory in 0..DIRECTORIES {
        let name = format!("d{directory}");
        it.tree.push(Entry::directory(name.as_str().into(), 0o755));
        let listed = open(&mut it, &name, "O_DIRECTORY");
        add(
            &mut it,
            Call {
                a: 32 << 10,
                ..on(CallKind::List, listed)
            },
        );
        add(&mut it, on(CallKind::Close, listed));
        for file in 0..FILES {
            let name = format!("d{directory}/f{file}");
            it.tree.push(Entry::file(name.as_str().into(), 0o644, SIZE));
            let path = Some(it.names.len() as u32);
            add(
                &mut it,
                Call {
                    path,
                    ..Call::new(CallKind::Lstat)
                },
            );
            let file = open(&mut it, &name, "");
            add(&mut it, on(CallKind::Fstat, file));
            for outcome in [SIZE.cast_signed(), 0] {
                add(
                    &mut it,
                    Call {
                        a: 32 << 10,
                        outcome,
                        ..on(CallKind::Read, file)
                    },
                );
            }
            add(&mut it, on(CallKind::Close, file));
        }
    }
    it
}

fn on(kind: CallKind, file: u32) -> Call {
    Call {
        file: Some(file),
        ..Call::new(kind)
    }
}

fn add(to: &mut Recording, call: Call) {
    to.calls.push(call);
}

/// Opens a name, and returns the number of the open file.
fn open(it: &mut Recording, name: &str, flag: &str) -> u32 {
    let bit = OPEN_FLAGS
        .iter()
        .find(|known| known.name == flag)
        .map_or(0, |known| known.bit);
    let file = it.head.files;
    it.head.files += 1;
    let call = Call {
        path: Some(it.names.len() as u32),
        a: bit.into(),
        ..on(CallKind::Open, file)
    };
    it.names.push(Name::from(name));
    it.calls.push(call);
    file
}
