//! What is said about a fleet.

use layermark_model::{LostHost, RunStatus};

use super::{Draw, NAMES, check, each, hundred, noise, plain_data};
use crate::{
    facts::machine::{FactValue, MachineFact},
    statements::{
        fleet::{
            CheckAnswer, CurveSays, FleetAnswer, HostDiffers, HostPart, HostSays, HostsUnlike,
            NothingAt,
        },
        odd::OddAt,
    },
    types::{Estimate, Standings},
    words::{Words, fleet::tests::step},
};

fn lost() -> LostHost {
    LostHost {
        during: "it had its turn".into(),
        why: "its launcher ended (exit status: 1)".into(),
    }
}

#[test]
fn hosts_of_a_check() {
    let (place, variants) = variants!(HostSays<'_>:
        HostSays::Like(_), HostSays::Odd(..), HostSays::CannotTell(_), HostSays::Lacks(..), HostSays::Lost(_), HostSays::Nothing);
    let lost = lost();
    hundred(|d| {
        let ratio = d.estimate();
        let at = OddAt {
            layer: "fuse",
            point: "small read",
            ratio: &ratio,
        };
        let (odd, like, unknown) = (d.count(), d.count(), d.count());
        let open = Standings {
            like,
            unknown,
            ..Standings::default()
        };
        let of_odd = [noise(&ratio), vec![ratio.estimate - 1.0, (odd - 1) as f64]].concat();
        let all = vec![
            (HostSays::Like(d.count()), Vec::new()),
            (HostSays::Odd(at, odd, d.count()), of_odd),
            (HostSays::CannotTell(open), vec![(like + unknown) as f64]),
            (HostSays::Lacks(d.count(), d.count()), Vec::new()),
            (HostSays::Lost(&lost), Vec::new()),
            (HostSays::Nothing, Vec::new()),
        ];
        each(all, place, variants);
        for odd in [vec![], vec!["n1"], vec!["n1", "n2"]] {
            let answer = CheckAnswer {
                hosts: d.count(),
                lost: vec!["n3"],
                like: d.count(),
                compared: d.n() % 4 > 0,
                nothing: d.count(),
                odd,
            };
            let named = answer.odd.len() as f64;
            check(&answer.words(&NAMES), &answer, &[named]);
        }
        for reasons in 0..6_u8 {
            let error = |_| ("No space left on device", d.count());
            let nothing = NothingAt {
                layer: "fuse",
                point: "small read",
                errors: (0..reasons).map(error).collect(),
            };
            check(
                &nothing.words(&NAMES),
                &nothing,
                &[f64::from(reasons) - 3.0],
            );
        }
    });
    let until = [
        RunStatus::Running,
        RunStatus::Done,
        RunStatus::Stopped,
        RunStatus::Failed,
        RunStatus::Interrupted,
    ];
    let parts = until.map(HostPart::Until).into_iter();
    for part in parts.chain([HostPart::Lost(&lost)]) {
        check(&part.words(&NAMES), &part, &[]);
    }
}

#[test]
fn curves_over_hosts() {
    let (place, variants) = variants!(CurveSays<'_>:
        CurveSays::Bent(..), CurveSays::Straight(..), CurveSays::Open(..), CurveSays::NotAtOnce(_), CurveSays::FewBlocks(_), CurveSays::NoWholeRound(_), CurveSays::NoCurve);
    hundred(|d| {
        let knee = Estimate::new(2.41, Some([2.1, 2.84]));
        let [one, best] = [step(d.count(), d.x()), step(d.count(), d.x())];
        let apart = crate::types::FleetStep {
            start_spread_s: d.share(),
            turn_s: d.share(),
            at_once: Some(false),
            ..step(d.count(), d.x())
        };
        let all = [
            CurveSays::Bent(&knee, &one, &best),
            CurveSays::Straight(&one, &best),
            CurveSays::Open(&knee, &best),
            CurveSays::NotAtOnce(&apart),
            CurveSays::FewBlocks(d.count()),
            CurveSays::NoWholeRound(&best),
            CurveSays::NoCurve,
        ];
        each(plain_data(all), place, variants);
        let answer = FleetAnswer {
            lost: d.count(),
            reached: vec![("small read", &knee)],
            not_reached: vec![(d.count(), d.count()), (d.count(), d.count())],
            unknown: d.count(),
            status: RunStatus::Stopped,
        };
        check(&answer.words(&NAMES), &answer, &[]);
    });
}

#[test]
fn what_hosts_have_not_in_common() {
    let (place, variants) = variants!(HostDiffers<'_>:
        HostDiffers::Waited(..), HostDiffers::Steal(..), HostDiffers::Fact(..), HostDiffers::Mount(..));
    let (kind, kinds) = variants!(HostsUnlike<'_>:
        HostsUnlike::Values(..), HostsUnlike::Mounts(_), HostsUnlike::OneMachine(_), HostsUnlike::Clock(..), HostsUnlike::Drift(..));
    let mount = |options: &str| ["nfs4".to_owned(), options.to_owned()];
    hundred(|d| {
        let cpus = |d: &mut Draw| FactValue::Count(d.n() as u32);
        let all = [
            HostDiffers::Waited(d.share(), d.share()),
            HostDiffers::Steal(d.share(), d.share()),
            HostDiffers::Fact(MachineFact::Cpus, cpus(d), cpus(d)),
            HostDiffers::Mount(mount("rw,vers=4.2"), mount("rw,vers=4.1")),
        ];
        each(plain_data(all), place, variants);
        let all = [
            HostsUnlike::Values(
                MachineFact::Cpus,
                vec![(cpus(d), vec!["n1"]), (cpus(d), vec!["n2", "n3"])],
            ),
            HostsUnlike::Mounts(vec![(mount("rw"), vec!["n1"]), (mount("ro"), vec!["n2"])]),
            HostsUnlike::OneMachine(vec!["n1", "n2"]),
            HostsUnlike::Clock("n1", -d.x()),
            HostsUnlike::Drift("n1", d.share()),
        ];
        each(plain_data(all), kind, kinds);
    });
}
