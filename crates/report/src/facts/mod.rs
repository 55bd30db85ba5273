//! Facts: from trials to rows. What was measured, whether it can be trusted, its causes, and
//! what follows. Independent of output formats.

pub mod alternatives;
pub mod causes;
pub mod cost;
pub mod data_source;
pub mod durability;
pub mod estimate_checks;
pub mod external;
pub mod figures;
pub mod fleet;
pub mod forecast;
pub mod imports;
pub mod index;
pub mod iops;
pub mod judged;
pub mod kinds;
pub mod late;
pub mod latency;
pub mod launch;
pub mod limits;
pub mod locks;
pub mod machine;
pub mod numbers;
pub mod others;
pub mod own_numbers;
pub mod power_cuts;
pub mod recommend;
pub mod results;
pub mod safe;
pub mod scaling;
pub mod settings;
pub mod site;
pub mod size_table;
pub mod stalls;
pub mod storage;
pub mod sustained;
pub mod sweep;
pub mod threads;
pub mod waiting;

/// Level of every interval.
pub const LEVEL: f64 = 0.95;
