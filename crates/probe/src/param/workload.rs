//! Makes a workload from the parameters of its points.

use std::{marker::PhantomData, path::Path};

use layermark_model::{Environment, Needs, Param, Point, PointError, Settings, Spec};

use super::{
    Params,
    points::{needs, point},
    read, stored,
};
use crate::{
    Context, FarEnd, FromHost, HostError, Placed, ProbeError, Purpose, UsualBlocks, Work, Workload,
    WorkloadInfo,
};

/// How a point with these parameters is run.
pub trait Runs: Sized {
    /// One line for help.
    const ABOUT: &'static str;
    /// Two command lines for help.
    const EXAMPLES: [&'static str; 2];

    /// Number of blocks of a command for this workload only, if the user does not limit its time.
    /// `None`: as many as fit into a command's budget.
    fn usual_blocks(_settings: &Settings) -> Option<UsualBlocks> {
        None
    }

    /// What the point needs from the layer and from the lab.
    fn needs(&self) -> Result<Needs, PointError> {
        Ok(Needs::default())
    }

    /// The point as it is run in this layer. Only called with [`Needs::per_layer`].
    fn in_layer(self, _layer: &Spec) -> Result<Self, PointError> {
        Ok(self)
    }

    /// An error if this host lacks a program that the point starts, with the package that has it.
    fn check_programs(&self) -> Result<(), ProbeError> {
        Ok(())
    }

    /// Files, directories and links of this host to copy into the layer.
    fn placed(&self, _env: &Environment) -> Result<Vec<Placed>, PointError> {
        Ok(Vec::new())
    }

    /// See [`Workload::serve`].
    fn serve(self, _dir: &Path, _context: &Context) -> Result<Box<dyn FarEnd>, ProbeError>
    where
        Self: Params,
    {
        Err(ProbeError::new(format!("`{}` has no far end", Self::ID)))
    }

    /// See [`Workload::prepare`].
    fn prepare(self, dir: &Path, context: &Context) -> Result<Box<dyn Work>, ProbeError>;
}

/// The workload whose points have the parameters `P`.
pub struct Of<P>(PhantomData<fn() -> P>);

/// The workload whose points have the parameters `P`.
pub const fn of<P: Params>() -> Of<P> {
    Of(PhantomData)
}

impl<P: Params> Workload for Of<P> {
    fn info(&self) -> &'static WorkloadInfo {
        const {
            &WorkloadInfo {
                id: P::ID,
                about: P::ABOUT,
                examples: P::EXAMPLES,
                params: P::params,
                usual_blocks: P::usual_blocks,
            }
        }
    }

    fn points(&self, settings: &Settings, scale: f64) -> Result<Vec<Point>, PointError> {
        P::points(settings, scale)
    }

    fn read(&self, at: &Point, purpose: Purpose<'_>) -> Result<Point, PointError> {
        let mut at = at.clone();
        match purpose {
            Purpose::Report => at.meaning = stored::<P>(&at)?.meaning()?,
            Purpose::Run => at.needs = needs(&at.label, &read::<P>(&at)?)?,
            Purpose::Layer(layer) => {
                return point(at.label.clone(), &read::<P>(&at)?.in_layer(layer)?);
            }
        }
        Ok(at)
    }

    fn host_files(&self, at: &Point, host: FromHost<'_>) -> Result<Vec<Placed>, HostError> {
        let p = read::<P>(at)?;
        if host.starts_programs {
            p.check_programs()?;
        }
        Ok(p.placed(host.env)?)
    }

    fn serve(
        &self,
        dir: &Path,
        at: &Point,
        context: &Context,
    ) -> Result<Box<dyn FarEnd>, ProbeError> {
        read::<P>(at)?.serve(dir, context)
    }

    fn prepare(
        &self,
        dir: &Path,
        at: &Point,
        context: &Context,
    ) -> Result<Box<dyn Work>, ProbeError> {
        read::<P>(at)?.prepare(dir, context)
    }
}

/// The parameters of a table's rows, for help and flags.
pub(super) fn listed<P: Params>() -> Vec<Param> {
    P::TABLE.iter().map(|row| row.param).collect()
}
