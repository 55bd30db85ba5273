//! Why a command is slow in a layer.

use crate::{
    number,
    statements::why::{CallCost, SlowCommand, UseInstead, WithoutCommand},
    types::Verdict,
    words::{Names, Text, Words, text},
};

/// Calls of a kind, after their number.
pub fn calls(kind: &str) -> &str {
    match kind {
        "stat" => "stats",
        "open" => "opens",
        "list" => "listings",
        "create" => "creates",
        "unlink" => "unlinks",
        "set-attr" => "changes of attributes",
        "read" => "reads",
        "write" => "writes",
        "flush" => "flushes",
        other => other,
    }
}

impl Words for CallCost<'_> {
    /// `12,400 opens +0.4 s`.
    fn words(&self, _: &Names) -> Text {
        let Self(call) = self;
        text!(
            "{} {} {}",
            number::thousands(call.calls),
            calls(&call.kind),
            number::extra(call.sum_us)
        )
    }
}

impl Words for SlowCommand<'_> {
    fn words(&self, names: &Names) -> Text {
        let layer = Text::code(&self.row.layer);
        let Some((us, native_us)) = self.row.op_us.zip(self.row.native_us) else {
            let why = self.row.error.as_deref().map(layermark_model::brief);
            let why = why.map(|why| text!(": {why}")).unwrap_or_default();
            return text!("{layer}: the command has no time there{why}");
        };
        let times = text!(
            "{} instead of {} ({})",
            number::time(us),
            number::time(native_us),
            number::extra(us - native_us)
        );
        let costs = self.costly().into_iter();
        let costs = Text::joined(costs.map(|call| CallCost(call).words(names)), ", ");
        match self.row.leaning() {
            Verdict::Same => text!("{layer} costs nothing: {times}"),
            Verdict::Faster => text!("{layer} is faster: {times}"),
            Verdict::Slower => match self.forecast {
                None => text!("{layer}: {times}"),
                Some(forecast) if !forecast.is_explained() => text!(
                    "{layer}: {times}; its calls do not explain it, with them it would take {}{}{costs}",
                    number::time(forecast.forecast_us),
                    if costs.length() == 0 { "" } else { ": " }
                ),
                Some(_) if costs.length() == 0 => text!("{layer}: {times}"),
                Some(_) => text!("{layer}: {times}: {costs}"),
            },
            Verdict::Undecided | Verdict::Baseline | Verdict::Untrusted | Verdict::Descriptive => {
                text!("{layer}: whether it is slower is not known: {times}")
            }
        }
    }
}

impl Words for WithoutCommand<'_> {
    fn words(&self, _: &Names) -> Text {
        let Self(left) = self;
        let hint = left.hint.as_ref().map(|hint| text!("; hint: {hint}"));
        text!(
            "{} was left out: {}{}",
            Text::code(&left.layer),
            left.reason,
            hint.unwrap_or_default()
        )
    }
}

impl Words for UseInstead<'_> {
    fn words(&self, _: &Names) -> Text {
        let codes = |layers: &[&str]| {
            let layers: Vec<Text> = layers.iter().map(|layer| Text::code(layer)).collect();
            number::list(&layers)
        };
        match self {
            Self::Nothing => "The command has no time in any layer".into(),
            Self::Free(layers) => text!(
                "{} {} nothing: use {}",
                codes(layers),
                number::verb(layers.len(), "costs", "cost"),
                if layers.len() == 1 {
                    "it"
                } else {
                    "one of them"
                }
            ),
            Self::Least(row) => {
                let extra = row.op_us.unwrap_or_default() - row.native_us.unwrap_or_default();
                text!(
                    "{} costs least of these: {}",
                    Text::code(&row.layer),
                    number::extra(extra)
                )
            }
            Self::Unknown(layers) => text!(
                "Whether {} {} anything is not known: give it more time, with --budget",
                codes(layers),
                number::verb(layers.len(), "costs", "cost")
            ),
        }
    }
}
