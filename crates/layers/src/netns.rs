use std::time::Duration;

use layermark_model::{Missing, Spec};

use crate::{
    Base, Group, LayerError, LayerInfo, NamedNetwork, PathEnds, Place, PowerCut, Undo,
    host::HostPlace,
    kind::LayerKind,
    net::{self, link::Link, shape::Shape},
    options::{self, bad, layer_options},
    sandbox,
};

/// A network namespace at the end of a cable. Its files are those of `native`.
pub(crate) struct Netns;

layer_options! {
    pub(crate) struct NetnsOptions {
        /// of each packet, each way, such as 1ms (netem)
        delay: String = "0",
        /// bits a second, each way: 1mbit or more, such as 100mbit or 1gbit (tbf)
        rate: String = "none",
        /// share of the packets that are lost, each way, such as 0.1% (netem)
        loss: String = "0%",
        /// longest packet, bytes
        mtu: String = "1500",
        /// a name; with guests (backend=tap) and others of this layer that have it, it is in one network
        switch: String = "none",
    }
}

impl LayerKind for Netns {
    const ID: &'static str = "netns";
    type Options = NetnsOptions;

    fn describe(_: &Spec, options: &NetnsOptions) -> LayerInfo {
        LayerInfo {
            default_paths: &["netns"],
            path: PathEnds::any(),
            // Guests join it through a tap device.
            network: options.switch_name().map(|name| NamedNetwork {
                switch: name.into(),
                backend: "tap".into(),
            }),
            power_cut: PowerCut::MOUNTED,
            ..LayerInfo::new(
                Group::Network,
                "a network namespace behind a bridge, for workloads with two ends",
            )
        }
    }

    fn check(spec: &Spec, options: &NetnsOptions) -> Result<(), LayerError> {
        shape(spec, options)?;
        check_switch_name(spec, options)
    }

    fn missing(spec: &Spec, options: &NetnsOptions) -> Vec<Missing> {
        if sandbox::privilege() == sandbox::Privilege::None {
            return vec![sandbox::no_networks()];
        }
        let lacks = shape(spec, options).ok().and_then(|shape| shape.lacks());
        let missing = lacks.map(|kind| Missing {
            what: format!("the kernel's queueing discipline {kind} (sch_{kind})"),
            hint: format!("sudo modprobe sch_{kind}, or boot a kernel that has it"),
            installable: false,
        });
        missing.into_iter().collect()
    }

    fn open(
        base: &Base,
        spec: &Spec,
        options: Self::Options,
        undo: &mut Undo,
    ) -> Result<Box<dyn Place>, LayerError> {
        base.emptied(undo);
        let name = spec.to_string();
        check_switch_name(spec, &options)?;
        let link = Link::cable(options.switch_name(), shape(spec, &options)?)
            .map_err(LayerError::io(&name, "make a network for", &base.dir))?;
        let mut place = HostPlace::new(base, spec, base.dir.clone()).linked(link);
        place.package()?;
        Ok(Box::new(place))
    }
}

impl NetnsOptions {
    fn switch_name(&self) -> Option<&str> {
        Some(&*self.switch).filter(|name| *name != "none")
    }
}

fn check_switch_name(spec: &Spec, options: &NetnsOptions) -> Result<(), LayerError> {
    let name = options.switch_name();
    name.map_or(Ok(()), |name| net::check_switch_name(spec, name))
}

fn shape(spec: &Spec, options: &NetnsOptions) -> Result<Shape, LayerError> {
    Ok(Shape {
        delay: delay(spec, &options.delay)?,
        loss: loss(spec, &options.loss)?,
        rate: options::rate(spec, &options.rate)?,
        mtu: Some(mtu(spec, &options.mtu)?),
    })
}

fn delay(spec: &Spec, text: &str) -> Result<Duration, LayerError> {
    // With a longer delay, answers would arrive after the time limit of some seconds.
    const MOST: Duration = Duration::from_secs(1);
    match options::delay(text).filter(|delay| *delay <= MOST) {
        Some(delay) => Ok(delay),
        None => Err(bad(
            spec,
            "delay",
            text,
            "is not a duration of at most 1s, such as 250us".into(),
        )),
    }
}

fn loss(spec: &Spec, text: &str) -> Result<f64, LayerError> {
    let percent = text.strip_suffix('%').and_then(|n| n.parse::<f64>().ok());
    match percent {
        // With more loss, the check that the network works would fail.
        Some(percent @ 0.0..=50.0) => Ok(percent / 100.0),
        _ => Err(bad(spec, "loss", text, "is not from 0% to 50%".into())),
    }
}

fn mtu(spec: &Spec, text: &str) -> Result<u32, LayerError> {
    match text.parse() {
        Ok(bytes @ 576..=65_535) => Ok(bytes),
        _ => Err(bad(spec, "mtu", text, "is not from 576 to 65535".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::LayerOptions;

    #[test]
    fn options_are_read_or_refused() {
        let read = |text: &str| {
            let spec = text.parse().unwrap();
            shape(&spec, &NetnsOptions::read(&spec).unwrap())
        };
        assert_eq!(
            read("netns:delay=250us,rate=100mbit,loss=0.5%,mtu=9000").unwrap(),
            Shape {
                delay: Duration::from_micros(250),
                loss: 0.005,
                rate: Some(100_000_000),
                mtu: Some(9000),
            }
        );
        for (text, says) in [
            ("netns:delay=2s", "at most 1s"),
            ("netns:delay=x", "250us"),
            ("netns:loss=1", "0% to 50%"),
            ("netns:loss=NaN%", "0% to 50%"),
            ("netns:rate=100M", "1mbit"),
            ("netns:rate=99999999999999999999gbit", "1mbit"),
            ("netns:rate=-1mbit", "1mbit"),
            ("netns:mtu=1", "576"),
            ("netns:switch=a b", "not a name"),
            ("netns:bridge", "no variants"),
        ] {
            let e = crate::check(&text.parse().unwrap()).unwrap_err();
            assert!(e.is_usage() && e.to_string().contains(says), "{text}: {e}");
        }
    }

    #[test]
    fn what_is_in_a_path_is_in_its_network() {
        let linked = |text: &str, switch| {
            let spec: Spec = text.parse().unwrap();
            let layer = crate::find(&spec.layer).unwrap();
            let info = layer.describe(&spec).unwrap();
            info.linked(&spec, switch).map(|spec| spec.to_string())
        };
        assert_eq!(linked("netns", Some("a")).unwrap(), "netns:switch=a");
        assert_eq!(
            linked("netns:switch=b", Some("a")).unwrap(),
            "netns:switch=b"
        );
        assert_eq!(linked("vm", None).unwrap(), "vm:nic=virtio-net");
        assert_eq!(
            linked("vm:nic=e1000", Some("a")).unwrap(),
            "vm:nic=e1000,switch=a"
        );
        assert_eq!(linked("overlay:upper", None).unwrap(), "overlay:upper");
        for (text, switch) in [("overlay:upper", Some("a")), ("vm:backend=user", None)] {
            let e = linked(text, switch).unwrap_err();
            assert!(e.is_usage() && e.hint().is_some(), "{e}");
        }
    }
}
