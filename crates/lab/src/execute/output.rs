//! Where a run goes: the store, and whoever follows its events.

use layermark_model::Run;
use layermark_store::Store;

use crate::{Event, LabError};

/// The store, and the receiver of events.
pub(crate) struct Output<'a> {
    pub store: &'a mut Store,
    on_event: &'a mut dyn FnMut(Event),
}

impl<'a> Output<'a> {
    pub(crate) fn new(store: &'a mut Store, on_event: &'a mut dyn FnMut(Event)) -> Self {
        Self { store, on_event }
    }

    pub(crate) fn emit(&mut self, event: Event) {
        (self.on_event)(event);
    }

    pub(crate) fn note(&mut self, text: impl Into<String>) {
        self.emit(Event::Note(text.into()));
    }

    pub(crate) fn warn(&mut self, text: String, hint: Option<String>) {
        self.emit(Event::Warning { text, hint });
    }

    /// Stores what has changed in a run, apart from its trials.
    pub(crate) fn update(&mut self, run: &Run) -> Result<(), LabError> {
        Ok(self.store.update(run)?)
    }

    /// Reports that the store's file was deleted, and where all results are now.
    pub(crate) fn tell_lost(&mut self, run: &str) {
        if let Some(lost) = self.store.lost() {
            let kept = self.store.path().display();
            let text = format!(
                "the store {} was deleted or replaced while the run wrote to it; all it held is kept in {kept}",
                lost.display()
            );
            let hint = format!("layermark report {run}{}", self.store.option());
            self.warn(text, Some(hint));
        }
    }
}
