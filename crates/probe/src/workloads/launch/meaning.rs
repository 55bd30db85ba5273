//! The meaning of a point of `launch`.

use layermark_model::{CacheState, Meaning, PointError, Target, Unit};

use super::params::{LaunchCache, LaunchParams};
use crate::param::{Means, Params};

impl Means for LaunchParams {
    fn meaning(&self) -> Result<Meaning, PointError> {
        let p = self;
        let cache = match p.cache {
            LaunchCache::AsIs => None,
            LaunchCache::Warm => Some(CacheState::Warm),
            LaunchCache::Cold => Some(CacheState::Cold),
        };
        Ok(p.described(Meaning {
            operation: p.command.clone(),
            target: Target::Program,
            unit: Unit::Launch,
            cache,
            ..Meaning::default()
        }))
    }
}
