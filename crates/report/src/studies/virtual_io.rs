//! Study of emulated against paravirtual I/O (HP Integrity VM, VIO against AVIO): bars of the three
//! stacks. The study's claims are in its plan.
//!
//! Guests with an emulated CPU are compared with each other. A comparison with native would show
//! the cost of emulation.

use layermark_model::{LayerRun, StudyId, Target};

use super::{Data, Study};
use crate::{
    types::Section,
    words::{Text, Words},
};

mod stacks;

use stacks::{IoStack, is_path, stacks};

/// See the module.
pub struct VirtualIo;

impl Study for VirtualIo {
    fn id(&self) -> StudyId {
        StudyId::VirtualIoStack
    }

    fn section(&self, data: &Data) -> Section {
        Section {
            tables: [stacks(data, false), stacks(data, true)].concat(),
            ..self.head(data)
        }
    }

    fn headline(&self, data: &Data, section: &Section) -> Option<Text> {
        super::counted(&section.conclusions).map(|said| said.words(&data.names()))
    }
}

/// Whether a layer's devices are of the kind that a claim names. A path from guest to guest is not one guest.
pub(super) fn is_kind(layer: &LayerRun, target: Target, kind: &str) -> bool {
    let of = match kind {
        "emulated" => (IoStack::Emulated, false),
        "paravirtual" => (IoStack::Paravirtual, false),
        "paravirtual..paravirtual" => (IoStack::Paravirtual, true),
        _ => return false,
    };
    IoStack::of(layer, target) == Some(of.0) && is_path(layer) == of.1
}
