//! A block of the document: what it is about, its heading, and what is drawn.

use std::borrow::Cow;

use layermark_model::{LayerStatus, Machine};

use super::{matrix::Matrix, results::Results};
use crate::{LayerReport, Reproduce, Section, TrialRow, TrustItem};

/// What a block is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The answer in a sentence, with its caveats.
    Headline,
    /// A line for each layer.
    InShort,
    /// The run in one line.
    About,
    /// The study that the plan repeats.
    Study,
    /// Ratios of all operations and layers.
    Matrix,
    /// The most important sentences.
    Findings,
    /// A paragraph for each layer.
    Layers,
    /// What to do.
    Advice,
    /// A section that answers what was asked for.
    Answer,
    /// A section of other measured figures.
    Figures,
    /// A section derived from the results.
    Model,
    /// The checks.
    Trust,
    /// Every result.
    Results,
    /// What was not measured.
    LeftOut,
    /// Differences from iozone.
    Fidelity,
    /// How it was measured.
    Method,
    /// The machine and the layers.
    Stack,
    /// What measuring costs in each layer.
    SelfTests,
    /// Every trial.
    Trials,
    /// How to repeat the run.
    Reproduce,
}

/// A part of the report with its heading.
pub struct Block<'a> {
    /// What it is about.
    pub part: Part,
    /// Its heading; may be empty.
    pub title: Cow<'a, str>,
    /// A summary in a few words, for formats that fold or omit the block; may be empty.
    pub note: String,
    /// An explanation; may be empty.
    pub about: String,
    /// What is drawn.
    pub content: Content<'a>,
}

/// The content of a block. Texts have names as code spans of Markdown.
pub enum Content<'a> {
    /// Warnings below the headline, without a full stop.
    Caveats(&'a [String]),
    /// A line of text.
    Line(String),
    /// Sentences.
    List(Vec<Item<'a>>),
    /// Checks and their outcomes.
    Checks(&'a [TrustItem]),
    /// Operations as rows, layers as columns, in every unit.
    Matrix(Matrix<'a>),
    /// Results by operation.
    Results(Results<'a>),
    /// Tables, charts, conclusions and files.
    Section(Section),
    /// Commands and the plan.
    Reproduce(&'a Reproduce),
    /// How it was measured.
    Method(Method<'a>),
    /// The machine and the layers.
    Stack(Stack<'a>),
    /// The layers that measured what measuring costs.
    SelfTests(Vec<&'a LayerReport>),
    /// Trials in the order of the run.
    Trials(&'a [TrialRow]),
}

/// How it was measured.
pub struct Method<'a> {
    /// Sessions of the run.
    pub sessions: usize,
    /// Blocks of the run.
    pub blocks: usize,
    /// Differences smaller than this share do not matter.
    pub delta: f64,
    /// Differences from iozone.
    pub fidelity: &'a [String],
}

/// The machine and the layers.
pub struct Stack<'a> {
    /// The machine.
    pub machine: &'a Machine,
    /// Directory in which the run worked.
    pub dir: &'a str,
    /// Every layer, also those that could not be set up.
    pub layers: &'a [LayerReport],
}

impl<'a> Stack<'a> {
    /// The layers that were set up.
    pub fn ready(&self) -> impl Iterator<Item = &'a LayerReport> {
        let layers = self.layers.iter();
        layers.filter(|l| l.status == LayerStatus::Ready)
    }
}

/// A sentence of a list.
pub struct Item<'a> {
    /// Its layer; may be empty.
    pub layer: &'a str,
    /// The sentence.
    pub text: Cow<'a, str>,
    /// The same in fewer words, if it has such.
    pub brief: Option<&'a str>,
    /// Ids of the results behind it.
    pub evidence: &'a [String],
    /// A command that helps.
    pub hint: Option<&'a str>,
}

impl<'a> Block<'a> {
    pub(super) fn new(part: Part, title: impl Into<Cow<'a, str>>, content: Content<'a>) -> Self {
        Self {
            part,
            title: title.into(),
            note: String::new(),
            about: String::new(),
            content,
        }
    }

    /// A list, with the layers that it is about as its note; `None` if it is empty.
    pub(super) fn list(part: Part, title: &'a str, items: Vec<Item<'a>>) -> Option<Self> {
        let mut layers: Vec<&str> = items.iter().map(|item| item.layer).collect();
        layers.dedup();
        let note = layers.join(", ");
        let block = Self::new(part, title, Content::List(items)).note(note);
        (!layers.is_empty()).then_some(block)
    }

    pub(super) fn note(self, note: String) -> Self {
        Self { note, ..self }
    }

    pub(super) fn about(self, about: String) -> Self {
        Self { about, ..self }
    }
}

impl<'a> Item<'a> {
    pub(super) fn new(text: impl Into<Cow<'a, str>>) -> Self {
        Self {
            layer: "",
            text: text.into(),
            brief: None,
            evidence: &[],
            hint: None,
        }
    }

    /// The sentence in as few words as it has.
    pub fn brief(&self) -> &str {
        self.brief.unwrap_or(&self.text)
    }
}
