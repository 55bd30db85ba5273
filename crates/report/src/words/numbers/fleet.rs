//! What is said about a fleet.

use layermark_model::{FleetPlace, LostHost};

use super::{Draw, NAMES, check, each, hundred, noise, plain_data};
use crate::{
    facts::machine::{FactValue, MachineFact},
    statements::{
        fleet::{
            CheckAnswer, CurveSays, FleetAnswer, HostDiffers, HostPart, HostSays, HostsUnlike,
        },
        odd::OddAt,
    },
    types::{Estimate, FleetStep, Standings},
    words::Words,
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
                odd,
            };
            let named = answer.odd.len() as f64;
            check(&answer.words(&NAMES), &answer, &[named]);
        }
    });
    for part in [HostPart(Some(&lost)), HostPart(None)] {
        check(&part.words(&NAMES), &part, &[]);
    }
}

fn step(d: &mut Draw) -> FleetStep {
    FleetStep {
        place: FleetPlace::Share,
        hosts: d.count(),
        rounds: d.count(),
        incomplete: 0,
        rate: Some(d.estimate()),
        bytes_per_s: 0.0,
        ratio: None,
        first_done_s: 0.1,
        last_done_s: 0.2,
        start_spread_s: 0.0,
        fairness: 1.0,
        each_us: Vec::new(),
    }
}

#[test]
fn curves_over_hosts() {
    let (place, variants) = variants!(CurveSays<'_>:
        CurveSays::Bent(..), CurveSays::Straight(..), CurveSays::Open(..), CurveSays::FewBlocks(_), CurveSays::NoCurve);
    hundred(|d| {
        let knee = Estimate::new(2.41, Some([2.1, 2.84]));
        let [one, best] = [step(d), step(d)];
        let all = [
            CurveSays::Bent(&knee, &one, &best),
            CurveSays::Straight(&one, &best),
            CurveSays::Open(&knee, &best),
            CurveSays::FewBlocks(d.count()),
            CurveSays::NoCurve,
        ];
        each(plain_data(all), place, variants);
        let answer = FleetAnswer {
            hosts: d.count(),
            lost: d.count(),
            reached: vec![("small read", &knee)],
            not_reached: d.count(),
            unknown: d.count(),
            stopped: true,
        };
        check(&answer.words(&NAMES), &answer, &[]);
    });
}

#[test]
fn what_hosts_have_not_in_common() {
    let (place, variants) = variants!(HostDiffers<'_>:
        HostDiffers::Waited(..), HostDiffers::Steal(..), HostDiffers::Fact(..), HostDiffers::Mount(..));
    let (kind, kinds) = variants!(HostsUnlike<'_>:
        HostsUnlike::Values(..), HostsUnlike::Mounts(_), HostsUnlike::OneMachine(_), HostsUnlike::Clock(..));
    hundred(|d| {
        let cpus = |d: &mut Draw| FactValue::Count(d.n() as u32);
        let all = [
            HostDiffers::Waited(d.share(), d.share()),
            HostDiffers::Steal(d.share(), d.share()),
            HostDiffers::Fact(MachineFact::Cpus, cpus(d), cpus(d)),
            HostDiffers::Mount(["nfs4", "rw,vers=4.2"], ["nfs4", "rw,vers=4.1"]),
        ];
        each(plain_data(all), place, variants);
        let all = [
            HostsUnlike::Values(
                MachineFact::Cpus,
                vec![(cpus(d), vec!["n1"]), (cpus(d), vec!["n2", "n3"])],
            ),
            HostsUnlike::Mounts(vec![
                (["nfs4", "rw"], vec!["n1"]),
                (["ext4", "rw"], vec!["n2"]),
            ]),
            HostsUnlike::OneMachine(vec!["n1", "n2"]),
            HostsUnlike::Clock("n1", -d.x()),
        ];
        each(plain_data(all), kind, kinds);
    });
}
