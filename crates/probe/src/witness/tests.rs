use std::fs;

use layermark_model::witness::Outcome;

use super::*;

const RUN: u64 = 0x5eed;

fn site(dir: &Path, writer: &dyn Writer) -> Site {
    Site {
        dir: dir.join(writer.id()),
        run: RUN,
        record: 4096,
    }
}

/// Writes records with each writer, lets `damage` at its directory, and returns what the check says.
fn after(writer: &'static dyn Writer, records: u64, damage: impl FnOnce(&Path)) -> Checked {
    let temp = tempfile::tempdir().unwrap();
    let site = site(temp.path(), writer);
    let mut witness = Witness::prepare(writer, site.clone()).unwrap();
    let log: Vec<Acknowledged> = (0..records)
        .map(|ns| {
            let stamp = witness.write().unwrap();
            Acknowledged {
                sequence: stamp.sequence,
                block: stamp.block,
                generation: stamp.generation,
                ns,
            }
        })
        .collect();
    drop(witness);
    damage(&site.dir);
    judge(writer, RUN, &log, &look(writer, &site).unwrap())
}

fn outcomes(checked: &Checked) -> Vec<Outcome> {
    let mut all: Vec<_> = checked.findings.iter().map(|f| f.outcome).collect();
    all.dedup();
    all
}

#[test]
fn every_writer_reads_back_what_it_wrote() {
    for writer in ALL {
        for records in [0, 1, 70] {
            let checked = after(*writer, records, |_| {});
            assert!(checked.is_kept(), "{}: {checked:?}", writer.id());
            assert_eq!(checked.kept, records, "{}", writer.id());
        }
    }
}

#[test]
fn every_writer_notices_that_all_is_gone() {
    for writer in ALL {
        let checked = after(*writer, 3, |dir| fs::remove_dir_all(dir).unwrap());
        assert_eq!(outcomes(&checked), [Outcome::LostName], "{}", writer.id());
        assert!(!checked.is_kept() && checked.kept == 0, "{}", writer.id());
    }
}

#[test]
fn a_file_that_is_too_short_has_lost_its_last_records() {
    let checked = after(&writers::Append, 9, |dir| {
        let file = File::options()
            .write(true)
            .open(dir.join("records"))
            .unwrap();
        file.set_len(4096 * 7).unwrap();
    });
    let lost: Vec<u64> = checked.broken().map(|f| f.sequence).collect();
    assert_eq!((lost, checked.kept), (vec![8, 9], 7));
    assert_eq!(outcomes(&checked), [Outcome::Lost]);
}

#[test]
fn an_old_generation_and_a_torn_block_are_told_apart() {
    let block = |dir: &Path, block: u64, change: &dyn Fn(&mut Vec<u8>)| {
        let path = dir.join("records");
        let mut data = fs::read(&path).unwrap();
        let mut part = data.split_off(block as usize * 4096);
        let rest = part.split_off(4096);
        change(&mut part);
        fs::write(&path, [data, part, rest].concat()).unwrap();
    };
    for writer in [&writers::Overwrite as &dyn Writer, &writers::Mapped] {
        let id = writer.id();
        let writer = find(id).unwrap();
        let old = Stamp {
            run: RUN,
            block: 1,
            ..Stamp::default()
        };
        let stale = after(writer, 5, |dir| block(dir, 1, &|b| record::fill(b, old)));
        assert_eq!(
            outcomes(&stale),
            [Outcome::Lost, Outcome::OrderViolation],
            "{id}"
        );
        let torn = after(writer, 5, |dir| block(dir, 1, &|b| b[512..1024].fill(0)));
        assert_eq!(outcomes(&torn), [Outcome::Torn], "{id}");
    }
}

#[test]
fn names_and_databases_have_their_own_outcomes() {
    let remove = |name: &'static str| move |dir: &Path| fs::remove_file(dir.join(name)).unwrap();
    let lost = after(find("create").unwrap(), 5, remove("record-4"));
    assert!(
        !lost.is_kept() && outcomes(&lost) == [Outcome::LostName],
        "{lost:?}"
    );
    let permitted = after(find("create-unsynced").unwrap(), 5, remove("record-4"));
    assert!(permitted.is_kept() && outcomes(&permitted) == [Outcome::LostName]);
    let lost = after(find("rename").unwrap(), 5, remove("slot-4"));
    assert!(
        !lost.is_kept() && outcomes(&lost) == [Outcome::LostName],
        "{lost:?}"
    );
    let cut = |dir: &Path| {
        let path = dir.join("records.db");
        let mut data = fs::read(&path).unwrap();
        data[8192..].fill(0x55);
        fs::write(path, data).unwrap();
    };
    let damaged = after(find("sqlite").unwrap(), 20, cut);
    assert_eq!(outcomes(&damaged), [Outcome::Damaged], "{damaged:?}");
}

/// gocryptfs gave ENOSYS for a directory whose key was lost: "cannot be decided" was said of it.
#[test]
fn what_cannot_be_read_is_lost_unless_the_reason_is_the_readers() {
    for (number, is_lost) in [
        (libc::EIO, true),
        (libc::ENOSYS, true),
        (libc::ELOOP, true),
        (libc::EACCES, false),
        (libc::EROFS, false),
        (libc::ENOTCONN, false),
        // This machine had no more of something, in the words of any layer.
        (libc::EAGAIN, false),
        (libc::ENOMEM, false),
    ] {
        let e = io::Error::from_raw_os_error(number);
        assert_eq!(is_damage(&e), is_lost, "{e}");
    }
    assert!(is_refusal(&io::Error::from_raw_os_error(libc::EINVAL)));
    assert!(
        !is_refusal(&io::Error::from_raw_os_error(libc::EIO)),
        "failed"
    );
}

#[test]
fn closed_files_are_looked_for_by_name() {
    let lost = after(CLOSE, 3, |dir| {
        fs::remove_file(dir.join("record-1")).unwrap();
    });
    assert_eq!(lost.missing, [2], "{lost:?}");
    assert!(find("close").is_some() && !ALL.iter().any(|w| w.id() == "close"));
}

#[test]
fn nothing_is_written_after_a_failure() {
    struct Failing(u32);
    impl Writing for Failing {
        fn write(&mut self, _: Stamp, _: &[u8]) -> io::Result<()> {
            self.0 += 1;
            assert_eq!(self.0, 1, "fsync was tried again");
            Err(io::Error::from_raw_os_error(libc::EIO))
        }
    }
    let temp = tempfile::tempdir().unwrap();
    let mut witness = Witness {
        writer: &writers::Append,
        site: site(temp.path(), &writers::Append),
        writing: Box::new(Failing(0)),
        next: 1,
        failed: false,
        refused: None,
    };
    let first = witness.write().unwrap_err();
    assert_eq!(first.errno, Some(libc::EIO), "{first}");
    let second = witness.write().unwrap_err();
    assert!(second.message.contains("not tried again"), "{second}");
}
