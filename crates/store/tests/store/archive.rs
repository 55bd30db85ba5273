//! A run in a file of its own.

use std::fs;

use layermark_model::{Import, StoreOption};
use layermark_store::{Archive, ArchiveError, Store, is_archive};

use crate::made::{record, run};

fn made() -> Archive {
    Archive {
        run: run("01K0SENTRUN000000000000000", 1),
        trials: (0..3).map(record).collect(),
        imports: vec![Import {
            id: "01K0SENTIMPORT000000000000".into(),
            ..Import::default()
        }],
    }
}

/// A file with these lines, in a directory of its own.
fn opened(lines: &str) -> Result<Archive, ArchiveError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.lm");
    fs::write(&path, zstd::encode_all(lines.as_bytes(), 1).unwrap()).unwrap();
    Archive::open(&path)
}

#[track_caller]
fn refused(lines: &str, why: &str) {
    let error = opened(lines).expect_err(why);
    assert!(error.to_string().contains(why), "{error}");
    assert!(!error.hint().is_empty());
}

const HEAD: &str = r#"{"layermark":{"archive":1,"version":"0.1.0"}}"#;

/// Its lines after the first.
fn lines() -> String {
    let mut text = Vec::new();
    made().write(&mut text).unwrap();
    String::from_utf8(text).unwrap()
}

#[test]
fn nothing_is_lost_and_commands_name_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("my run.LM");
    assert!(is_archive(&path) && !is_archive("lm".as_ref()));
    fs::write(&path, made().packed().unwrap()).unwrap();
    let again = Archive::open(&path).unwrap();
    assert_eq!(again.run.store, StoreOption::archive(&path));
    let mut expected = made();
    expected.run.store = again.run.store.clone();
    assert_eq!(again, expected);
    // A store keeps it as it keeps a run of its own.
    let mut store = Store::open(dir.path().join("s.db")).unwrap();
    store.add(&again).unwrap();
    let (kept, trials) = store.load("01K0SENTRUN000000000000000").unwrap();
    assert_eq!((kept.points, trials), (made().run.points, made().trials));
    // Another run may have the same import.
    let mut other = again.clone();
    other.run.id = "01K0SENTRUN000000000000001".into();
    store.add(&other).unwrap();
    // A second time, nothing of it is stored twice.
    assert!(store.add(&again).is_err());
    assert_eq!(
        (
            store.list(9).unwrap().len(),
            store.list_imports(9).unwrap().len()
        ),
        (2, 1)
    );
}

#[test]
fn what_is_no_run_is_refused_and_says_why() {
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in [("empty", b"".as_slice()), ("text", b"these are my memoirs")] {
        let path = dir.path().join(name);
        fs::write(&path, bytes).unwrap();
        let error = Archive::open(&path).expect_err(name);
        assert!(error.to_string().contains("no run of layermark"), "{error}");
    }
    let error = Archive::open(dir.path()).expect_err("a directory");
    assert!(error.to_string().contains("not a file"), "{error}");
    let whole = made().packed().unwrap();
    let path = dir.path().join("half");
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    assert!(Archive::open(&path).is_err(), "half of it is a run");

    let good = lines();
    refused(&good, "the first line");
    refused(
        &format!("{HEAD}\n{HEAD}\n{good}"),
        "line 2: a second beginning",
    );
    refused(&format!("{HEAD}\n"), "no run");
    refused(&format!("{HEAD}\n{good}{good}"), "a second run");
    refused(&format!("{HEAD}\n{good}x\n"), "line 10");
    let newer = HEAD.replace(":1,", ":3,");
    refused(&format!("{newer}\n{good}"), "newer layermark (format 3");
    let other = good.replacen("01K0SENTRUN000000000000000", "../x", 1);
    refused(&format!("{HEAD}\n{other}"), "is no id");
}

#[test]
fn a_bit_that_has_changed_is_found() {
    let mut packed = made().packed().unwrap();
    for bit in 0..8 * packed.len() {
        packed[bit / 8] ^= 1 << (bit % 8);
        // The header also says how much memory unpacking takes.
        if let Ok(read) = Archive::unpack(packed.as_slice()) {
            assert_eq!(read, made(), "bit {bit}");
        }
        packed[bit / 8] ^= 1 << (bit % 8);
    }
}

/// 150 MiB that are 15 kB packed.
#[test]
fn what_unpacks_to_too_much_is_refused() {
    let spaces = " ".repeat(1 << 20);
    let long = format!("{HEAD}\n{}", spaces.repeat(20));
    refused(&long, "line 2 has more than 16 MiB");
    let trial = lines().lines().last().unwrap().to_owned();
    let padded = format!("{}{}\n", trial, spaces.repeat(10));
    let many = format!("{HEAD}\n{}{}", lines(), padded.repeat(14));
    refused(&many, "more than 128 MiB");
}
