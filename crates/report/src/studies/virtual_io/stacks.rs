//! The three stacks next to each other: works as rows, layers as columns.

use layermark_model::{LayerRun, Point, Quotient, Spec, Target};

use crate::{
    number as text,
    studies::{
        Data,
        rows::{compared, estimate, heading, host_cpu, usable},
    },
    types::{Cell, DataTable, ResultRow},
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

/// Length of the longest bar, characters.
const BAR: f64 = 12.0;

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
            Stack::Emulated | Stack::Paravirtual if one => format!("{} {name}", stack.word()),
            _ => name,
        }
    });
    let head: Vec<String> = ["work".to_owned()].into_iter().chain(head).collect();
    let place = if paths { "guest to guest" } else { "one guest" };
    let table = |what: &str, note: &str, cell: &dyn Fn(&Work, &ResultRow) -> Cell| DataTable {
        title: format!("The three stacks, {place}: {what}"),
        note: note.into(),
        head: head.clone(),
        rows: works.iter().map(|work| work.line(cell)).collect(),
    };
    let over = |stack| move |work: &Work, row: &ResultRow| work.over(data, row, stack);
    vec![
        table("throughput", "", &|_, row| {
            Cell::number(text::result_value(row), row.value.unwrap_or(0.0))
        }),
        table(
            "bars",
            "The length of a bar is its throughput relative to the highest of the same work.",
            &|work, row| Cell::text(bar(row.value.unwrap_or(0.0), work.highest())),
        ),
        table(
            "throughput, of that of the first emulated",
            "",
            &over(Stack::Emulated),
        ),
        table("throughput, of native's", "", &over(Stack::Native)),
        table(
            "CPU of this host",
            "All of it, QEMU and interrupts included.",
            &|_, row| {
                host_cpu(data, row).map_or_else(Cell::default, |(us, per)| {
                    Cell::number(format!("{} {per}", text::time(us)), us)
                })
            },
        ),
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

/// A bar with a resolution of an eighth of a character.
fn bar(value: f64, most: f64) -> String {
    const EIGHTHS: [&str; 8] = [
        "", "\u{258f}", "\u{258e}", "\u{258d}", "\u{258c}", "\u{258b}", "\u{258a}", "\u{2589}",
    ];
    if most <= 0.0 {
        return String::new();
    }
    let eighths = (8.0 * BAR * value / most).round().max(1.0) as usize;
    format!("{}{}", "\u{2588}".repeat(eighths / 8), EIGHTHS[eighths % 8])
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

    #[test]
    fn a_bar_shows_a_fiftieth() {
        let bars = [100.0, 50.0, 2.0, 0.01].map(|v| bar(v, 100.0));
        let full = "\u{2588}";
        assert_eq!(
            bars,
            [
                full.repeat(12),
                full.repeat(6),
                "\u{258e}".into(),
                "\u{258f}".into()
            ]
        );
        assert_eq!(bar(1.0, 0.0), "");
    }
}
