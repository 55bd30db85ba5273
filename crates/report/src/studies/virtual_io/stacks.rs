//! The three stacks next to each other: works as rows, layers as columns.

use layermark_model::{GUEST_DISK, GUEST_NIC, LayerRun, Point, Quotient, Target};

use crate::{
    number as text,
    studies::{
        Data,
        rows::{compared, estimate, heading, host_cpu, usable},
    },
    types::{Cell, DataTable, ResultRow},
    words::{
        Words,
        studies::virtual_io::{self as words, StackTable},
    },
};

/// The kind of a layer's devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum IoStack {
    Native,
    Emulated,
    Paravirtual,
}

impl IoStack {
    /// The stack of the device that a point uses: network card or disk, as the layer tells it. `None` for kinds that
    /// the study does not have, and unless each guest has such a device, and all have the same kind.
    pub(super) fn of(layer: &LayerRun, target: Target) -> Option<Self> {
        if layer.spec.is_native() {
            return Some(Self::Native);
        }
        let (near, far) = layer.spec.ends();
        let guests = [near, far].iter().filter(|end| !end.is_native()).count();
        let device = match target {
            Target::Network => GUEST_NIC,
            _ => GUEST_DISK,
        };
        let devices = layer.facts.of_both_ends(device);
        let kinds: Vec<Self> = devices.map(Self::of_device).collect::<Option<_>>()?;
        let alike = kinds.len() == guests && kinds.iter().all(|kind| *kind == kinds[0]);
        alike.then(|| kinds[0])
    }

    fn of_device(name: &str) -> Option<Self> {
        match name {
            "e1000" | "e1000e" | "rtl8139" | "ide" | "ahci" => Some(Self::Emulated),
            "virtio-net" | "virtio-blk" | "virtio-scsi" => Some(Self::Paravirtual),
            _ => None,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Emulated => "emulated",
            Self::Paravirtual => "paravirtual",
        }
    }
}

/// A point that more than one stack has, with its result in each layer.
struct Work<'a> {
    point: &'a Point,
    /// In the order of the columns.
    rows: Vec<Option<(IoStack, &'a ResultRow)>>,
}

/// Tables for one guest or for paths from guest to guest: works as rows, layers as columns, by
/// stack.
pub(super) fn stacks(data: &Data, paths: bool) -> Vec<DataTable> {
    let mut layers: Vec<(IoStack, &LayerRun)> = data
        .run
        .layers
        .iter()
        .filter(|l| !l.control && (l.spec.is_native() || is_path(l) == paths))
        .filter_map(|l| {
            let of = |target| IoStack::of(l, target);
            Some((of(Target::Network).or_else(|| of(Target::Data))?, l))
        })
        .collect();
    layers.sort_by_key(|(stack, _)| *stack);
    let works = data.run.points.iter().map(|point| Work {
        point,
        rows: layers.iter().map(|(_, l)| result(data, l, point)).collect(),
    });
    let works: Vec<Work> = works.filter(Work::has_guests).collect();
    if works.is_empty() {
        return Vec::new();
    }
    let head = layers.iter().map(|(stack, l)| {
        let name = heading(data, &l.name);
        // A guest may have an emulated disk and a paravirtual card.
        let of_disk = IoStack::of(l, Target::Data);
        let one = l.spec.near.is_some() || of_disk == Some(*stack);
        match stack {
            IoStack::Emulated | IoStack::Paravirtual if one => words::head(stack.word(), &name),
            _ => name,
        }
    });
    let head = head.map(String::from);
    let head: Vec<String> = ["work".to_owned()].into_iter().chain(head).collect();
    let table = |of: StackTable, cell: &dyn Fn(&Work, &ResultRow) -> Cell| DataTable {
        title: words::title(of, paths).into(),
        note: words::note(of).into(),
        head: head.clone(),
        rows: works.iter().map(|work| work.line(cell)).collect(),
    };
    let names = data.names();
    let over = |stack| move |work: &Work, row: &ResultRow| work.over(data, row, stack);
    vec![
        table(StackTable::Throughput, &|_, row| {
            Cell::number(text::result_value(row), row.value.unwrap_or(0.0))
        }),
        table(StackTable::Bars, &|work, row| {
            Cell::text(words::bar(row.value.unwrap_or(0.0), work.highest()))
        }),
        table(StackTable::OfEmulated, &over(IoStack::Emulated)),
        table(StackTable::OfNative, &over(IoStack::Native)),
        table(StackTable::HostCpu, &|_, row| {
            let cpu = host_cpu(data, row);
            cpu.map_or_else(Cell::default, |cpu| Cell::number(cpu.words(&names), cpu.us))
        }),
    ]
}

pub(super) fn is_path(layer: &LayerRun) -> bool {
    let near = layer.spec.near.as_ref();
    near.is_some_and(|near| !near.is_native())
}

fn result<'a>(data: &'a Data, layer: &LayerRun, point: &Point) -> Option<(IoStack, &'a ResultRow)> {
    let mut own = data.results.iter().filter(|r| usable(r));
    let row = own.find(|r| r.layer == layer.name && r.label == point.label)?;
    Some((IoStack::of(layer, row.meaning.target)?, row))
}

impl Work<'_> {
    fn has_guests(&self) -> bool {
        let mut all = self.rows.iter().flatten();
        all.any(|(stack, _)| *stack != IoStack::Native)
    }

    fn highest(&self) -> f64 {
        let values = self.rows.iter().flatten().filter_map(|(_, r)| r.value);
        values.fold(0.0, f64::max)
    }

    fn line(&self, cell: &dyn Fn(&Self, &ResultRow) -> Cell) -> Vec<Cell> {
        let of = |row: &Option<(IoStack, &ResultRow)>| {
            row.map_or_else(Cell::default, |(_, row)| cell(self, row))
        };
        let name = Cell::text(&self.point.label);
        [name].into_iter().chain(self.rows.iter().map(of)).collect()
    }

    /// A throughput over that of the first layer of a stack.
    fn over(&self, data: &Data, row: &ResultRow, stack: IoStack) -> Cell {
        let mut others = self.rows.iter().flatten();
        let other = others.find(|(s, _)| *s == stack).map(|(_, other)| *other);
        match other {
            Some(other) if other.id == row.id => Cell::text("1"),
            Some(other) => {
                let found = compared(data, &[(other, row)], &Quotient::Time)
                    .into_iter()
                    .next()
                    .flatten();
                found.map_or_else(Cell::default, |c| {
                    Cell::number(text::share_with(&estimate(&c)), c.ratio)
                })
            }
            None => Cell::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_is_in_the_stack_of_its_device() {
        let stack = |spec: &str, notes: &[(&str, &str)], target| {
            let mut layer = sample_layer();
            layer.spec = spec.parse().unwrap();
            let notes = notes.iter().map(|(k, v)| ((*k).into(), (*v).into()));
            layer.facts.notes = notes.collect();
            IoStack::of(&layer, target)
        };
        let (net, data) = (Target::Network, Target::Data);
        let both = [("disk", "ide"), ("nic", "virtio-net")];
        assert_eq!(stack("native", &[], net), Some(IoStack::Native));
        assert_eq!(stack("vm", &both, net), Some(IoStack::Paravirtual));
        assert_eq!(stack("vm", &both, data), Some(IoStack::Emulated));
        assert_eq!(stack("vm", &[("disk", "nvme")], data), None);
        // A guest that shares a folder has no disk, and a network namespace no card of a guest.
        assert_eq!(stack("vm", &both[1..], data), None);
        assert_eq!(stack("netns", &[("nic_driver", "veth")], net), None);
        for (near, far, expected) in [
            ("e1000", "rtl8139", Some(IoStack::Emulated)),
            ("virtio-net", "virtio-net", Some(IoStack::Paravirtual)),
            ("e1000", "virtio-net", None),
        ] {
            let ends = [("near_nic", near), ("nic", far)];
            assert_eq!(stack("vm..vm", &ends, net), expected);
        }
        assert_eq!(stack("netns..vm", &both, net), None);
        let turned = [("near_nic", "e1000")];
        assert_eq!(stack("vm..native", &turned, net), Some(IoStack::Emulated));
    }

    fn sample_layer() -> LayerRun {
        layermark_testkit::sample::Sample::default()
            .build()
            .0
            .layers[1]
            .clone()
    }
}
