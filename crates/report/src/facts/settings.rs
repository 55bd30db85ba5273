//! Causes that are settings of the mounts and devices below a layer: mount options, read-ahead, compression, encryption.
//! Each is in the facts of one side and not of the other, and its cost is one of the work at hand.

use layermark_model::{Direction, ENCRYPTION, Facts, Meaning, Quantity, Target, TurnCost, Unit};

use crate::{
    facts::storage,
    types::{ResultRow, ServedBy, Setting, Sides},
};

/// Upper bound of what it costs to change a time of access, microseconds: the inode becomes dirty, and a journal takes note.
const ACCESS_TIME_MOST: f64 = 20.0;
/// Read-aheads that differ by less are not a cause.
const READ_AHEAD_FACTOR: u64 = 2;

impl Setting {
    /// Whether a layer with these facts has the setting, too.
    pub fn is_of(&self, facts: &Facts) -> bool {
        match self {
            Self::MountOption("strictatime", _) => storage::strict_atime(facts).is_some(),
            Self::MountOption(option, _) => storage::mounted(facts, option).is_some(),
            Self::ReadAhead(sides) => facts.read_ahead_kb.is_some_and(|kb| kb <= sides.here),
            Self::Decompresses(with) | Self::Compresses(with) => {
                storage::compression(facts) == Some(with)
            }
            Self::Encrypts(with) => facts.notes.get(ENCRYPTION) == Some(with),
        }
    }
}

/// One side of a comparison: the one that may have the setting.
pub struct Having<'a> {
    /// Its facts.
    pub facts: &'a Facts,
    /// Its result.
    pub row: &'a ResultRow,
    /// The facts of the side without it.
    pub without: &'a Facts,
}

/// Mount options that make a write or a change wait, or write more.
pub fn mount_options(of: &Having) -> Vec<Setting> {
    let own = |option: &str| {
        storage::mounted(of.facts, option)
            .filter(|_| storage::mounted(of.without, option).is_none())
    };
    let costs = [
        ("sync", waits_for_sync(&of.row.meaning)),
        ("dirsync", changes_names(&of.row.meaning)),
        ("discard", changes_names(&of.row.meaning)),
    ];
    let named = costs.into_iter().filter(|(_, costs)| *costs);
    let mut found: Vec<Setting> = named
        .filter_map(|(option, _)| Some(Setting::MountOption(option, own(option)?)))
        .collect();
    let strict =
        storage::strict_atime(of.facts).filter(|_| storage::strict_atime(of.without).is_none());
    let extra = of.row.extra_us.map_or(f64::MAX, |e| e.estimate.abs());
    if let Some(at) = strict.filter(|_| opens_many(&of.row.meaning) && extra < ACCESS_TIME_MOST) {
        found.push(Setting::MountOption("strictatime", at));
    }
    found
}

/// Without `sync` the writes would be in memory. Those that flush each record wait anyway.
fn waits_for_sync(meaning: &Meaning) -> bool {
    let each = matches!(meaning.sync.as_deref(), Some("each" | "osync" | "odsync"));
    let writes = matches!(meaning.direction, Direction::Writes | Direction::Both);
    (writes || changes_names(meaning)) && !each
}

/// Files are made, removed, renamed or changed by name.
fn changes_names(meaning: &Meaning) -> bool {
    let makes = meaning.divided.is_some_and(|d| d.cost == TurnCost::Files);
    meaning.changes && (meaning.target == Target::Names || makes)
}

/// It reads another file in each operation. Of one file, the time of access changes once in a tick of the clock.
fn opens_many(meaning: &Meaning) -> bool {
    let one_file = meaning.value(Quantity::DataSize).is_some();
    let reads = meaning.target == Target::Data && meaning.direction == Direction::Reads;
    reads && meaning.unit == Unit::Operation && !one_file
}

/// The kernel reads ahead clearly less, or more, than in the baseline.
pub fn read_ahead(here: &Having, less: bool) -> Option<Setting> {
    let sides = Sides {
        here: here.facts.read_ahead_kb?,
        native: here.without.read_ahead_kb?,
    };
    let (small, large) = if less {
        (sides.here, sides.native)
    } else {
        (sides.native, sides.here)
    };
    let meaning = &here.row.meaning;
    let in_order =
        meaning.in_order && meaning.direction != Direction::Writes && !meaning.is_direct();
    let programs = meaning.runs_programs() && meaning.is_cold();
    let from_memory = matches!(
        here.row.served_by,
        Some(ServedBy::HostMemory | ServedBy::GuestMemory)
    );
    let applies = (in_order || programs) && !from_memory;
    (applies && large >= READ_AHEAD_FACTOR * small && large > small)
        .then_some(Setting::ReadAhead(sides))
}

/// The data is compressed on its way, and the operation waits for that.
pub fn compresses(of: &Having) -> Option<Setting> {
    let with =
        storage::compression(of.facts).filter(|_| storage::compression(of.without).is_none())?;
    let meaning = &of.row.meaning;
    let flushed = meaning.direction == Direction::Writes && meaning.flushes;
    let fetched = meaning.direction == Direction::Reads
        && matches!(of.row.served_by, Some(ServedBy::Device | ServedBy::Mixed));
    match (fetched, flushed) {
        (true, _) => Some(Setting::Decompresses(with.into())),
        (_, true) => Some(Setting::Compresses(with.into())),
        _ => None,
    }
}

/// The data is encrypted on its way.
pub fn encrypts(of: &Having) -> Option<Setting> {
    let with = of.facts.notes.get(ENCRYPTION)?;
    if of.without.notes.contains_key(ENCRYPTION) {
        return None;
    }
    let meaning = &of.row.meaning;
    let moves = meaning.direction != Direction::Neither
        || meaning.value(Quantity::RequestSize).is_some()
        || meaning.runs_programs();
    // What the page cache has is not encrypted.
    let from_memory = meaning.direction == Direction::Reads
        && matches!(
            of.row.served_by,
            Some(ServedBy::HostMemory | ServedBy::GuestMemory)
        );
    (moves && !from_memory).then(|| Setting::Encrypts(with.clone()))
}
