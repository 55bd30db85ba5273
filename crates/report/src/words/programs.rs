//! What a program lost in power cuts.

use layermark_model::witness::{LossExtent, ProgramCut};

use crate::{
    number::{count, list, time},
    statements::programs::{Blame, Open, ProgramAnswer},
    words::{Names, Text, Words, lists, text},
};

/// Which items were lost, and after how many cuts.
pub fn orders(of: &ProgramCut) -> Text {
    let orders = of.orders.iter().map(|(order, cuts)| {
        let cuts = count(*cuts as usize, "cut");
        text!("{} ({cuts})", order.words())
    });
    Text::joined(orders, "; ")
}

impl Words for ProgramAnswer<'_> {
    fn words(&self, _: &Names) -> Text {
        let program = Text::code(self.program);
        let mut parts = Vec::new();
        if !self.lost.is_empty() {
            let alike = |a: &&ProgramCut, b: &&ProgramCut| LossExtent::of(a) == LossExtent::of(b);
            let losses = self.lost.chunk_by(alike).map(|cuts| {
                let layers = match cuts.len() {
                    n if n == self.layers() && n > 1 => "every layer".into(),
                    _ => named(cuts),
                };
                text!("{} in {layers}", extent(cuts[0]))
            });
            let losses: Vec<Text> = losses.collect();
            let whose = self.blame.map(Blame::said).unwrap_or_default();
            parts.push(text!("{program} loses {}{whose}", list(&losses)));
        }
        if !self.kept.is_empty() {
            let fewest = |of: fn(&ProgramCut) -> u64| self.kept.iter().map(|c| of(c)).min();
            let [items, cuts] = [fewest(|c| c.items), fewest(|c| c.cuts)];
            let each = if self.kept.len() > 1 {
                " each at least"
            } else {
                ""
            };
            let kept = text!(
                "{} ({} and {}{each})",
                named(&self.kept),
                count(items.unwrap_or(0) as usize, "item"),
                count(cuts.unwrap_or(0) as usize, "cut")
            );
            parts.push(if self.lost.is_empty() {
                text!("{program} kept all that it acknowledged in {kept}")
            } else {
                text!("it kept all in {kept}")
            });
        }
        for (cut, open) in &self.open {
            let layer = Text::code(&cut.layer);
            let why = open.said();
            parts.push(if parts.is_empty() {
                text!("what {program} keeps in {layer} is not proved: {why}")
            } else {
                text!("not proved in {layer}: {why}")
            });
        }
        Text::joined(parts, "; ")
    }
}

fn named(cuts: &[&ProgramCut]) -> Text {
    let names: Vec<&str> = cuts.iter().map(|c| c.layer.as_str()).collect();
    lists::layers(&names)
}

/// How much of what a program acknowledged is lost at most.
fn extent(cut: &ProgramCut) -> Text {
    let torn = if cut.torn > 0 {
        ", some of them damaged"
    } else {
        ""
    };
    let items = count(cut.most_lost as usize, "item");
    match LossExtent::of(cut) {
        LossExtent::All => text!("all of {items} that it acknowledged{torn}"),
        LossExtent::Scattered => {
            text!("items here and there, and keeps others between them (at most {items}{torn})")
        }
        LossExtent::Gap => text!("earlier items, and keeps later ones (at most {items}{torn})"),
        LossExtent::Last => "the last item that it acknowledged".into(),
        LossExtent::Time => {
            let window = time(cut.window_ns as f64 / 1e3);
            text!("up to {window} of what it acknowledged (at most {items}{torn})")
        }
    }
}

impl Blame {
    fn said(self) -> Text {
        match self {
            Self::Promised => ", which it does not promise to keep".into(),
            Self::Killed(n) => text!(
                ": natively {} missing when only the program had been killed, so it acknowledges before it writes, or its check is wrong",
                count(n as usize, "item")
            ),
            Self::Program => {
                ": natively too, so the program does not flush what it acknowledges".into()
            }
            Self::Layers => ", and natively none".into(),
            Self::NotKnown => "; what it loses natively is not known".into(),
        }
    }
}

impl Open<'_> {
    fn said(&self) -> Text {
        match self {
            Self::NotCut(why) => text!("{why}"),
            Self::Stopped => "the run was stopped before a cut".into(),
            Self::NotSeen {
                unrecovered,
                unchecked,
                unjudged,
                why,
            } => {
                let unrecovered = (*unrecovered > 0).then(|| {
                    let cuts = count(*unrecovered as usize, "cut");
                    text!("it could not be set up again after {cuts}")
                });
                let unchecked = (*unchecked > 0).then(|| {
                    let cuts = count(*unchecked as usize, "cut");
                    text!("the check failed after {cuts}")
                });
                let unjudged = (*unjudged > 0).then(|| {
                    let are = if *unjudged == 1 { "is" } else { "are" };
                    let cuts = count(*unjudged as usize, "cut");
                    text!("{cuts} {are} not judged, because of an error that may be this machine's")
                });
                let parts = unrecovered.into_iter().chain(unchecked).chain(unjudged);
                text!("{} ({why})", Text::joined(parts, ", and "))
            }
            Self::Blind => "the check finds nothing missing in an empty directory".into(),
            Self::LiarLostNothing(liar) => {
                text!(
                    "it lost nothing in {} either, which is known to lie",
                    Text::code(liar)
                )
            }
            Self::NoLiar => "no power was cut under it in a layer that is known to lie".into(),
            Self::Ahead(ahead, items) => text!(
                "{ahead} of {} were read late, since it acknowledges faster than they are read, or the machine is busy",
                count(*items as usize, "item")
            ),
            Self::Partly(n) => text!("after {} nobody could look", count(*n as usize, "cut")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use layermark_model::witness::{LossOrder, Promise, WitnessControl};
    use layermark_testkit::sample::unseen;

    use super::*;
    use crate::{statements::programs::answers, words::said};

    fn cut(layer: &str, control: Option<WitnessControl>) -> ProgramCut {
        ProgramCut {
            layer: layer.into(),
            program: "redis everysec".into(),
            control,
            items: 4000,
            cuts: 38,
            ..ProgramCut::default()
        }
    }

    fn losing(cut: ProgramCut, most: u64, window_ms: u64) -> ProgramCut {
        ProgramCut {
            losing: 12,
            most_lost: most,
            most_of: 4000,
            window_ns: window_ms * 1_000_000,
            orders: BTreeMap::from([(LossOrder::Tail, 12)]),
            ..cut
        }
    }

    #[test]
    fn what_is_lost_and_where_is_one_sentence() {
        let careless = |c: ProgramCut| ProgramCut {
            promises: Promise::Nothing,
            ..c
        };
        let native = losing(cut("native", Some(WitnessControl::Honest)), 812, 1012);
        let upper = losing(cut("overlay:upper", None), 700, 900);
        let all = [native.clone(), upper.clone()].map(careless);
        assert_eq!(
            said(&answers(&all)[0]),
            "`redis everysec` loses up to 1.01 s of what it acknowledged (at most 812 items) in every layer, which it \
             does not promise to keep"
        );
        let broken = [native, upper.clone()];
        let told = said(&answers(&broken)[0]);
        assert!(
            told.ends_with(
                "in every layer: natively too, so the program does not flush what it acknowledges"
            ),
            "{told}"
        );
        let honest = cut("native", Some(WitnessControl::Honest));
        let volatile = losing(
            cut("overlay:volatile", Some(WitnessControl::Liar)),
            4000,
            3000,
        );
        let named = ProgramCut {
            named: true,
            ..volatile
        };
        let all = [honest.clone(), named.clone(), cut("loop:xfs", None)];
        assert_eq!(
            said(&answers(&all)[0]),
            "`redis everysec` loses all of 4000 items that it acknowledged in `overlay:volatile`, and natively none; it \
             kept all in `native` and `loop:xfs` (4000 items and 38 cuts each at least)"
        );
        // Each extent has its own layers.
        let last = |layer: &str| {
            let cut = losing(cut(layer, None), 1, 0);
            ProgramCut { named: true, ..cut }
        };
        let all = [last("loop:xfs"), named, last("overlay:upper")];
        assert_eq!(
            said(&answers(&all)[0]),
            "`redis everysec` loses all of 4000 items that it acknowledged in `overlay:volatile` and the last item that \
             it acknowledged in `loop:xfs` and `overlay:upper`; what it loses natively is not known"
        );
        let gaps = |order| ProgramCut {
            orders: BTreeMap::from([(LossOrder::Tail, 3), (order, 1)]),
            torn: 3,
            ..upper.clone()
        };
        let liar = losing(
            cut("overlay:volatile", Some(WitnessControl::Liar)),
            4000,
            3000,
        );
        for (order, words) in [
            (LossOrder::Gap, "earlier items, and keeps later ones"),
            (
                LossOrder::Scattered,
                "items here and there, and keeps others between them",
            ),
        ] {
            let all = [honest.clone(), gaps(order), liar.clone()];
            assert_eq!(
                said(&answers(&all)[0]),
                format!(
                    "`redis everysec` loses {words} (at most 700 items, some of them damaged) in `overlay:upper`, and \
                     natively none; it kept all in `native` (4000 items and 38 cuts)"
                )
            );
        }
    }

    #[test]
    fn what_is_not_proved_has_its_reason() {
        let uncut = ProgramCut {
            cuts: 0,
            uncut: Some("a guest has no programs".into()),
            ..cut("vm", None)
        };
        let blind = ProgramCut {
            blind: true,
            ..cut("fuse", None)
        };
        let unjudged = ProgramCut {
            cuts: 0,
            unseen: unseen((0, ""), (8, "no loop device")),
            ..cut("loop:xfs", None)
        };
        let told = said(&answers(&[unjudged])[0]);
        assert!(
            told.ends_with(": 8 cuts are not judged, because of an error that may be this machine's (no loop device)"),
            "{told}"
        );
        let all = [uncut, blind];
        assert_eq!(
            said(&answers(&all)[0]),
            "what `redis everysec` keeps in `vm` is not proved: a guest has no programs; not proved in `fuse`: the check \
             finds nothing missing in an empty directory"
        );
    }
}
