//! The points that are due in a block, and their order.

use std::collections::BTreeMap;

use layermark_model::BASELINE;

use crate::{
    decide::budget::Due,
    execute::{fixed::Fixed, progress::Progress},
};

impl Progress {
    /// Points of this block in schedule order, with the layers that still need each one, in the
    /// order of their turns. The baseline is included while any other layer is.
    pub(crate) fn due(&self, fixed: &Fixed<'_>) -> Vec<Due> {
        let compared = self.compared();
        let mut all = Vec::new();
        for point in self.points(fixed) {
            let needs =
                |layer: usize| self.can(layer, point) && !self.stopping.is_done(layer, point);
            let needed: Vec<usize> = compared.clone().filter(|l| needs(*l)).collect();
            if needed.is_empty() || !self.can(BASELINE, point) {
                continue;
            }
            let turns = fixed.schedule.turns(self.block, point);
            let layers = turns
                .into_iter()
                .filter(|l| *l == BASELINE || needed.contains(l))
                .collect();
            let width = |l: &usize| {
                self.stopping
                    .known(*l, point)
                    .half_width
                    .unwrap_or(f64::INFINITY)
            };
            let width = needed.iter().map(width).fold(0.0, f64::max);
            all.push(Due {
                point,
                layers,
                width,
            });
        }
        all
    }

    /// Points in schedule order. Points that use the same kept file come right after the first of
    /// them.
    fn points(&self, fixed: &Fixed<'_>) -> Vec<usize> {
        let mut first = BTreeMap::new();
        let drawn = fixed.schedule.points(self.block).into_iter().enumerate();
        let mut order: Vec<(usize, usize)> = drawn
            .map(|(place, point)| match fixed.kept_files[point] {
                Some(kept) => (*first.entry(kept).or_insert(place), point),
                None => (place, point),
            })
            .collect();
        order.sort_by_key(|(place, _)| *place);
        order.into_iter().map(|(_, point)| point).collect()
    }
}
