use super::*;

/// Passes of `ops` operations of `us` microseconds each.
struct Script {
    context: Context,
    rules: Passes,
    ops: u64,
    op_ns: u64,
    at: u64,
    always_leads_in: bool,
    /// Operations of a pass after which it may rest.
    first: u64,
    /// The calls it received.
    asked: Vec<&'static str>,
}

impl Script {
    fn new(ops: u64, op_us: u64) -> Self {
        Self {
            context: Context::least(),
            rules: Passes::default(),
            ops,
            op_ns: op_us * 1000,
            at: 0,
            always_leads_in: false,
            first: 0,
            asked: Vec::new(),
        }
    }
}

impl Repeat for Script {
    fn context(&self) -> &Context {
        &self.context
    }
    fn passes(&self) -> Passes {
        self.rules
    }
    fn look(&mut self) -> Result<Option<f64>, ProbeError> {
        self.asked.push("look");
        Ok(Some(0.5))
    }
    fn always_leads_in(&self) -> bool {
        self.always_leads_in
    }
    fn may_rest(&self) -> bool {
        self.at >= self.first
    }
    fn renew(&mut self, _: &mut dyn FnMut(u64)) -> Result<(), ProbeError> {
        self.asked.push("renew");
        self.at = 0;
        Ok(())
    }
    fn go(&mut self, extent: Extent, beat: &mut dyn FnMut(u64)) -> Result<Stretch, ProbeError> {
        let (limit_ns, word) = match extent {
            Extent { ns, .. } if extent.is_pass() => (ns, "pass"),
            Extent {
                ns, counted: true, ..
            } => (ns, "turn"),
            Extent { ns, .. } => (ns, "lead-in"),
        };
        self.asked.push(word);
        let ops = limit_ns.div_ceil(self.op_ns).min(self.ops - self.at);
        self.at += ops;
        beat(ops);
        Ok(Stretch {
            elapsed_ns: ops * self.op_ns,
            ops,
            bytes: ops * 10,
            syncs: ops,
            over: self.at == self.ops,
            ..Stretch::default()
        })
    }
    fn settle(&mut self, _: &mut Trial, _: Mark) -> Result<(), ProbeError> {
        Ok(())
    }
    fn end(&mut self, _: &mut Trial) -> Result<(), ProbeError> {
        Ok(())
    }
}

fn turn(work: &mut Repeated<Script>, trial: &mut Trial, round: u32) -> Turned {
    let ask = TurnRequest {
        round,
        ns: 1_000_000,
        lead_in_ns: 100_000,
    };
    work.turn(&ask, trial, &mut |_, _| {}).unwrap()
}

#[test]
fn a_turn_goes_on_over_passes_and_begins_none_for_its_last_tenth() {
    // A pass is 600 us: one and two thirds make a turn.
    let mut work = Repeated::new(Script::new(12, 50));
    let mut trial = Trial::default();
    let first = turn(&mut work, &mut trial, 0);
    let asked = ["look", "renew", "lead-in", "turn", "renew", "turn"];
    assert_eq!(work.work.asked, asked);
    assert_eq!((first.turn.ops, first.turn.elapsed_ns), (20, 1_000_000));
    assert_eq!(first.uncounted_ns, 100_000);
    assert!(first.more && trial.resident == Some(0.5));
    // 100 us of the second pass are left, and are the lead-in.
    work.work.asked.clear();
    let second = turn(&mut work, &mut trial, 4);
    assert_eq!(
        work.work.asked,
        ["lead-in", "renew", "turn", "renew", "turn"]
    );
    assert_eq!((second.turn.round, trial.turns.len()), (4, 2));
    assert_eq!((trial.ops(), trial.syncs, trial.bytes()), (40, 40, 400));
    // A pass of 950 us leaves less than a tenth.
    let mut work = Repeated::new(Script::new(19, 50));
    work.begun = true;
    let ask = TurnRequest {
        round: 0,
        ns: 1_000_000,
        lead_in_ns: 0,
    };
    let whole = work.turn(&ask, &mut Trial::default(), &mut |_, _| {});
    assert_eq!(whole.unwrap().turn.ops, 19);
}

#[test]
fn a_turn_goes_on_until_the_work_may_rest_and_not_forever() {
    let ops_in_turns = |first| {
        let mut work = Repeated::new(Script::new(1000, 50));
        work.work.first = first;
        [0, 1].map(|round| turn(&mut work, &mut Trial::default(), round).turn.ops)
    };
    // Two operations are the lead-in, and 20 are a turn.
    assert_eq!(ops_in_turns(22), [20, 20]);
    assert_eq!(ops_in_turns(30), [28, 20]);
    assert_eq!(ops_in_turns(1000), [200, 200]);
}

#[test]
fn a_lead_in_gives_signs_of_life_and_counts_nothing() {
    let mut work = Repeated::new(Script::new(1000, 50));
    let ask = TurnRequest {
        round: 0,
        ns: 1_000_000,
        lead_in_ns: 100_000,
    };
    let mut beats = Vec::new();
    let turned = work.turn(&ask, &mut Trial::default(), &mut |ops, _| beats.push(ops));
    assert_eq!(turned.unwrap().turn.ops, 20);
    assert_eq!(beats, [0, 20], "the lead-in's, and the turn's");
}

#[test]
fn long_operations_and_whole_passes_have_no_lead_in() {
    let mut work = Repeated::new(Script::new(1000, 5000));
    let mut trial = Trial::default();
    for round in 0..3 {
        assert_eq!(turn(&mut work, &mut trial, round).turn.ops, 1);
    }
    assert_eq!(
        work.work.asked,
        ["look", "renew", "lead-in", "turn", "turn", "turn"]
    );
    let mut script = Script::new(1000, 5000);
    script.always_leads_in = true;
    let mut work = Repeated::new(script);
    for round in 0..2 {
        turn(&mut work, &mut trial, round);
    }
    let asked = ["look", "renew", "lead-in", "turn", "lead-in", "turn"];
    assert_eq!(work.work.asked, asked);
    let mut script = Script::new(1000, 1);
    script.rules.whole = true;
    let mut work = Repeated::new(script);
    turn(&mut work, &mut trial, 9);
    assert!(
        !work.work.asked.contains(&"lead-in"),
        "{:?}",
        work.work.asked
    );
}

#[test]
fn what_is_done_once_is_through_and_leaves_no_empty_turn() {
    let mut script = Script::new(30, 50);
    script.rules.most = 1;
    let mut work = Repeated::new(script);
    let mut trial = Trial::default();
    assert!(turn(&mut work, &mut trial, 0).more);
    let last = turn(&mut work, &mut trial, 1);
    assert!(!last.more && last.turn.ops > 0, "{last:?}");
    assert_eq!(turn(&mut work, &mut trial, 2).turn.ops, 0);
    assert_eq!(trial.turns.len(), 2);
}

#[test]
fn the_edges_of_a_turn_are_read_in_microseconds() {
    let devices = std::fs::read_dir("/sys/dev/block").map_or_else(
        |_| Vec::new(),
        |all| {
            let names = all.flatten().map(|e| e.file_name().into_string().unwrap());
            names.take(1).collect()
        },
    );
    let devices = Devices::open(&devices);
    // The best of many, because a busy machine may interrupt it for long.
    let took = (0..200).map(|_| {
        let start = monotonic_ns();
        std::hint::black_box(Edge::read(&devices));
        monotonic_ns() - start
    });
    let best = took.min().unwrap();
    assert!(best <= 20_000, "{best} ns");
}
