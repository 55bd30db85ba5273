//! The three stacks next to each other: works as rows, layers as columns.

use layermark_model::{LayerRun, Point, Quotient, Spec, Target};

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
pub(super) enum Stack {
    Native,
    Emulated,
    Paravirtual,
}

impl Stack {
    /// The stack of the device that a point uses: network card or disk. `None` for kinds that the
    /// study does not have.
    pub(super) fn of(spec: &Spec, target: Target) -> Option<Self> {
        if spec.is_native() {
            return Some(Self::Native);
        }
        let (near, far) = spec.ends();
        let ends: Vec<Self> = [near, far]
            .iter()
            .filter(|end| !end.is_native())
            .map(|end| Self::of_guest(end, target))
            .collect::<Option<_>>()?;
        ends.iter().all(|s| *s == ends[0]).then(|| ends[0])
    }

    fn of_guest(guest: &Spec, target: Target) -> Option<Self> {
        let option = |name: &str| guest.options.get(name).map(String::as_str);
        let device = match target {
            Target::Network => option("nic").unwrap_or("virtio-net"),
            _ => option("disk").unwrap_or("virtio-blk"),
        };
        let on_disk = target == Target::Network || option("share").is_none_or(|s| s == "none");
        match device {
            _ if guest.layer != "vm" || !on_disk => None,
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
    rows: Vec<Option<(Stack, &'a ResultRow)>>,
}

/// Tables for one guest or for paths from guest to guest: works as rows, layers as columns, by
/// stack.
pub(super) fn stacks(data: &Data, paths: bool) -> Vec<DataTable> {
    let mut layers: Vec<(Stack, &LayerRun)> = data
        .run
        .layers
        .iter()
        .filter(|l| !l.control && (l.spec.is_native() || is_path(l) == paths))
        .filter_map(|l| Some((Stack::of(&l.spec, Target::Network)?, l)))
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
        let of_disk = Stack::of(&l.spec, Target::Data);
        let one = l.spec.near.is_some() || of_disk == Some(*stack);
        match stack {
            Stack::Emulated | Stack::Paravirtual if one => words::head(stack.word(), &name),
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
        table(StackTable::OfEmulated, &over(Stack::Emulated)),
        table(StackTable::OfNative, &over(Stack::Native)),
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

fn result<'a>(data: &'a Data, layer: &LayerRun, point: &Point) -> Option<(Stack, &'a ResultRow)> {
    let mut own = data.results.iter().filter(|r| usable(r));
    let row = own.find(|r| r.layer == layer.name && r.label == point.label)?;
    Some((Stack::of(&layer.spec, row.meaning.target)?, row))
}

impl Work<'_> {
    fn has_guests(&self) -> bool {
        let mut all = self.rows.iter().flatten();
        all.any(|(stack, _)| *stack != Stack::Native)
    }

    fn highest(&self) -> f64 {
        let values = self.rows.iter().flatten().filter_map(|(_, r)| r.value);
        values.fold(0.0, f64::max)
    }

    fn line(&self, cell: &dyn Fn(&Self, &ResultRow) -> Cell) -> Vec<Cell> {
        let of = |row: &Option<(Stack, &ResultRow)>| {
            row.map_or_else(Cell::default, |(_, row)| cell(self, row))
        };
        let name = Cell::text(&self.point.label);
        [name].into_iter().chain(self.rows.iter().map(of)).collect()
    }

    /// A throughput over that of the first layer of a stack.
    fn over(&self, data: &Data, row: &ResultRow, stack: Stack) -> Cell {
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
        let stack = |text: &str, target| Stack::of(&text.parse().unwrap(), target);
        let (net, disk) = (Target::Network, Target::Data);
        for (layer, target, expected) in [
            ("native", net, Some(Stack::Native)),
            ("vm:disk=ide,nic=e1000", net, Some(Stack::Emulated)),
            ("vm:disk=ide,nic=virtio-net", net, Some(Stack::Paravirtual)),
            ("vm:disk=ide,nic=virtio-net", disk, Some(Stack::Emulated)),
            ("vm:nic=e1000..vm:nic=rtl8139", net, Some(Stack::Emulated)),
            ("vm:nic=e1000..vm", net, None),
            ("vm..vm", net, Some(Stack::Paravirtual)),
            ("vm:disk=nvme", disk, None),
            ("vm:share=virtiofs", disk, None),
            ("netns", net, None),
        ] {
            assert_eq!(stack(layer, target), expected, "{layer}");
        }
    }
}
