//! The meaning of a point of `launch`.

use layermark_model::{CacheState, Meaning, PointError, Target, Unit};

use super::params::{LaunchCache, LaunchParams};
use crate::param::Means;

impl Means for LaunchParams {
    fn meaning(&self) -> Result<Meaning, PointError> {
        let p = self;
        let cache = match p.cache {
            LaunchCache::AsIs => None,
            LaunchCache::Warm => Some(CacheState::Warm),
            LaunchCache::Cold => Some(CacheState::Cold),
        };
        let ready = match p.ready.as_str() {
            "exit" => "until it ends".to_owned(),
            ready => format!("until {ready}"),
        };
        let said = Meaning {
            operation: p.command.clone(),
            target: Target::Program,
            unit: Unit::Launch,
            cache,
            ..Meaning::default()
        };
        Ok(said
            .part("ready", ready)
            .part("cache", cache.map_or("", CacheState::word))
            .part_if(p.package, "package", "from the layer"))
    }
}
