//! What studies say: their answers and their claims.

pub mod buffer_size;
pub mod declared;
pub mod fileio_appvirt;
pub mod iozone_vm;

/// The first decided claims of a study.
#[derive(Debug)]
pub struct ByClaim<'a>(pub Vec<ClaimSides<'a>>);

/// A claim, with the layers that it holds in and those that it does not hold in.
#[derive(Debug)]
pub struct ClaimSides<'a> {
    /// The claim in few words.
    pub claim: &'a str,
    /// Layers that it holds in.
    pub yes: Vec<&'a str>,
    /// Layers that it does not hold in.
    pub no: Vec<&'a str>,
}

/// How many claims hold, do not hold, and are not decided.
#[derive(Debug)]
pub struct CountedClaims {
    /// Claims that hold.
    pub yes: usize,
    /// Claims that do not hold.
    pub no: usize,
    /// Claims that are not decided.
    pub open: usize,
}
