use std::time::Duration;

use layermark_model::{Missing, Spec};

use crate::{
    Base, Group, Layer, LayerError, LayerOption, NamedNetwork, Place, Undo,
    host::HostPlace,
    net::{self, link::Link, shape::Shape},
    options::{self, bad, layer_options},
    sandbox,
};

/// A network namespace at the end of a cable. Its files are those of `native`.
pub(crate) struct Netns;

layer_options! {
    struct NetnsOptions {
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

impl Layer for Netns {
    fn id(&self) -> &'static str {
        "netns"
    }

    fn group(&self, _: &str) -> Group {
        Group::Network
    }

    fn about(&self, _: &str) -> &'static str {
        "a network namespace behind a bridge, for workloads with two ends"
    }

    fn options(&self) -> &'static [LayerOption] {
        &NetnsOptions::ROWS
    }

    fn default_paths(&self) -> &'static [&'static str] {
        &["netns"]
    }

    fn check(&self, spec: &Spec) -> Result<(), LayerError> {
        shape(spec)?;
        switch_name(spec).map(drop)
    }

    fn linked(&self, spec: &Spec, switch: Option<&str>) -> Result<Spec, LayerError> {
        let mut spec = spec.clone();
        if let Some(name) = switch {
            net::join(&mut spec, name);
        }
        Ok(spec)
    }

    /// Guests join it through a tap device.
    fn network(&self, spec: &Spec) -> Option<NamedNetwork> {
        let switch = switch_name(spec).ok()??;
        Some(NamedNetwork {
            switch,
            backend: "tap".into(),
        })
    }

    fn uncut(&self, _: &Spec) -> Option<&'static str> {
        None
    }

    fn missing(&self, spec: &Spec) -> Vec<Missing> {
        if sandbox::privilege() == sandbox::Privilege::None {
            return vec![sandbox::no_networks()];
        }
        let lacks = shape(spec).ok().and_then(|shape| shape.lacks());
        let missing = lacks.map(|kind| Missing {
            what: format!("the kernel's queueing discipline {kind} (sch_{kind})"),
            hint: format!("sudo modprobe sch_{kind}, or boot a kernel that has it"),
            installable: false,
        });
        missing.into_iter().collect()
    }

    fn open(
        &self,
        base: &Base,
        spec: &Spec,
        undo: &mut Undo,
    ) -> Result<Box<dyn Place>, LayerError> {
        base.emptied(undo);
        let name = spec.to_string();
        let link = Link::cable(switch_name(spec)?.as_deref(), shape(spec)?)
            .map_err(LayerError::io(&name, "make a network for", &base.dir))?;
        let mut place = HostPlace::new(base, spec, base.dir.clone()).linked(link);
        place.package()?;
        Ok(Box::new(place))
    }
}

fn switch_name(spec: &Spec) -> Result<Option<String>, LayerError> {
    let name = NetnsOptions::of(spec)?.switch;
    if name == "none" {
        return Ok(None);
    }
    net::check_switch_name(spec, &name)?;
    Ok(Some(name))
}

fn shape(spec: &Spec) -> Result<Shape, LayerError> {
    let options = NetnsOptions::of(spec)?;
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

    #[test]
    fn options_are_read_or_refused() {
        let read = |text: &str| shape(&text.parse().unwrap());
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
            layer.linked(&spec, switch).map(|spec| spec.to_string())
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
