//! Why a command is slow in a layer.

use crate::{
    number,
    statements::why::{Answer, CallCost, SlowCommand, UseInstead, WithoutCommand},
    types::{ForecastCall, Verdict, Why},
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

/// The command, and its time natively if that is known.
pub fn title(why: &Why) -> Text {
    let command = Text::code(&why.command);
    let names = Names {
        baseline: &why.baseline,
    };
    match why.native_us {
        Some(us) => text!("{command}: {} {}", number::time(us), names.natively()),
        None => command,
    }
}

/// What the costs of calls are.
pub fn more_than(natively: &str) -> Text {
    text!("Each call, and all of them, more than {natively}.")
}

/// What a kind of calls costs.
pub fn each_and_all(call: &ForecastCall) -> Text {
    let [each, all] = [call.each_us, call.sum_us].map(number::extra);
    text!("{each} each, {all}")
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
        let layer = self.marked();
        let Some((us, native_us)) = self.row.op_us.zip(self.row.native_us) else {
            let why = self.row.error.as_deref().map(layermark_model::brief);
            let why = why.map(|why| text!(": {why}")).unwrap_or_default();
            return text!("{layer}: the command has no time there{why}");
        };
        let probably = if self.is_probable() { "probably " } else { "" };
        let times = text!(
            "{} instead of {} ({})",
            number::time(us),
            number::time(native_us),
            number::extra(us - native_us)
        );
        let costs = self.costly().into_iter();
        let costs = Text::joined(costs.map(|call| CallCost(call).words(names)), ", ");
        match self.row.leaning() {
            Verdict::Same => text!("{layer} is within {}: {times}", number::percent(self.delta)),
            Verdict::Faster => text!("{layer} is {probably}faster: {times}"),
            Verdict::Slower => {
                let head = if self.is_probable() {
                    text!("{layer} is {probably}slower")
                } else {
                    layer
                };
                match self.forecast {
                    Some(forecast) if !forecast.is_explained() => text!(
                        "{head}: {times}; its calls do not explain it, with them it would take {}{}{costs}",
                        number::time(forecast.forecast_us),
                        if costs.length() == 0 { "" } else { ": " }
                    ),
                    Some(_) if costs.length() > 0 => text!("{head}: {times}: {costs}"),
                    _ => text!("{head}: {times}"),
                }
            }
            Verdict::Undecided | Verdict::Baseline | Verdict::Untrusted | Verdict::Descriptive => {
                text!("{layer}: whether it is slower is not known: {times}")
            }
        }
    }
}

impl SlowCommand<'_> {
    /// The layer, and why it loses what was flushed if it does.
    fn marked(&self) -> Text {
        let layer = Text::code(&self.row.layer);
        match self.kept.loses() {
            Some(why) => text!("{layer} ({why})"),
            None => layer,
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

impl Words for Answer<'_> {
    fn words(&self, names: &Names) -> Text {
        let instead = self.instead.words(names);
        if self.aside.is_empty() {
            return instead;
        }
        let aside: Vec<Text> = self.aside.iter().map(SlowCommand::marked).collect();
        text!("{instead}; left aside: {}", number::list(&aside))
    }
}

impl Words for UseInstead<'_> {
    fn words(&self, names: &Names) -> Text {
        let codes = |layers: &[&str]| {
            let layers: Vec<Text> = layers.iter().map(|layer| Text::code(layer)).collect();
            number::list(&layers)
        };
        match self {
            Self::Untrusted(why) => text!("The results are not trusted: {why}"),
            Self::Nothing => {
                "The command has no trusted time in a layer that keeps what was flushed".into()
            }
            Self::NoneKeeps => "None of these keeps what was flushed".into(),
            Self::Free(free) => {
                let layers: Vec<&str> = free.iter().map(|c| c.row.layer.as_str()).collect();
                let of_them = if layers.len() == 1 {
                    "it"
                } else {
                    "one of them"
                };
                let verb = number::verb(layers.len(), "is", "are");
                text!(
                    "{} {verb} {}: use {of_them}",
                    codes(&layers),
                    no_longer(free, names)
                )
            }
            Self::Least(row) => {
                let extra = row.op_us.unwrap_or_default() - row.native_us.unwrap_or_default();
                text!(
                    "{} costs least of these: {}",
                    Text::code(&row.layer),
                    number::extra(extra)
                )
            }
            Self::NotApart(layers) => text!(
                "Which of {} costs least is not known: give it more time, with --budget",
                codes(layers)
            ),
            Self::Unknown(layers) => text!(
                "Whether {} {} anything is not known: give it more time, with --budget",
                codes(layers),
                number::verb(layers.len(), "costs", "cost")
            ),
        }
    }
}

/// What is known of layers in which the command takes no longer.
fn no_longer(free: &[SlowCommand], names: &Names) -> Text {
    let same = free.iter().filter(|c| c.row.leaning() == Verdict::Same);
    let same = same.count();
    let probably = if free.iter().any(SlowCommand::is_probable) {
        "probably "
    } else {
        ""
    };
    let delta = free.first().map_or(0.0, |c| c.delta);
    let within = text!("within {} of {}", number::percent(delta), names.baseline());
    match same {
        0 => text!("{probably}faster than {}", names.baseline()),
        same if same == free.len() => within,
        _ => text!("{within} or {probably}faster"),
    }
}
