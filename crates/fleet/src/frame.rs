//! Frames: a message of a task as lines that every launcher carries whole.
//!
//! Slurm cuts the lines of a task at 1024 bytes and puts the task's number before each piece. So a message is cut
//! before, and each piece says whose it is, its number and whether it is the last one. What is no frame, such as the
//! greeting of a login shell, is counted and thrown away.

/// Longest line of a task, bytes, without the newline.
pub const LONGEST: usize = 960;

/// Longest message of a task, bytes.
pub const LONGEST_MESSAGE: usize = 8 << 20;

/// How a frame begins.
const MARK: &[u8] = b"@lm ";

/// A piece of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Number of the task.
    pub task: u32,
    /// Number of the piece, from 0 over all messages of the task.
    pub number: u64,
    /// Whether it is the last piece of its message.
    pub last: bool,
    /// Its bytes.
    pub part: &'a [u8],
}

/// Cuts a message, which has no newline, into lines. `next` is the number of the next piece.
pub fn cut(task: u32, next: &mut u64, message: &[u8]) -> Vec<u8> {
    const ROOM: usize = LONGEST - 4 - 11 - 21 - 2;
    let mut lines = Vec::with_capacity(message.len() + 64);
    let pieces = message.chunks(ROOM).count().max(1);
    for at in 0..pieces {
        let end = message.len().min((at + 1) * ROOM);
        let sign = if at + 1 == pieces { '.' } else { '+' };
        lines.extend_from_slice(MARK);
        lines.extend_from_slice(format!("{task} {next}{sign} ").as_bytes());
        lines.extend_from_slice(&message[at * ROOM..end]);
        lines.push(b'\n');
        *next += 1;
    }
    lines
}

/// Reads a line without its newline. `None` if it is not a frame, or a launcher has put another task's number before it.
pub fn read(line: &[u8]) -> Option<Frame<'_>> {
    let (label, frame) = if let Some(frame) = line.strip_prefix(MARK) {
        (None, frame)
    } else {
        let colon = line.iter().take(16).position(|b| *b == b':')?;
        let label = std::str::from_utf8(&line[..colon]).ok()?;
        let label: u32 = label.trim().parse().ok()?;
        let frame = line[colon + 1..].strip_prefix(b" ")?;
        (Some(label), frame.strip_prefix(MARK)?)
    };
    let (task, rest) = word(frame)?;
    let (number, part) = word(rest)?;
    let (sign, number) = number.split_last()?;
    let frame = Frame {
        task: number_of(task)?,
        number: number_of(number)?,
        last: match sign {
            b'.' => true,
            b'+' => false,
            _ => return None,
        },
        part,
    };
    label
        .is_none_or(|label| label == frame.task)
        .then_some(frame)
}

/// Bytes up to the next space, and those after it.
fn word(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = bytes.iter().take(24).position(|b| *b == b' ')?;
    Some((&bytes[..at], &bytes[at + 1..]))
}

fn number_of<N: std::str::FromStr>(bytes: &[u8]) -> Option<N> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

/// Why the messages of a task can no longer be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// A piece came again: two tasks with one number, or one that says everything twice.
    #[error("it answered twice")]
    Twice,
    /// A piece did not come.
    #[error("a part of what it sent is missing")]
    Gap,
    /// A message has no end.
    #[error("it sent a message of more than {LONGEST_MESSAGE} bytes")]
    TooLong,
}

/// Puts the pieces of one task together.
#[derive(Debug, Default)]
pub struct Pieces {
    next: u64,
    message: Vec<u8>,
}

impl Pieces {
    /// Adds a piece. Returns the message that it ends.
    ///
    /// # Errors
    ///
    /// If the piece is not the next one, or the message is too long. The task is then not to be listened to any more.
    pub fn add(&mut self, frame: &Frame<'_>) -> Result<Option<Vec<u8>>, Wrong> {
        match frame.number.cmp(&self.next) {
            std::cmp::Ordering::Less => return Err(Wrong::Twice),
            std::cmp::Ordering::Greater => return Err(Wrong::Gap),
            std::cmp::Ordering::Equal => self.next += 1,
        }
        if self.message.len() + frame.part.len() > LONGEST_MESSAGE {
            self.message = Vec::new();
            return Err(Wrong::TooLong);
        }
        self.message.extend_from_slice(frame.part);
        Ok(frame.last.then(|| std::mem::take(&mut self.message)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8]) -> Vec<&[u8]> {
        let lines = bytes.split(|b| *b == b'\n');
        lines.filter(|l| !l.is_empty()).collect()
    }

    #[test]
    fn a_message_arrives_as_it_was_sent_with_and_without_a_label() {
        let message = "{\"ü\":\"".to_owned() + &"x".repeat(5000) + "\"}";
        let mut next = 7;
        let sent = cut(12, &mut next, message.as_bytes());
        assert_eq!(next, 13);
        for label in ["", "12: ", " 12: "] {
            let mut pieces = Pieces {
                next: 7,
                ..Pieces::default()
            };
            let mut got = None;
            for line in lines(&sent) {
                assert!(line.len() <= LONGEST && got.is_none());
                let line = [label.as_bytes(), line].concat();
                let frame = read(&line).unwrap();
                assert_eq!(frame.task, 12);
                got = pieces.add(&frame).unwrap();
            }
            assert_eq!(got.as_deref(), Some(message.as_bytes()), "{label:?}");
        }
    }

    #[test]
    fn what_is_no_frame_is_not_read() {
        for line in [
            &b""[..],
            b"Welcome to n1",
            b"@lm",
            b"@lm 1",
            b"@lm 1 2",
            b"@lm 1 2 x",
            b"@lm 1 2! x",
            b"@lm x 2. x",
            b"@lm -1 2. x",
            b"3: @lm 1 2. x",
            b"x: @lm 1 2. x",
            b"\xff\xfe: @lm 1 2. x",
            b"@lm 1 99999999999999999999999999. x",
        ] {
            assert_eq!(read(line), None, "{:?}", String::from_utf8_lossy(line));
        }
        let frame = read(b"1: @lm 1 2. ").unwrap();
        assert!(frame.part.is_empty() && frame.last);
    }

    #[test]
    fn what_comes_twice_or_has_a_gap_or_no_end_is_refused() {
        let frame = |number, part| Frame {
            task: 0,
            number,
            last: false,
            part,
        };
        let mut pieces = Pieces::default();
        assert_eq!(pieces.add(&frame(0, b"a")), Ok(None));
        assert_eq!(pieces.add(&frame(0, b"a")), Err(Wrong::Twice));
        assert_eq!(pieces.add(&frame(5, b"a")), Err(Wrong::Gap));
        let long = vec![b'x'; 1 << 20];
        for number in 1..8 {
            assert_eq!(pieces.add(&frame(number, &long)), Ok(None));
        }
        assert_eq!(pieces.add(&frame(8, &long)), Err(Wrong::TooLong));
        assert!(pieces.message.capacity() == 0, "it is let go of");
    }
}
