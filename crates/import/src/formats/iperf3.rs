//! iperf3, `--json`.

use layermark_model::ImportedPoint;
use serde::Deserialize;

use super::{Format, Found, some};
use crate::{document, values};

pub struct Iperf3;

impl Format for Iperf3 {
    fn id(&self) -> &'static str {
        "iperf3"
    }

    fn about(&self) -> &'static str {
        "iperf3 with --json"
    }

    fn example(&self) -> &'static str {
        "iperf3 -c HOST --json > FILE"
    }

    fn knows(&self, text: &str) -> bool {
        text.contains("\"iperf 3")
    }

    fn parse(&self, text: &str) -> Result<Found, String> {
        if text.trim_start().starts_with("{\"event\"") {
            return Err("it is the output of --json-stream, of which only --json is read".into());
        }
        let documents = document::find::<Output>(text, "\"start\"")?;
        let mut found = Found::default();
        for output in &documents.values {
            output.read(&mut found)?;
        }
        some(found, "finished stream")
    }
}

#[derive(Deserialize)]
struct Output {
    #[serde(default)]
    start: Start,
    #[serde(default)]
    end: End,
    error: Option<String>,
}

#[derive(Deserialize, Default)]
struct Start {
    #[serde(default)]
    version: String,
    timestamp: Option<Timestamp>,
    #[serde(rename = "test_start")]
    test: Option<Test>,
}

#[derive(Deserialize)]
struct Timestamp {
    time: String,
}

#[derive(Deserialize)]
struct Test {
    #[serde(default)]
    protocol: String,
    #[serde(default)]
    num_streams: u64,
    /// Bytes of a send.
    #[serde(default)]
    blksize: u64,
    #[serde(default)]
    reverse: u8,
    #[serde(default)]
    bidir: u8,
    /// Since 3.9: 0 is unlimited.
    target_bitrate: Option<f64>,
}

#[derive(Deserialize, Default)]
struct End {
    /// Of UDP: what was sent, with the share that was lost.
    sum: Option<Sum>,
    sum_sent: Option<Sum>,
    sum_received: Option<Sum>,
    sum_received_bidir_reverse: Option<Sum>,
}

#[derive(Deserialize)]
struct Sum {
    #[serde(default)]
    bits_per_second: f64,
    #[serde(default)]
    lost_percent: f64,
}

impl Output {
    fn read(&self, found: &mut Found) -> Result<(), String> {
        found.tool = values::clean(&self.start.version).replacen("iperf 3", "iperf3 3", 1);
        found.measured = self
            .start
            .timestamp
            .as_ref()
            .map(|t| values::clean(&t.time));
        if let Some(error) = &self.error {
            found.note(format!(
                "iperf3 ended with an error: {}",
                values::clean(error)
            ));
        }
        let Some(test) = &self.start.test else {
            return Ok(());
        };
        let udp = test.protocol.eq_ignore_ascii_case("udp");
        let back = &self.end.sum_received_bidir_reverse;
        let both = test.bidir != 0 || back.is_some();
        let word = match (udp, both, test.reverse != 0) {
            (false, true, _) => Some("bidir"),
            (false, false, false) => Some("stream"),
            (false, false, true) => Some("maerts"),
            (true, false, false) => Some("udp-stream"),
            // None of ours sends datagrams that way.
            (true, ..) => None,
        };
        let Some(bytes) = self.arrived(udp, both) else {
            return Ok(());
        };
        let name = match (word, udp) {
            (Some(word), _) => word.to_owned(),
            (None, _) => format!(
                "{} datagrams to this end",
                if both { "both ways," } else { "" }
            )
            .trim()
            .to_owned(),
        };
        // UDP is limited to 1 Mbit/s unless -b says otherwise; versions before 3.9 do not write it.
        let limited = match test.target_bitrate {
            Some(bits) if bits > 0.0 => Some(format!("-b limits it to {bits} bit/s")),
            None if udp => Some("the file does not say how -b limits it".to_owned()),
            _ => None,
        };
        if let Some(why) = &limited {
            found.note(format!("`{name}` is not compared: {why}"));
        }
        found.point(ImportedPoint {
            op: word.filter(|_| limited.is_none()).map(str::to_owned),
            record: Some(test.blksize).filter(|n| *n > 0),
            threads: Some(test.num_streams.max(1)),
            bytes_per_s: Some(values::rate("bits_per_second", bytes)?),
            name,
            ..ImportedPoint::default()
        })
    }

    /// Bytes a second that have arrived.
    fn arrived(&self, udp: bool, both: bool) -> Option<f64> {
        let End {
            sum,
            sum_sent,
            sum_received,
            sum_received_bidir_reverse: back,
        } = &self.end;
        // Before 3.11 a datagram's receiver has no sum of its own.
        let received = match (sum_received, udp) {
            (Some(sum), false) => sum.bits_per_second,
            (Some(received), true) if sum_sent.is_some() => received.bits_per_second,
            (_, true) => {
                let sum = sum.as_ref()?;
                sum.bits_per_second * (1.0 - sum.lost_percent / 100.0)
            }
            (None, false) => return None,
        };
        let back = if both {
            back.as_ref()?.bits_per_second
        } else {
            0.0
        };
        Some((received + back) / 8.0).filter(|b| *b > 0.0)
    }
}
