use super::*;
use std::{io::Write, os::fd::AsFd};

fn file(bytes: &[u8]) -> std::fs::File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file
}

fn read(number: u64, at: u64, len: u32) -> QueuedIo {
    QueuedIo {
        at,
        len,
        write: false,
        number,
    }
}

#[test]
fn keeps_as_many_under_way_as_it_may_and_tells_each_apart() {
    let bytes: Vec<u8> = (0..=255).cycle().take(4096).collect();
    let file = file(&bytes);
    let mut buffer = vec![0; 4 * 100];
    let mut queue = Queue::new(4, file.as_fd(), &mut buffer, 100).unwrap();
    let mut seen = Vec::new();
    for round in 0..10 {
        while queue.has_room() {
            let number = round * 4 + queue.in_flight() as u64;
            queue.push(read(number, number * 100, 100)).unwrap();
        }
        assert!(queue.push(read(0, 0, 1)).is_err(), "full");
        queue.enter(7, 4, None).unwrap();
        queue
            .reap(|slot| {
                assert_eq!(slot.begun, 7);
                seen.push(slot.op.number);
            })
            .unwrap();
        assert_eq!(queue.in_flight(), 0);
    }
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..40));
    drop(queue);
    // The last round read bytes 3600 to 4000, in some piece each.
    let mut pieces: Vec<u8> = buffer.chunks(100).map(|p| p[0]).collect();
    pieces.sort_unstable();
    let mut expected: Vec<u8> = (36..40u64).map(|n| bytes[n as usize * 100]).collect();
    expected.sort_unstable();
    assert_eq!(pieces, expected);
}

#[test]
fn a_short_transfer_goes_on_and_the_end_of_a_file_is_an_error() {
    let mut slot = Slot::new(read(3, 1000, 100), 0);
    assert!(!slot.moved(60).unwrap());
    assert!(!slot.moved(-libc::EINTR).unwrap());
    assert!(slot.moved(0).unwrap_err().to_string().contains("byte 1060"));
    assert!(slot.moved(40).unwrap());
    assert_eq!(
        slot.moved(-libc::EIO).unwrap_err().raw_os_error(),
        Some(libc::EIO)
    );
    let file = file(&[1; 150]);
    let mut buffer = vec![0; 200];
    let mut queue = Queue::new(2, file.as_fd(), &mut buffer, 100).unwrap();
    queue.push(read(1, 0, 100)).unwrap();
    queue.push(read(2, 100, 100)).unwrap();
    let mut good = 0;
    let mut failed = None;
    while queue.in_flight() > 0 {
        queue.enter(0, 1, None).unwrap();
        failed = queue.reap(|_| good += 1).err().or(failed);
    }
    let failed = failed.unwrap();
    assert_eq!((good, failed.op.number), (1, 2));
    assert!(
        failed.error.to_string().contains("byte 150"),
        "{}",
        failed.error
    );
}

#[test]
fn waits_for_what_is_under_way_before_its_buffer_goes() {
    let (reader, writer) = std::io::pipe().unwrap();
    let mut buffer = vec![0; 10];
    let mut queue = Queue::new(1, reader.as_fd(), &mut buffer, 10).unwrap();
    queue.push(read(0, u64::MAX, 5)).unwrap();
    let start = std::time::Instant::now();
    queue.enter(0, 1, Some(Duration::from_millis(20))).unwrap();
    assert!(start.elapsed() >= Duration::from_millis(19));
    assert_eq!(queue.in_flight(), 1);
    let late = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(30));
        (&writer).write_all(b"hello").unwrap();
    });
    drop(queue);
    assert!(start.elapsed() >= Duration::from_millis(45));
    assert_eq!(&buffer[..5], b"hello");
    late.join().unwrap();
}
