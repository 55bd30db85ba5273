//! The terms of `docs/src/method.md` as types. No I/O happens here.
//!
//! A *plan* names *layers* and *work*, and work expands to *points*. A *trial* is one point
//! measured once in one layer. A *run* is all trials of one plan on one machine.

mod brief;
pub mod calls;
mod claim;
mod defect;
mod facts;
mod figure;
pub mod flags;
mod fleet;
mod gate;
mod hex;
mod import;
mod iozone;
mod machine;
mod meaning;
mod near;
mod needs;
mod pair;
mod plain;
mod plan;
mod point;
pub mod protocol;
mod random;
mod reach;
mod run;
mod size;
mod spec;
mod stopped;
mod store_option;
mod trial;
mod warmth;
pub mod witness;
mod words;

pub use brief::{IT_SAID, brief};
pub use claim::{Claim, Layers, Predicate, Quotient, Relation, Share, Words};
pub use defect::Defect;
pub use facts::{
    BELOW_OVERLAY, CLIENTS, CONTAINER, CpuTime, DELAY_UNKNOWN, Device, DroppedCaches, ENCRYPTION,
    FRESHER, Facts, GUEST_DISK, GUEST_NIC, GuestFacts, KEPT_IN_MEMORY, Limit, Limited, Missing,
    Mount, NEAR, SECCOMP_FILTERS,
};
pub use figure::{
    Amount, Figure, FigureNote, FigureSource, FigureTable, FigureUnit, FigureValue, FigureValues,
    NoteWhen,
};
pub use fleet::{
    FleetHost, FleetLayer, FleetOfRun, FleetPlace, FleetRound, FleetRun, FleetTurn, HostOfTrial,
    LostHost,
};
pub use gate::{Gate, GateError};
pub use hex::hex;
pub use import::{Import, ImportedPoint, mix_name};
pub use iozone::{IOZONE_TESTS, IozoneStep, IozoneTable, IozoneTest, iozone_tables};
pub use machine::Machine;
pub use meaning::{
    AddedTime, Axis, CacheState, Direction, Divided, Meaning, Part, Quantity, Target, TurnCost,
    Unit, WorkGroup,
};
pub use near::nearest;
pub use needs::{HostFiles, NearEnd, Needs, PackagedFile, PackagedTree, Pattern};
pub use pair::{ClockTime, Cost, Ledger, Site};
pub use plain::plain;
pub use plan::{
    MOST_TEXT, Plan, PlanCuts, PlanError, PlanSequences, Profile, Settings, StudyId, is_like_fio,
};
pub use point::{
    CPUS, Environment, ONE_DIRECTORY, ONE_PACKAGE, Param, ParamKind, Point, PointError, TOGETHER,
    WrongParam,
};
pub use random::{random, random_name, try_random};
pub use reach::{Reach, Reached};
pub use run::{BASELINE, Cell, Cut, LayerRun, LayerStatus, Run, RunStatus, Sustained, TrialRecord};
pub use size::{
    SizeError, binary_size, format_milliseconds, format_size, parse_counts, parse_duration,
    parse_milliseconds, parse_size, parse_sizes,
};
pub use spec::{LABEL, LAYERS, Spec, SpecError, layers_command, split_layer, two_layers};
pub use stopped::Stopped;
pub use store_option::StoreOption;
pub use trial::{
    CpuUse, Debt, DeviceBackground, DeviceBytes, DirectIo, Faults, ForeignWrites, Latency, Pass,
    Priority, Restarted, RestedTurn, SelfTest, ThreadRates, Throttled, Trial, Turn, Untraced,
    Verified, Waiting,
};
pub use warmth::Warmth;

/// Write size for packaged files, bytes, in every layer that is filled by writing: about that of
/// cp(1). Larger writes make larger pages in the page cache, and such a file reads up to a tenth
/// faster.
pub const PACKAGED_AT_ONCE: usize = 64 << 10;
