//! A switch for guests whose QEMU sends frames through sockets. It needs no root, and it is
//! invisible to the networks of this host.
//!
//! Its own end answers ARP and sends every UDP packet back. Frames: IEEE 802.3, RFC 826, RFC 791.

use std::{
    collections::{BTreeMap, HashMap},
    io,
    net::{Ipv4Addr, Shutdown},
    ops::Range,
    os::unix::net::UnixDatagram,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use super::HOST;

/// Longest frame, bytes: cards may merge packets.
const LONGEST: usize = 1 << 17;
/// How long a guest may leave frames unread before they are dropped for it.
const PATIENCE: Duration = Duration::from_millis(100);

type Mac = [u8; 6];

const ALL: Mac = [0xff; 6];
/// This host's end.
const OURS: Mac = [0x52, 0x54, 0x00, 0x6c, 0x6d, 0x01];

/// A switch for the guests of one network.
#[derive(Default)]
pub(crate) struct Switch {
    ports: RwLock<BTreeMap<u8, Arc<Port>>>,
    /// The port behind which each address was last seen.
    known: Mutex<HashMap<Mac, u8>>,
}

struct Port {
    socket: UnixDatagram,
    /// CPU time for frames that came in here, nanoseconds.
    cpu_ns: AtomicU64,
}

impl Switch {
    /// Adds a port of this number. Returns the other end of its cable.
    pub(super) fn plug(self: &Arc<Self>, number: u8) -> io::Result<UnixDatagram> {
        let (socket, theirs) = UnixDatagram::pair()?;
        socket.set_write_timeout(Some(PATIENCE))?;
        let port = Arc::new(Port {
            socket,
            cpu_ns: AtomicU64::new(0),
        });
        let mut ports = self.ports.write().unwrap_or_else(PoisonError::into_inner);
        ports.insert(number, port.clone());
        drop(ports);
        let switch = self.clone();
        let serve = move || {
            let mut frame = vec![0; LONGEST];
            // Nothing is received once the cable has been removed.
            while let Ok(length @ 1..) = port.socket.recv(&mut frame) {
                switch.carry(number, &frame[..length]);
                let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
                let ns = time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec as u64;
                port.cpu_ns.store(ns, Ordering::Relaxed);
            }
        };
        thread::Builder::new().name("switch".into()).spawn(serve)?;
        Ok(theirs)
    }

    pub(super) fn unplug(&self, number: u8) {
        let mut ports = self.ports.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(port) = ports.remove(&number) {
            // Ends its thread. An error means that it is not connected any more.
            let _ = port.socket.shutdown(Shutdown::Both);
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, port| *port != number);
    }

    /// CPU time for frames that came in at this port, nanoseconds.
    pub(super) fn cpu_ns(&self, number: u8) -> u64 {
        let ports = self.ports.read().unwrap_or_else(PoisonError::into_inner);
        let port = ports.get(&number);
        port.map_or(0, |p| p.cpu_ns.load(Ordering::Relaxed))
    }

    fn carry(&self, from: u8, frame: &[u8]) {
        let (Some(to), Some(sender)) = (mac(frame, 0), mac(frame, 6)) else {
            return;
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(sender, from);
        let only = known.get(&to).copied();
        drop(known);
        let ports = self.ports.read().unwrap_or_else(PoisonError::into_inner);
        let (own, others): (Vec<_>, Vec<_>) = ports
            .iter()
            .map(|(number, port)| (*number, port.clone()))
            .partition(|(number, _)| *number == from);
        // Sending may block, and the other ports must not wait for that.
        drop(ports);
        if (to == ALL || to == OURS)
            && let (Some(answer), Some((_, port))) = (answer(frame), own.first())
        {
            let _ = port.socket.send(&answer);
        }
        if to == OURS {
            return;
        }
        for (number, port) in others {
            if only.is_none_or(|only| only == number) {
                // Frames are lost if the guest does not read them, as on every network.
                let _ = port.socket.send(frame);
            }
        }
    }
}

fn mac(frame: &[u8], at: usize) -> Option<Mac> {
    frame.get(at..at + 6)?.try_into().ok()
}

/// Reply of this host's end to a frame.
fn answer(frame: &[u8]) -> Option<Vec<u8>> {
    let mut frame = frame.to_vec();
    match [*frame.get(12)?, *frame.get(13)?] {
        [0x08, 0x06] => answer_arp(&mut frame)?,
        [0x08, 0x00] => answer_udp(&mut frame)?,
        _ => return None,
    }
    frame.copy_within(6..12, 0);
    frame[6..12].copy_from_slice(&OURS);
    Some(frame)
}

/// Answers an ARP request for our address.
fn answer_arp(frame: &mut [u8]) -> Option<()> {
    const OPERATION: Range<usize> = 20..22;
    const SENDER: Range<usize> = 22..32;
    const TARGET: Range<usize> = 32..42;
    let asked = frame.get(TARGET)?.ends_with(&HOST.octets());
    let request = frame.get(OPERATION)? == [0, 1];
    (asked && request).then_some(())?;
    frame[OPERATION].copy_from_slice(&[0, 2]);
    frame.copy_within(SENDER, TARGET.start);
    frame[22..28].copy_from_slice(&OURS);
    frame[28..32].copy_from_slice(&HOST.octets());
    Some(())
}

/// Sends it back to the sender. Checksums are sums, so exchanging the two ends does not change
/// them.
fn answer_udp(frame: &mut [u8]) -> Option<()> {
    const IP: usize = 14;
    const UDP: u8 = 17;
    let header = usize::from(frame.get(IP)? & 0x0f) * 4;
    let ports = IP + header;
    let to = Ipv4Addr::from(<[u8; 4]>::try_from(frame.get(IP + 16..IP + 20)?).ok()?);
    // After the bits `reserved` and `do not fragment`.
    let whole = u16::from_be_bytes([frame[IP + 6], frame[IP + 7]]) << 2 == 0;
    let ours = to == HOST && frame[IP + 9] == UDP && whole && header >= 20;
    (ours && frame.len() >= ports + 8).then_some(())?;
    for n in 0..4 {
        frame.swap(IP + 12 + n, IP + 16 + n);
    }
    for n in 0..2 {
        frame.swap(ports + n, ports + 2 + n);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(to: Mac, from: Mac, rest: &[u8]) -> Vec<u8> {
        [&to[..], &from, rest].concat()
    }

    fn mac_of(n: u8) -> Mac {
        [2, 0, 0, 0, 0, n]
    }

    fn plugged(switch: &Arc<Switch>, number: u8) -> UnixDatagram {
        let cable = switch.plug(number).unwrap();
        cable
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        cable
    }

    fn hear(cable: &UnixDatagram) -> Vec<u8> {
        let mut heard = vec![0; 2000];
        let length = cable.recv(&mut heard).unwrap();
        heard.truncate(length);
        heard
    }

    #[test]
    fn frames_go_where_the_address_was_seen() {
        let switch = Arc::new(Switch::default());
        let cables = [2, 3, 4].map(|n| plugged(&switch, n));
        // The address 3 is unknown: all ports get the frame except the sender's.
        let unknown = frame(mac_of(3), mac_of(2), b"\x88\xb5 to an unknown one");
        cables[0].send(&unknown).unwrap();
        assert_eq!(
            (hear(&cables[1]), hear(&cables[2])),
            (unknown.clone(), unknown)
        );
        let known = frame(mac_of(2), mac_of(3), b"\x88\xb5 to a known one");
        cables[1].send(&known).unwrap();
        assert_eq!(hear(&cables[0]), known);
        // The next frame that 4 receives is not that one.
        let all = frame(ALL, mac_of(2), b"\x88\xb5 to all");
        cables[0].send(&all).unwrap();
        assert_eq!(hear(&cables[2]), all);
        assert_eq!(hear(&cables[1]), all);
        // Invalid frames and a pulled cable do no harm.
        cables[0].send(b"short").unwrap();
        switch.unplug(3);
        cables[0].send(&all).unwrap();
        assert_eq!(hear(&cables[2]), all);
        assert!(switch.cpu_ns(2) > 0 && switch.cpu_ns(3) == 0);
    }

    #[test]
    fn its_own_end_answers() {
        let switch = Arc::new(Switch::default());
        let cable = plugged(&switch, 2);
        let (us, guest) = (HOST.octets(), [10, 9, 0, 2]);
        // Ethernet and IPv4, six and four bytes, a request.
        let begin = b"\x08\x06\x00\x01\x08\x00\x06\x04\x00";
        let arp = |op: u8, a: Mac, x: [u8; 4], b: Mac, y: [u8; 4]| {
            [&begin[..], &[op], &a, &x, &b, &y].concat()
        };
        let asks = arp(1, mac_of(2), guest, [0; 6], us);
        cable.send(&frame(ALL, mac_of(2), &asks)).unwrap();
        let says = arp(2, OURS, us, mac_of(2), guest);
        assert_eq!(hear(&cable), frame(mac_of(2), OURS, &says));
        let ip = |a: [u8; 4], b: [u8; 4], ports: [u8; 4]| {
            let head = b"\x08\x00\x45\0\0\x20\0\0\x40\0\x40\x11\xab\xcd";
            [&head[..], &a, &b, &ports, &[0, 12, 0x12, 0x34], b"echo"].concat()
        };
        let there = ip(guest, us, [0x80, 1, 0, 7]);
        cable.send(&frame(OURS, mac_of(2), &there)).unwrap();
        let back = ip(us, guest, [0, 7, 0x80, 1]);
        assert_eq!(hear(&cable), frame(mac_of(2), OURS, &back));
    }

    #[test]
    fn frames_that_are_cut_short_are_not_answered() {
        for kind in [[0x08, 0x06], [0x08, 0x00]] {
            let whole = [&frame(OURS, mac_of(2), &kind)[..], &[0x45; 60]].concat();
            for length in 0..whole.len() {
                assert_eq!(answer(&whole[..length]), None, "{length}");
            }
        }
    }
}
