//! Every target on stable Rust: its corpus, then changes to it until the time is up.
//!
//! `LAYERMARK_FUZZ_SECONDS` is the time of all targets together, 60 by default. Changes are drawn from
//! `LAYERMARK_SEED`, which is fixed by default so that what passes once passes again; another number
//! draws others.

use std::{
    fmt::Write as _,
    fs,
    path::Path,
    time::{Duration, Instant},
};

use layermark_fuzz::TARGETS;
use proptest::{
    collection::vec,
    prelude::*,
    test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner},
};

/// Longer than any input may take, on a busy machine, without optimisation.
const HANG: Duration = Duration::from_mins(1);

/// What is put into an input beside random bytes.
const WORDS: &[&str] = &[
    "\"",
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "=",
    "\n",
    "-1",
    "0",
    "1e999",
    "nan",
    "NaN",
    "null",
    "true",
    "18446744073709551616",
    "9223372036854775807",
    "4294967295",
    "1e-320",
    "\u{1b}[31m",
    "\u{9b}",
    "\u{202e}",
    "\u{ffff}",
    "%s",
    "../",
    "1 TiB",
    "32..4K",
    "[[work]]",
    "\u{1e9e}",
];

/// A change: what kind, where, and with what.
type Change = (u8, u32, Vec<u8>);

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target);
    let mut files: Vec<_> = fs::read_dir(dir)
        .expect("the corpus")
        .map(|e| e.expect("a file").path())
        .collect();
    files.sort();
    let inputs: Vec<Vec<u8>> = files.iter().map(|f| fs::read(f).expect("a file")).collect();
    assert!(!inputs.is_empty(), "{target} has no corpus");
    inputs
}

fn changed(from: &[u8], changes: &[Change]) -> Vec<u8> {
    let mut input = from.to_vec();
    for (kind, at, with) in changes {
        let at = *at as usize % (input.len() + 1);
        let end = (at + with.len()).min(input.len());
        let word = WORDS[usize::from(with.first().copied().unwrap_or(0)) % WORDS.len()];
        match kind % 6 {
            0 => drop(input.splice(at..end, with.iter().copied())),
            1 => drop(input.splice(at..at, with.iter().copied())),
            2 => drop(input.drain(at..end)),
            3 => drop(input.splice(at..at, word.bytes())),
            4 => drop(input.splice(at..end, word.bytes())),
            _ => {
                let part = input[at..].iter().take(200).copied().collect::<Vec<_>>();
                input.extend(part);
            }
        }
    }
    input
}

/// Bytes as `printf` takes them.
fn octal(input: &[u8]) -> String {
    let mut text = String::new();
    for byte in input {
        // Writing to a string does not fail.
        let _ = write!(text, "\\{byte:03o}");
    }
    text
}

fn fuzz(name: &str) {
    let (_, target) = TARGETS.iter().find(|(n, _)| *n == name).expect("a target");
    let seconds =
        std::env::var("LAYERMARK_FUZZ_SECONDS").map_or(60.0, |s| s.parse().expect("seconds"));
    let share = Duration::from_secs_f64(seconds / TARGETS.len() as f64);
    let inputs = corpus(name);
    let started = Instant::now();
    for input in &inputs {
        target(input);
    }
    let changes = || vec((any::<u8>(), any::<u32>(), vec(any::<u8>(), 0..8)), 0..12);
    let strategy = (any::<prop::sample::Index>(), changes());
    let mut cases = 0u32;
    let seed = std::env::var("LAYERMARK_SEED").map_or(1, |s| s.parse::<u64>().expect("a seed"));
    while started.elapsed() < share {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        bytes[8..12].copy_from_slice(&cases.to_le_bytes());
        let config = Config {
            cases: 8,
            failure_persistence: None,
            max_shrink_time: 30_000,
            ..Config::default()
        };
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        let mut runner = TestRunner::new_with_rng(config, rng);
        let found = runner.run(&strategy, |(which, changes)| {
            let begun = Instant::now();
            target(&changed(which.get::<Vec<u8>>(&inputs), &changes));
            prop_assert!(begun.elapsed() < HANG, "it took {:?}", begun.elapsed());
            Ok(())
        });
        if let Err(TestError::Fail(why, (which, changes))) = found {
            let input = changed(which.get::<Vec<u8>>(&inputs), &changes);
            panic!(
                "{name}: {why}\nadd it to fuzz/corpus/{name}:\nprintf '{}' >fuzz/corpus/{name}/NAME",
                octal(&input)
            );
        }
        cases += 8;
    }
    println!(
        "{name}: {} files of the corpus, {cases} changed",
        inputs.len()
    );
}

macro_rules! targets {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            fuzz(stringify!($name));
        })*

        #[test]
        fn all_targets_are_tested_here_and_there() {
            let here = [$(stringify!($name)),*];
            let all = TARGETS.map(|(name, _)| name);
            assert_eq!(here, all);
            for name in all {
                let there = format!("../../fuzz/fuzz_targets/{name}.rs");
                let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(there);
                let text = fs::read_to_string(&path).expect("a libFuzzer target");
                assert!(text.contains(&format!("layermark_fuzz::{name}(data)")), "{name}");
            }
        }
    };
}

targets!(plan spec to_probe from_probe import store archive recording strace);
