use std::collections::BTreeSet;

use super::{
    oracle::{Basis, LossKind, LostThing, Moment, Oracle, Seen, SeenEntry},
    *,
};

const SIZE: u64 = (UNITS * UNIT) as u64;

fn read(text: &str) -> Sequence {
    text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn file(runs: &[(u8, u64)]) -> SeenEntry {
    SeenEntry::File {
        runs: runs.to_vec(),
        attribute: None,
    }
}

/// What is there before the first operation, with changes.
fn start(changes: &[(&str, Option<SeenEntry>)]) -> Seen {
    let mut seen = Seen::default();
    for (name, byte) in FIRST {
        seen.names.insert(name.into(), file(&[(byte, SIZE)]));
    }
    seen.names.insert("b/d".into(), SeenEntry::Directory);
    for (name, entry) in changes {
        match entry {
            Some(entry) => seen.names.insert((*name).into(), entry.clone()),
            None => seen.names.remove(*name),
        };
    }
    seen
}

/// What a tree looks like to a reader.
fn seen(tree: &Tree) -> Seen {
    let entry = |node: &tree::Node| match node {
        tree::Node::Directory => SeenEntry::Directory,
        tree::Node::Link => SeenEntry::Link(TARGET.into()),
        tree::Node::File { units, attribute } => SeenEntry::File {
            runs: units
                .chunk_by(|a, b| a == b)
                .map(|run| (run[0], (run.len() * UNIT) as u64))
                .collect(),
            attribute: attribute.map(|byte| char::from(byte).to_string()),
        },
    };
    let names = tree.names.keys();
    let names = names.map(|name| (name.to_string(), entry(tree.node(*name).unwrap())));
    Seen {
        names: names.collect(),
    }
}

/// What was lost after the whole sequence, with its promise.
fn lost(text: &str, seen: &Seen) -> Vec<(String, LossKind, Basis)> {
    let sequence = read(text);
    let all = sequence.0.len();
    let moment = Moment {
        acknowledged: all,
        begun: all,
    };
    let lost = Oracle::of(&sequence).unwrap().lost(moment, seen);
    let short = |l: LostThing| (l.path, l.kind, l.basis);
    lost.into_iter().map(short).collect()
}

fn one(name: &str, kind: LossKind, basis: Basis) -> Vec<(String, LossKind, Basis)> {
    vec![(name.into(), kind, basis)]
}

#[test]
fn every_sequence_is_read_as_it_is_written() {
    let one = Sequence::all_of_one();
    assert_eq!(one.len(), Sequence::OF_ONE);
    let two = Sequence::all_of_two();
    assert_eq!(two.len(), Sequence::OF_TWO);
    for sequence in one.iter().chain(two.iter().step_by(31)) {
        assert_eq!(read(&sequence.to_string()), *sequence);
    }
    let all: BTreeSet<&Sequence> = one.iter().chain(&two).collect();
    assert_eq!(all.len(), one.len() + two.len());
}

#[test]
fn what_cannot_be_done_is_refused() {
    for (text, why) in [
        ("fsync a", "follows no operation"),
        ("create a/g", "followed by no sync"),
        ("", "is not an operation"),
        ("create a/x; fsync a", "`create a/x` is not an operation"),
        ("create a/f; fsync a", "`create a/f` cannot be done there"),
        ("rename a/g b/g; fsync b", "cannot be done there"),
        ("unlink a/f; fsync a/f", "nothing to open there"),
        ("create a/g; fsync a; fsync a/g", "follows no operation"),
        (
            "overwrite a/f; msync a/f",
            "nothing was stored to a mapping",
        ),
        (
            "mmap-write b/f; append a/f; msync b/f",
            "nothing was stored to a mapping",
        ),
    ] {
        let e = text.parse::<Sequence>().unwrap_err();
        assert!(e.contains(why), "{text}: {e}");
    }
}

/// An honest layer is acquitted, whatever of its unflushed operations survives.
#[test]
fn what_was_done_is_never_lost() {
    let two = Sequence::all_of_two();
    let all = Sequence::all_of_one().into_iter();
    for sequence in all.chain(two.into_iter().step_by(211)) {
        let oracle = Oracle::of(&sequence).unwrap();
        let mut tree = Tree::prepared();
        let mut trees = vec![tree.clone()];
        for (at, step) in sequence.0.iter().enumerate() {
            tree.apply(step.op, tree::fill(at)).unwrap();
            trees.push(tree.clone());
        }
        for (begun, tree) in trees.iter().enumerate() {
            for acknowledged in 0..=begun {
                let moment = Moment {
                    acknowledged,
                    begun,
                };
                assert_eq!(
                    oracle.lost(moment, &seen(tree)),
                    [],
                    "{sequence} {moment:?}"
                );
            }
        }
        assert_eq!(oracle.differs(&seen(&tree)), None, "{sequence}");
    }
}

/// Each sequence of one operation whose result POSIX promises is a loss if nothing of it is there.
#[test]
fn a_liar_that_flushes_nothing_loses_what_is_promised() {
    let mut convicted = 0;
    for sequence in Sequence::all_of_one() {
        let lost = lost(&sequence.to_string(), &start(&[]));
        let step = sequence.0[0];
        // Nothing that can be seen: space beyond the end.
        let is_seen = !matches!(step.op, Op::Edit(Edit::Keep, _));
        let is_data =
            matches!(step.op, Op::Edit(..)) && !matches!(step.op, Op::Edit(Edit::Attribute, _));
        let is_name = !matches!(step.op, Op::Edit(..));
        let promised = match step.sync {
            Sync::Fsync(_) | Sync::Fdatasync(_) | Sync::Msync(_) => is_data,
            Sync::Parent(_) => is_name,
            Sync::All | Sync::None => false,
        };
        let posix = lost.iter().any(|(.., basis)| *basis == Basis::Posix);
        // fsync of the old parent of a link says nothing of the new name.
        let is_other = matches!(step, Step { op: Op::Link(from, to), sync: Sync::Parent(dir) }
            if dir == from.dir && dir != to.dir);
        assert_eq!(
            posix,
            promised && is_seen && !is_other,
            "{sequence}: {lost:?}"
        );
        // syncfs is promised by Linux alone.
        if step.sync == Sync::All {
            assert_eq!(!lost.is_empty(), is_seen, "{sequence}");
        }
        convicted += u64::from(posix);
    }
    assert!(convicted >= 70, "{convicted}");
}

#[test]
fn a_new_name_is_promised_by_posix_only_with_its_directory() {
    let none = start(&[]);
    let name = |basis| one("a/g", LossKind::Name, basis);
    assert_eq!(lost("create a/g; fsync a", &none), name(Basis::Posix));
    assert_eq!(lost("create a/g; fsync a/g", &none), name(Basis::Linux));
    assert_eq!(lost("create a/g; syncfs", &none), name(Basis::Linux));
    assert_eq!(lost("create a/g; fdatasync a/g", &none), []);
    assert_eq!(
        lost("create a/g; fsync a/g; append a/g; fsync a", &none),
        name(Basis::Posix)
    );
    // Its name was kept, and what was written and flushed was not.
    let empty = start(&[("a/g", Some(file(&[])))]);
    let content = one("a/g", LossKind::Content, Basis::Posix);
    assert_eq!(
        lost("create a/g; fsync a; append a/g; fdatasync a/g", &empty),
        content
    );
    assert_eq!(lost("create a/g; append a/g; fsync a", &empty), []);
}

#[test]
fn a_rename_leaves_the_old_file_or_the_new_one() {
    let new = file(&[(b'2', 4096)]);
    let text = "create a/g; append a/g; fsync a/g; rename a/g a/f; fsync a";
    assert_eq!(lost(text, &start(&[("a/f", Some(new.clone()))])), []);
    // The old one is there after the directory was flushed.
    let old = start(&[]);
    assert_eq!(
        lost(text, &old),
        one("a/f", LossKind::Content, Basis::Posix)
    );
    // Empty, as after a rename without a flush before it: POSIX permits it, and there it was flushed.
    let empty = start(&[("a/f", Some(file(&[])))]);
    assert_eq!(
        lost(text, &empty),
        one("a/f", LossKind::Content, Basis::Posix)
    );
    let unflushed = "create a/g; append a/g; rename a/g a/f; fsync a";
    assert_eq!(lost(unflushed, &empty), []);
    // Nowhere: a file that always had a name has none.
    let nowhere = start(&[("a/f", None)]);
    let gone = lost("rename a/f b/g; fdatasync b/g", &nowhere);
    assert_eq!(gone, one("a/f or b/g", LossKind::File, Basis::Linux));
    let back = start(&[("b/g", Some(file(&[(b'p', SIZE)])))]);
    assert_eq!(
        lost("rename a/f b/g; fsync a", &back),
        one("a/f", LossKind::OldName, Basis::Posix)
    );
    assert_eq!(lost("rename a/f b/g; fsync b", &back), []);
}

/// Where another file has the old name, the old file is lost all the same. Only a rename promises one of the names.
#[test]
fn a_renamed_file_is_not_there_because_another_has_its_name() {
    let text = "rename a/f b/g; create a/f; fsync a/f";
    let new = || Some(file(&[]));
    let old = || Some(file(&[(b'p', SIZE)]));
    let gone = lost(text, &start(&[("a/f", new())]));
    assert_eq!(gone, one("a/f or b/g", LossKind::File, Basis::Linux));
    let kept = start(&[("a/f", new()), ("b/g", old())]);
    assert_eq!(lost(text, &kept), []);
    // Damaged, but there: no more than that is said.
    let torn = Some(file(&[(b'x', SIZE)]));
    assert_eq!(
        lost(
            "rename a/f b/g; fsync b",
            &start(&[("a/f", None), ("b/g", torn)])
        ),
        one("b/g", LossKind::Content, Basis::Posix)
    );
    let nowhere = start(&[("a/f", None)]);
    assert_eq!(lost("link a/f b/g; unlink a/f; fsync a", &nowhere), []);
    assert_eq!(
        lost("rename a/f b/g; fdatasync b/g", &nowhere),
        one("a/f or b/g", LossKind::File, Basis::Linux)
    );
}

/// They come from a probe, or from a file that somebody sent.
#[test]
fn lengths_that_no_file_has_are_a_loss_and_nothing_else() {
    for runs in [
        vec![(b'p', 1 << 63)],
        vec![(b'p', 1 << 63), (b'p', (1 << 63) + SIZE)],
        (0..99).map(|n| (b'a' + n % 9, 1 << 40)).collect(),
    ] {
        let there = start(&[("a/f", Some(file(&runs)))]);
        let oracle = Oracle::of(&read("create a/g; fsync a/g")).unwrap();
        let moment = Moment {
            acknowledged: 0,
            begun: 0,
        };
        let found = oracle.lost(moment, &there);
        assert_eq!((found.len(), found[0].kind), (1, LossKind::Content));
        assert!(found[0].found.len() < 140, "{}", found[0].found);
        assert_eq!(found[0].found.ends_with(", …"), runs.len() > 4);
    }
}

#[test]
fn unflushed_content_may_be_old_new_or_a_hole_and_nothing_else() {
    let p = |n: u64| (b'p', n);
    let text = "overwrite a/f; fsync a";
    for (runs, kept) in [
        (vec![p(12288)], true),
        (vec![p(4096), (b'1', 4096), p(4096)], true),
        (vec![p(4096), (b'1', 512), p(7680)], true),
        (vec![p(4096), (HOLE, 4096), p(4096)], true),
        (vec![p(4096), (b'9', 4096), p(4096)], false),
        (vec![p(4096), (b'1', 700), p(7492)], false),
        (vec![p(8192)], false),
        (vec![p(12288), (b'1', 4096)], false),
        (vec![(HOLE, 4096), p(8192)], true),
    ] {
        let there = start(&[("a/f", Some(file(&runs)))]);
        let found = lost(text, &there);
        assert_eq!(found.is_empty(), kept, "{runs:?}: {found:?}");
    }
    // Flushed: as it was written.
    let torn = start(&[("a/f", Some(file(&[p(4096), (b'1', 512), p(7680)])))]);
    let content = one("a/f", LossKind::Content, Basis::Posix);
    assert_eq!(lost("overwrite a/f; fdatasync a/f", &torn), content);
    // An append that grew the file in part.
    let part = start(&[("a/f", Some(file(&[p(12288), (b'1', 512)])))]);
    assert_eq!(lost("append a/f; fsync a", &part), []);
    assert_eq!(lost("append a/f; fsync a/f", &part), content);
}

#[test]
fn attributes_are_kept_by_linux_and_unknown_to_posix() {
    let attribute = one("a/f", LossKind::Attribute, Basis::Linux);
    assert_eq!(lost("setxattr a/f; fsync a/f", &start(&[])), attribute);
    assert_eq!(lost("setxattr a/f; fdatasync a/f", &start(&[])), []);
}

#[test]
fn a_file_that_cannot_be_read_is_lost() {
    let unreadable = SeenEntry::Unreadable("Input/output error".into());
    let there = start(&[("a/f", Some(unreadable))]);
    let content = one("a/f", LossKind::Content, Basis::Posix);
    assert_eq!(
        lost("unlink b/f; fsync b", &{
            let mut there = there;
            there.names.remove("b/f");
            there
        }),
        content
    );
}

#[test]
fn a_sequence_is_made_smaller_one_part_at_a_time() {
    let all = read("create a/g; fsync a; rename a/f b/f; fsync b").smaller();
    let texts: Vec<String> = all.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "rename a/f b/f; fsync b",
            "create a/g; fsync a",
            "create a/g; rename a/f b/f; fsync b",
        ]
    );
    // What is left has to be possible.
    let needs = read("create a/g; fsync a; append a/g; fsync a/g").smaller();
    let texts: Vec<String> = needs.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        ["create a/g; fsync a", "create a/g; append a/g; fsync a/g"]
    );
    assert_eq!(read("unlink a/f; fsync a").smaller(), []);
}

/// `sh -n` reads a script and runs nothing.
#[test]
fn each_sequence_that_can_be_lost_at_its_end_is_a_script_of_about_a_dozen_lines() {
    let two = Sequence::all_of_two();
    let all = Sequence::all_of_one().into_iter();
    let mut refused = 0;
    for (number, sequence) in all.chain(two.into_iter().step_by(997)).enumerate() {
        for basis in [Basis::Posix, Basis::Linux] {
            let lost = lost(&sequence.to_string(), &start(&[]));
            let is_lost = lost.iter().any(|(.., of)| *of <= basis);
            let text = match script(&sequence, basis, "fuse:fsync=late") {
                Ok(text) => text,
                Err(why) => {
                    assert!(why.contains("nothing that it changes"), "{why}");
                    // Of two, the content may be one of several that are not the old one.
                    assert!(sequence.0.len() > 1 || !is_lost, "{sequence}");
                    refused += 1;
                    continue;
                }
            };
            assert!(text.contains(" || lost '"), "{text}");
            let lines = text.lines().count();
            assert!((12..=19).contains(&lines), "{lines} lines: {text}");
            // Each would take a minute.
            if number % 29 == 0 {
                let shell = std::process::Command::new("sh")
                    .args(["-nc", &text])
                    .output();
                let shell = shell.expect("a shell");
                let why = String::from_utf8_lossy(&shell.stderr);
                assert!(shell.status.success(), "{text}: {why}");
            }
        }
    }
    assert!(refused > 20, "{refused}");
    let text = script(&read("rename a/f b/f; fsync b"), Basis::Posix, "fuse").unwrap();
    assert!(text.contains("\n  mv -T a/f b/f; sync b\n"), "{text}");
    assert!(
        text.contains("\n  { fill p 12288; } | cmp -s - b/f ||"),
        "{text}"
    );
}

#[test]
fn a_script_looks_for_one_of_two_names_and_for_links() {
    let of = |text: &str, basis| script(&read(text), basis, "fuse");
    let renamed = "rename a/f b/g; fdatasync b/g";
    assert!(of(renamed, Basis::Posix).is_err());
    let text = of(renamed, Basis::Linux).unwrap();
    assert!(
        text.contains(
            "\n  [ -e a/f ] || [ -L a/f ] || [ -e b/g ] || [ -L b/g ] || lost 'all of a/f and b/g are absent'\n"
        ),
        "{text}"
    );
    // Another file may have the old name.
    let other = of("rename a/f b/g; create a/f; fsync a/f", Basis::Linux).unwrap();
    assert!(!other.contains("all of"), "{other}");
    let link = of("symlink a/g; fsync a", Basis::Posix).unwrap();
    assert!(
        link.contains("[ -e a/g ] || [ -L a/g ] || lost 'a/g is absent'"),
        "{link}"
    );
    let gone = of("unlink a/f; fsync a", Basis::Posix).unwrap();
    assert!(
        gone.contains("[ ! -e a/f ] && [ ! -L a/f ] || lost 'a/f is back'"),
        "{gone}"
    );
    // Nothing of it can be lost: what it links from was there before.
    let none = of("link a/f b/g; fdatasync b/g", Basis::Posix).unwrap_err();
    assert!(none.contains("by POSIX or fsync(2)"), "{none}");
}

/// It acknowledged what it could not do.
#[test]
fn a_script_that_fails_acknowledges_nothing() {
    let text = script(&read("unlink a/f; fsync a"), Basis::Posix, "fuse").unwrap();
    let shell = std::process::Command::new("sh")
        .args(["-c", &format!("set -- run; {text}")])
        // No directory can be made there.
        .current_dir("/proc")
        .output();
    let shell = shell.expect("a shell");
    assert!(!shell.status.success());
    assert_eq!(String::from_utf8_lossy(&shell.stdout), "");
}

#[test]
fn a_beginning_ends_with_what_a_call_made_durable() {
    let whole = read("create a/g; fsync a; append a/g; append a/g; fsync a/g");
    let first = |n| whole.first(n).map(|s| s.to_string());
    let one = Some("create a/g; fsync a".to_owned());
    assert_eq!([first(1), first(2)], [one.clone(), one]);
    assert_eq!(first(3), Some(whole.to_string()));
    assert_eq!([first(0), first(4)], [None, None]);
    assert_eq!(read("create a/g; append a/g; fsync a").first(1), None);
}
