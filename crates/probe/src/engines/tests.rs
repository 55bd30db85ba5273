use super::*;
use crate::permutation::Permutation;
use std::cell::RefCell;

#[test]
fn every_engine_file_is_listed() {
    let known: Vec<&str> = ALL.iter().map(|e| e.id()).collect();
    assert_eq!(known, IDS, "ALL and IDS name the engines in the same order");
    crate::workloads::tests::assert_listed(
        "engines",
        &known,
        "&Compiled::<NAME::Type>::NEW, and Type::ID in IDS",
    );
}

thread_local! {
    static FILE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Moves at most 7 bytes per call and is interrupted every third time.
#[derive(Default)]
struct Hesitant(u32);
impl Hesitant {
    fn stumble(&mut self) -> io::Result<()> {
        self.0 += 1;
        if self.0.is_multiple_of(3) {
            Err(io::ErrorKind::Interrupted.into())
        } else {
            Ok(())
        }
    }
}
impl Io for Hesitant {
    const ID: &'static str = "hesitant";
    const ABOUT: &'static str = "";
    fn read(&mut self, _: BorrowedFd<'_>, at: u64, into: &mut [u8]) -> io::Result<usize> {
        self.stumble()?;
        FILE.with_borrow(|f| {
            let rest = f.get(at as usize..).unwrap_or_default();
            let n = into.len().min(7).min(rest.len());
            into[..n].copy_from_slice(&rest[..n]);
            Ok(n)
        })
    }
    fn write(&mut self, _: BorrowedFd<'_>, at: u64, from: &[u8]) -> io::Result<usize> {
        self.stumble()?;
        FILE.with_borrow_mut(|f| {
            let n = from.len().min(7);
            f.resize(f.len().max(at as usize + n), 0);
            f[at as usize..at as usize + n].copy_from_slice(&from[..n]);
            Ok(n)
        })
    }
}

fn task<'a>(
    transfer: Transfer<'a>,
    recorder: &'a mut Recorder,
    beat: &'a mut dyn FnMut(u64),
) -> Task<'a> {
    Task {
        record: 40,
        piece: 5,
        part: OpRange::whole(10),
        size: 400,
        order: RecordOrder::Random(Permutation::new(10, 1)),
        advice: None,
        depth: 1,
        transfer,
        flush_each: None,
        after: After::Nothing,
        mark: None,
        check: None,
        clock: Some(Source::Monotonic),
        recorder,
        beat,
    }
}

#[test]
fn short_transfers_and_interruptions_are_gone_on_with() {
    let mut quiet = |_| {};
    let mut engine = Compiled::<Hesitant>::NEW.runner();
    let (mut pool, mut buffer, mut recorder) = (vec![9u8; 80], vec![0u8; 40], Recorder::new());
    engine
        .pass(
            &mut None,
            task(Transfer::Write(&mut pool), &mut recorder, &mut quiet),
        )
        .unwrap();
    FILE.with_borrow(|f| assert_eq!(*f, vec![9u8; 400]));
    engine
        .pass(
            &mut None,
            task(Transfer::Read(&mut buffer), &mut recorder, &mut quiet),
        )
        .unwrap();
    assert_eq!(buffer, vec![9u8; 40]);
}

#[test]
fn a_short_file_is_an_error() {
    let mut quiet = |_| {};
    FILE.with_borrow_mut(|f| f.resize(123, 1));
    let (mut buffer, mut recorder) = (vec![0u8; 40], Recorder::new());
    let mut t = task(Transfer::Read(&mut buffer), &mut recorder, &mut quiet);
    t.order = RecordOrder::Sequential;
    let stopped = Compiled::<Hesitant>::NEW
        .runner()
        .pass(&mut None, t)
        .unwrap_err();
    assert_eq!(
        (stopped.at, stopped.error.kind()),
        (3, io::ErrorKind::UnexpectedEof)
    );
    assert!(
        stopped.error.to_string().contains("byte 123"),
        "{}",
        stopped.error
    );
}

#[test]
fn every_engine_that_needs_a_file_reads_back_what_it_wrote() {
    let mut quiet = |_| {};
    for engine in ALL.iter().filter(|e| e.needs_file()) {
        let mut file = Some(tempfile::tempfile().unwrap());
        let mut pool: Vec<u8> = (0..40).collect();
        let (mut buffer, mut recorder) = (vec![0u8; 40], Recorder::new());
        let mut t = task(Transfer::Write(&mut pool), &mut recorder, &mut quiet);
        t.flush_each = Some(FlushEach::All);
        engine.runner().pass(&mut file, t).unwrap();
        assert_eq!(
            file.as_ref().unwrap().metadata().unwrap().len(),
            400,
            "{}",
            engine.id()
        );
        let t = task(Transfer::Read(&mut buffer), &mut recorder, &mut quiet);
        engine.runner().pass(&mut file, t).unwrap();
        assert_eq!(buffer, (0..40).collect::<Vec<u8>>(), "{}", engine.id());
    }
}
