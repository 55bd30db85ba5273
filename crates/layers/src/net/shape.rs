//! Delay, loss and rate of a cable in each direction: queueing disciplines of tc(8).

use std::{io, time::Duration};

use super::{
    device,
    netlink::{self, Bytes, ROOT},
    space::Net,
};

/// Length of the queue of a rate limit.
const QUEUE: Duration = Duration::from_millis(100);
/// Minimum length of that queue, bytes.
const SHORTEST_QUEUE: u64 = 256 << 10;

/// Delay, loss, rate and maximum packet size of a cable, the same in both directions.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Shape {
    /// One-way delay of a packet.
    pub(crate) delay: Duration,
    /// Share of all packets, from 0 to 1.
    pub(crate) loss: f64,
    /// Bits a second.
    pub(crate) rate: Option<u64>,
    /// Maximum packet size, bytes.
    pub(crate) mtu: Option<u32>,
}

impl Shape {
    fn needs_netem(&self) -> bool {
        !self.delay.is_zero() || self.loss > 0.0
    }

    /// The names in tc(8) of the queueing disciplines it needs.
    pub(crate) fn kinds(&self) -> Vec<&'static str> {
        let netem = self.needs_netem().then_some("netem");
        netem.into_iter().chain(self.rate.map(|_| "tbf")).collect()
    }

    /// The first of [`Shape::kinds`] that this kernel lacks, checked in a temporary namespace.
    /// `None` also if no namespace may be made.
    pub(crate) fn lacks(&self) -> Option<&'static str> {
        let net = Net::alone().ok()?;
        self.kinds().into_iter().find(|kind| {
            let one = Self {
                mtu: None,
                rate: self.rate.filter(|_| *kind == "tbf"),
                delay: if *kind == "netem" {
                    self.delay
                } else {
                    Duration::ZERO
                },
                loss: if *kind == "netem" { self.loss } else { 0.0 },
            };
            let tried = net.within(move || one.apply("lo"));
            tried.is_err_and(|e| e.kind() == io::ErrorKind::NotFound)
        })
    }

    /// Shapes the outgoing packets of this device in the calling thread's namespace.
    pub(super) fn apply(&self, device: &str) -> io::Result<()> {
        if let Some(mtu) = self.mtu {
            device::set_mtu(device, mtu)?;
        }
        let (index, mtu) = (device::index(device)?, device::mtu(device)?);
        let mut parent = ROOT;
        if self.needs_netem() {
            let handle = 1 << 16;
            netlink::add_qdisc(index, [handle, parent], "netem", &self.netem())
                .map_err(failed("netem"))?;
            parent = handle | 1;
        }
        if let Some(rate) = self.rate {
            netlink::add_qdisc(index, [2 << 16, parent], "tbf", &tbf(rate / 8, mtu))
                .map_err(failed("tbf"))?;
        }
        Ok(())
    }

    /// `struct tc_netem_qopt`, and the delay in nanoseconds.
    fn netem(&self) -> Bytes {
        const LIMIT: u32 = 100_000;
        const LATENCY64: u16 = 10;
        let loss = (self.loss * f64::from(u32::MAX)).round() as u32;
        let delay = u64::try_from(self.delay.as_nanos()).unwrap_or(u64::MAX);
        let options = Bytes::default().u32(0).u32(LIMIT).u32(loss);
        options
            .bytes(&[0; 12])
            .with(LATENCY64, &Bytes::default().u64(delay))
    }
}

/// `struct tc_tbf_qopt` with only a rate and the queue's length, then the rate as a 64-bit number
/// and the burst in bytes: one millisecond's worth, but at least two packets.
fn tbf(bytes_a_second: u64, mtu: u32) -> Bytes {
    const PARMS: u16 = 1;
    const RATE64: u16 = 4;
    const BURST: u16 = 6;
    /// `TC_LINKLAYER_ETHERNET`: the kernel computes times itself, without a table.
    const ETHERNET: u8 = 1;
    const HEADER: u64 = 14;
    let short = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    let burst = (bytes_a_second / 1000).max(2 * (u64::from(mtu) + HEADER));
    let queue = bytes_a_second / 1000 * QUEUE.as_millis() as u64;
    let rate = |bytes: u32| {
        Bytes::default()
            .bytes(&[0, ETHERNET, 0, 0, 0, 0, 0, 0])
            .u32(bytes)
    };
    let parms = rate(short(bytes_a_second))
        .bytes(&[0; 12])
        .u32(short(queue.max(SHORTEST_QUEUE)))
        .bytes(&[0; 8]);
    Bytes::default()
        .with(PARMS, &parms)
        .with(RATE64, &Bytes::default().u64(bytes_a_second))
        .with(BURST, &Bytes::default().u32(short(burst)))
}

fn failed(kind: &str) -> impl FnOnce(io::Error) -> io::Error {
    let text = format!("tc qdisc add {kind}");
    move |e| io::Error::new(e.kind(), format!("{text}: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::space::tested;

    #[test]
    fn a_rate_and_an_mtu_are_what_the_kernel_says_then() {
        let Some(net) = tested(Net::alone()) else {
            return;
        };
        let shape = Shape {
            rate: Some(100_000_000),
            mtu: Some(9000),
            ..Shape::default()
        };
        assert_eq!((shape.kinds(), shape.lacks()), (vec!["tbf"], None));
        net.within(move || shape.apply("lo")).unwrap();
        assert_eq!(net.within(|| device::mtu("lo")).unwrap(), 9000);
        let mut tc = crate::child::command("tc");
        tc.args(["qdisc", "show", "dev", "lo"]);
        net.enter(&mut tc);
        let said = tc.output().expect("tc of iproute2");
        let said = String::from_utf8_lossy(&said.stdout);
        assert!(
            said.contains("tbf") && said.contains("rate 100Mbit"),
            "{said}"
        );
    }

    /// This host's kernel may lack all of them. Then the test checks that it says so.
    #[test]
    fn what_the_kernel_lacks_is_found_out() {
        let Some(net) = tested(Net::alone()) else {
            return;
        };
        let shape = Shape {
            delay: Duration::from_millis(1),
            ..Shape::default()
        };
        let applied = net.within(move || shape.apply("lo"));
        let lacks = applied.is_err_and(|e| e.kind() == io::ErrorKind::NotFound);
        assert_eq!(shape.lacks(), lacks.then_some("netem"));
    }
}
