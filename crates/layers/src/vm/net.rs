//! The network between this host and one guest: a namespace in which nobody else is, a tap device
//! at one end of it and the guest's card at the other.
//!
//! Servers run in it too, so their ports are everybody's usual ones and only the guest reaches them.
//! It is gone with the last process in it and the last [`Net`].
#![allow(unsafe_code)]

use std::{
    fs::{self, File},
    io,
    net::{Ipv4Addr, UdpSocket},
    os::fd::{AsRawFd, OwnedFd, RawFd},
    path::Path,
    process::Command,
    sync::Arc,
    thread,
};

use layermark_model::{Missing, Spec};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::{
    Control, LayerError,
    child::{self, Process},
    needs,
    options::value,
    vm::OPTIONS,
};

/// This host's address.
pub(crate) const HOST: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
/// The guest's.
pub(crate) const GUEST: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);
const MASK: Ipv4Addr = Ipv4Addr::new(255, 255, 255, 0);
const TAP: &str = "tap0";
const TUN: &str = "/dev/net/tun";

/// Where a server sees the layer's directory, whose own path may hold anything and be of any
/// length.
const SEEN_AT: &str = "/mnt";

/// A network card as the guest sees it.
pub(crate) struct Card {
    pub(crate) name: &'static str,
    pub(crate) modules: &'static [&'static str],
    device: &'static str,
}

const CARDS: [Card; 5] = [
    Card {
        name: "virtio-net",
        modules: &["virtio_pci", "virtio_net"],
        device: "virtio-net-pci",
    },
    Card {
        name: "e1000",
        modules: &["e1000"],
        device: "e1000",
    },
    Card {
        name: "e1000e",
        modules: &["e1000e"],
        device: "e1000e",
    },
    Card {
        name: "rtl8139",
        modules: &["8139cp"],
        device: "rtl8139",
    },
    Card {
        name: "vmxnet3",
        modules: &["vmxnet3"],
        device: "vmxnet3",
    },
];

/// Values of the option `nic`.
pub(crate) const CARD_NAMES: &[&str] = &["virtio-net", "e1000", "e1000e", "rtl8139", "vmxnet3"];

impl Card {
    /// The one that the user asked for.
    pub(crate) fn of(spec: &Spec) -> &'static Self {
        let name = value(spec, OPTIONS, "nic");
        let found = CARDS.iter().find(|c| c.name == name);
        found.unwrap_or(&CARDS[0])
    }

    /// QEMU's arguments. Without the ROM: nothing is booted from a network.
    pub(crate) fn devices(&self) -> Vec<String> {
        vec![
            "-netdev".into(),
            format!("tap,id=net,ifname={TAP},script=no,downscript=no"),
            "-device".into(),
            format!("{},netdev=net,mac=52:54:00:6c:6d:02,romfile=", self.device),
        ]
    }
}

/// For the facts.
pub(crate) fn words() -> String {
    format!("tap in a network namespace, host {HOST}, guest {GUEST}")
}

/// What stands in the way of one.
pub(crate) fn missing() -> Option<Missing> {
    needs::device(TUN, "tun")
}

/// A network namespace with a tap device in it.
pub(crate) struct Net(Arc<OwnedFd>);

impl Net {
    pub(crate) fn new(layer: &str) -> Result<Self, LayerError> {
        // A thread of its own enters it, and leaves nothing but a descriptor of it.
        let made = thread::spawn(|| -> io::Result<OwnedFd> {
            // SAFETY: this flag does not touch the table of file descriptors.
            unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
            make_tap(TAP)?;
            set_up("lo", None)?;
            set_up(TAP, Some(HOST))?;
            Ok(File::open("/proc/thread-self/ns/net")?.into())
        });
        let made = made.join().unwrap_or_else(|_| {
            let text = "the thread that made it has panicked";
            Err(io::Error::other(text))
        });
        made.map(|ns| Self(Arc::new(ns))).map_err(LayerError::io(
            layer,
            "make a network with",
            Path::new(TUN),
        ))
    }

    /// Lets a process live in it.
    pub(crate) fn enter(&self, command: &mut Command) {
        child::apart(command, self.0.clone(), None);
    }
}

/// Where a server sees this file of the guest's private directory.
pub(crate) fn seen(name: &str) -> String {
    beside(&format!("vm/{name}"))
}

/// Where it sees a directory beside that.
pub(crate) fn beside(name: &str) -> String {
    format!("{SEEN_AT}/{name}")
}

/// Starts a server for the guest whose private directory is `dir`.
pub(crate) fn start(net: Option<&Net>, dir: &Path, command: &mut Command) -> io::Result<Process> {
    let (Some(net), Some(layer)) = (net, dir.parent()) else {
        return Err(io::ErrorKind::NetworkDown.into());
    };
    command.current_dir(layer);
    child::apart(command, net.0.clone(), Some(SEEN_AT));
    Process::start_with(command)
}

/// Whether something in the server's network waits for connections to `port`.
pub(crate) fn listens(server: &Process, port: u16) -> bool {
    let Some(pid) = server.pid() else {
        return false;
    };
    ["tcp", "tcp6"].iter().any(|kind| {
        let text = fs::read_to_string(format!("/proc/{pid}/net/{kind}"));
        text.is_ok_and(|text| text.lines().any(|line| is_listener(line, port)))
    })
}

/// A line of `/proc/net/tcp`, see proc(5): number, own address, the other's, state (0A: LISTEN).
fn is_listener(line: &str, port: u16) -> bool {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let own = fields.get(1).and_then(|a| a.rsplit_once(':'));
    own.is_some_and(|(_, p)| u16::from_str_radix(p, 16) == Ok(port)) && fields.get(3) == Some(&"0A")
}

/// The first card of this machine and whether it has a carrier.
pub(crate) fn first_card() -> Option<String> {
    let cards = fs::read_dir("/sys/class/net").ok()?;
    let names = cards
        .flatten()
        .filter_map(|e| e.file_name().into_string().ok());
    names.filter(|n| n != "lo").min()
}

/// Whether the cable is in: some cards need seconds to find out.
pub(crate) fn has_carrier(card: &str) -> bool {
    let path = Path::new("/sys/class/net").join(card).join("carrier");
    fs::read_to_string(path).is_ok_and(|text| text.trim() == "1")
}

fn request(name: &str) -> libc::ifreq {
    // SAFETY: numbers and bytes, for which zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let room = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name[..room].iter_mut().zip(name.bytes()) {
        *to = from.cast_signed();
    }
    request
}

fn control(fd: RawFd, what: libc::Ioctl, request: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: all requests passed here take an `ifreq`, which outlives the call.
    match unsafe { libc::ioctl(fd, what, std::ptr::from_mut(request)) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Gives a network device of this namespace an address and switches it on.
pub(crate) fn set_up(name: &str, address: Option<Ipv4Addr>) -> io::Result<()> {
    let failed = |what: &str| {
        let text = format!("{what} {name}");
        move |e: io::Error| io::Error::new(e.kind(), format!("{text}: {e}"))
    };
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    let fd = socket.as_raw_fd();
    if let Some(address) = address {
        for (what, address) in [(libc::SIOCSIFADDR, address), (libc::SIOCSIFNETMASK, MASK)] {
            let mut request = request(name);
            request.ifr_ifru.ifru_addr = as_sockaddr(address);
            control(fd, what, &mut request).map_err(failed("give an address to"))?;
        }
    }
    let mut request = request(name);
    control(fd, libc::SIOCGIFFLAGS, &mut request).map_err(failed("look at"))?;
    // SAFETY: the call above has set this field.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    request.ifr_ifru.ifru_flags = flags | (libc::IFF_UP | libc::IFF_RUNNING) as i16;
    control(fd, libc::SIOCSIFFLAGS, &mut request).map_err(failed("switch on"))
}

fn as_sockaddr(address: Ipv4Addr) -> libc::sockaddr {
    let mut data = [0; 14];
    // Port (2 bytes) and address, both in network order, as in a `sockaddr_in`.
    for (to, from) in data[2..].iter_mut().zip(address.octets()) {
        *to = from.cast_signed();
    }
    libc::sockaddr {
        sa_family: libc::AF_INET as libc::sa_family_t,
        sa_data: data,
    }
}

/// Makes a tap device that stays when nobody has it open.
fn make_tap(name: &str) -> io::Result<()> {
    let tun = File::options().read(true).write(true).open(TUN)?;
    let mut request = request(name);
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as i16;
    control(tun.as_raw_fd(), libc::TUNSETIFF, &mut request)?;
    // SAFETY: this request takes a number.
    match unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETPERSIST, 1) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_card_can_be_named() {
        let names: Vec<&str> = CARDS.iter().map(|c| c.name).collect();
        assert_eq!(names, CARD_NAMES);
    }

    #[test]
    fn listeners_are_told_from_connections() {
        let line = "   0: 0100090A:0801 00000000:0000 0A 00000000:00000000 00:00000000";
        let six = "   1: 00000000000000000000000001000000:0801 00000000000000000000000000000000:0000 0A 0";
        assert!(is_listener(line, 2049) && is_listener(six, 2049));
        assert!(!is_listener(line, 445));
        assert!(!is_listener(&line.replace(" 0A ", " 01 "), 2049));
        assert!(!is_listener("  sl  local_address rem_address   st", 2049));
        assert!(!is_listener("", 2049));
    }

    #[test]
    fn an_address_is_in_network_order() {
        let address = as_sockaddr(Ipv4Addr::new(10, 9, 0, 200));
        assert_eq!(address.sa_data[..6], [0, 0, 10, 9, 0, 200_u8.cast_signed()]);
    }

    #[test]
    fn a_network_of_its_own_has_a_tap_device() {
        if let Some(missing) = missing() {
            eprintln!("skipped: {} ({})", missing.what, missing.hint);
            return;
        }
        let net = match Net::new("x") {
            Ok(net) => net,
            Err(e) => {
                eprintln!("skipped: {e}");
                assert!(!rustix::process::geteuid().is_root(), "{e}");
                return;
            }
        };
        let mut command = child::command("/bin/cat");
        command
            .arg("/proc/self/net/dev")
            .stdout(std::process::Stdio::piped());
        net.enter(&mut command);
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains(TAP) && text.contains("lo:"), "{text}");
        // Nobody else has it.
        let ours = fs::read_to_string("/proc/self/net/dev").unwrap();
        assert!(!ours.contains(TAP), "{ours}");
    }
}
