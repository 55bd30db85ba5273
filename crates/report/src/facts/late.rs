//! Flushes that follow a layer's turns, from rounds in which all layers rest before and after each turn.

use layermark_model::RestedTurn;

use crate::types::LateFlushes;

/// Fewest rested turns. A flush of another program hits one pause by chance, and not four of this layer and
/// none of the others.
const FEWEST_TURNS: usize = 4;
/// Fewest flushes in the pauses after a layer's turns.
const FEWEST: u64 = 8;
/// The most flushes after other layers' turns, in as much time, and in its own turns, as a share of those that
/// come later.
const ELSEWHERE: f64 = 0.1;
const IN_TURNS: f64 = 0.5;

/// The flushes that come after the turns of a layer and of no other. `others` are the rested turns of each
/// other layer on its devices; one that is late itself shows nothing about this one.
pub fn find(own: &[RestedTurn], others: &[Vec<RestedTurn>]) -> Option<LateFlushes> {
    let honest = others.iter().filter(|turns| !each_has_later(turns));
    let honest: Vec<RestedTurn> = honest.flatten().copied().collect();
    let enough = own.len() >= FEWEST_TURNS && honest.len() >= FEWEST_TURNS;
    if !enough || !each_has_later(own) {
        return None;
    }
    let sum = |turns: &[RestedTurn], of: fn(&RestedTurn) -> u64| turns.iter().map(of).sum::<u64>();
    let (in_turns, later) = (sum(own, |t| t.flushes), sum(own, |t| t.later));
    let (theirs, ns) = (sum(&honest, |t| t.later), sum(&honest, |t| t.ns));
    let expected = theirs as f64 / ns.max(1) as f64 * sum(own, |t| t.ns) as f64;
    let follows = later >= FEWEST && expected <= ELSEWHERE * later as f64;
    (follows && in_turns as f64 <= IN_TURNS * later as f64).then_some(LateFlushes {
        turns: own.len(),
        in_turns,
        later,
        within_ms: own[0].ns / 1_000_000,
        other_turns: honest.len(),
        after_others: theirs,
    })
}

fn each_has_later(turns: &[RestedTurn]) -> bool {
    !turns.is_empty() && turns.iter().all(|t| t.later > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(later: [u64; 4], flushes: u64) -> Vec<RestedTurn> {
        let turn = |later| RestedTurn {
            flushes,
            later,
            ns: 300_000_000,
        };
        later.map(turn).into()
    }

    #[test]
    fn flushes_are_late_where_they_follow_this_layers_turns_alone() {
        let (late, native) = (turns([7, 8, 6, 7], 0), turns([0; 4], 9));
        let found = find(&late, std::slice::from_ref(&native)).unwrap();
        assert_eq!((found.in_turns, found.later, found.turns), (0, 28, 4));
        assert_eq!((found.other_turns, found.after_others), (4, 0));
        assert_eq!(
            (found.within_ms, find(&native, std::slice::from_ref(&late))),
            (300, None)
        );
        let two = find(&late, &[late.clone(), native.clone()]);
        assert_eq!(
            two.map(|l| l.other_turns),
            Some(4),
            "another one is late too"
        );
        assert_eq!(
            find(&late, std::slice::from_ref(&late)),
            None,
            "nobody to compare with"
        );
    }

    #[test]
    fn what_other_programs_or_the_layers_own_turns_explain_is_not_late() {
        let native = turns([0; 4], 9);
        let seen = |own: &[RestedTurn], native: &[RestedTurn]| find(own, &[native.to_vec()]);
        let others = turns([7, 0, 5, 6], 9);
        assert_eq!(seen(&turns([7, 8, 6, 7], 0), &others), None, "others flush");
        assert_eq!(seen(&turns([20, 0, 1, 7], 0), &native), None, "not each");
        assert_eq!(seen(&turns([1, 2, 1, 1], 0), &native), None, "few");
        assert_eq!(
            seen(&turns([7, 8, 6, 7], 5), &native),
            None,
            "flushed in turns"
        );
        assert_eq!(seen(&turns([7, 8, 6, 7], 0)[..3], &native), None);
        assert_eq!(find(&[], &[]), None);
    }
}
