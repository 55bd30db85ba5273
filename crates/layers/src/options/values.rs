//! Options as typed fields: each layer declares one struct, and its rows are made from it.

use layermark_model::Spec;

use super::{LayerOption, bad, check_value};
use crate::LayerError;

/// The options of a layer, as [`layer_options`] makes them.
pub(crate) trait LayerOptions: Sized + Send + Sync {
    /// One row for each option.
    fn rows() -> &'static [LayerOption];

    /// What the user has set, and defaults.
    fn read(spec: &Spec) -> Result<Self, LayerError>;
}

/// Of a layer that has none.
pub(crate) struct NoOptions;

impl LayerOptions for NoOptions {
    fn rows() -> &'static [LayerOption] {
        &[]
    }

    fn read(_: &Spec) -> Result<Self, LayerError> {
        Ok(Self)
    }
}

/// The type of an option's field.
pub(crate) trait OptionValue: Sized {
    /// See [`LayerOption::values`].
    const VALUES: &'static [&'static str] = &[];

    /// Returns `None` if the text is not one of the values.
    fn parse(given: Option<&str>, default: &str) -> Option<Self>;
}

impl OptionValue for String {
    fn parse(given: Option<&str>, default: &str) -> Option<Self> {
        Some(given.unwrap_or(default).into())
    }
}

/// `None` if the user did not give it.
impl OptionValue for Option<String> {
    fn parse(given: Option<&str>, _: &str) -> Option<Self> {
        Some(given.map(str::to_owned))
    }
}

impl OptionValue for bool {
    const VALUES: &'static [&'static str] = &["off", "on"];

    fn parse(given: Option<&str>, default: &str) -> Option<Self> {
        let word = given.unwrap_or(default);
        Self::VALUES.contains(&word).then_some(word == "on")
    }
}

/// Defines an enum. Users write a variant as its word.
macro_rules! option_words {
    ($(#[$about:meta])* $vis:vis enum $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $vis enum $name {
            $($(#[$doc])* $variant,)+
        }

        impl $crate::options::OptionValue for $name {
            const VALUES: &'static [&'static str] = &[$($word),+];

            fn parse(given: Option<&str>, default: &str) -> Option<Self> {
                match given.unwrap_or(default) {
                    $($word => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self {
                    $(Self::$variant => $word,)+
                })
            }
        }
    };
}
pub(crate) use option_words;

/// Lets a field be a row of this table, found by its `name`.
macro_rules! option_rows {
    ($row:ty, $table:ident) => {
        impl $crate::options::OptionValue for &'static $row {
            const VALUES: &'static [&'static str] = &{
                let mut names = [""; $table.len()];
                let mut i = 0;
                while i < names.len() {
                    names[i] = $table[i].name;
                    i += 1;
                }
                names
            };

            fn parse(given: Option<&str>, default: &str) -> Option<Self> {
                let name = given.unwrap_or(default);
                $table.iter().find(|row| row.name == name)
            }
        }
    };
}
pub(crate) use option_rows;

/// Declares the options of a layer: makes the struct that its code reads, and a [`LayerOption`] for each field. The doc
/// comment is the help. `as "NAME"` gives a name with a `-`. Values in brackets replace those of the type. `reaches` says
/// what any value but the default reaches beyond the run's directory, or with `if` this one alone.
macro_rules! layer_options {
    ($vis:vis struct $name:ident { $(
        $(#[doc = $help:literal])+
        $field:ident $(as $option:literal)?: $type:ty = $default:literal $([$($value:literal),+])?
            $(reaches $reach:ident $(if $only:literal)?)?,
    )+ }) => {
        /// What the user has set, and defaults.
        $vis struct $name {
            $($vis $field: $type,)+
        }

        impl $name {
            $vis const ROWS: [$crate::LayerOption; [$(stringify!($field)),+].len()] = [$($crate::LayerOption {
                name: $crate::options::layer_options!(@name $field $($option)?),
                values: $crate::options::layer_options!(@values $type $(, $($value),+)?),
                default: $default,
                help: concat!($($help),+).trim_ascii_start(),
                reach: $crate::options::layer_options!(@reach $($reach $($only)?)?),
            }),+];

        }

        impl $crate::options::LayerOptions for $name {
            fn rows() -> &'static [$crate::LayerOption] {
                &Self::ROWS
            }

            fn read(spec: &$crate::Spec) -> Result<Self, $crate::LayerError> {
                let [$($field),+] = &Self::ROWS;
                Ok(Self { $($field: $crate::options::read(spec, $field)?),+ })
            }
        }
    };
    (@reach) => { None };
    (@reach $reach:ident $($only:literal)?) => { Some((layermark_model::Reach::$reach, concat!($($only)?))) };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $option:literal) => { $option };
    (@values $type:ty) => { <$type as $crate::options::OptionValue>::VALUES };
    (@values $type:ty, $($value:literal),+) => { &[$($value),+] };
}
pub(crate) use layer_options;

/// The text of an option, if it was given.
pub(crate) fn text_of<'a>(spec: &'a Spec, option: &LayerOption) -> Option<&'a str> {
    match option.name {
        "variant" => spec.variant.as_deref(),
        name => spec.options.get(name).map(String::as_str),
    }
}

/// The value of an option. One that was not checked, such as that of a stored run, is refused here.
pub(crate) fn read<T: OptionValue>(spec: &Spec, option: &LayerOption) -> Result<T, LayerError> {
    let given = text_of(spec, option);
    let text = given.unwrap_or(option.default);
    check_value(spec, option, text)?;
    T::parse(given, option.default)
        .ok_or_else(|| bad(spec, option.name, text, "is not known".into()))
}

/// The first of these options that the user gave, and its text. A field cannot say whether its value was given.
pub(crate) fn given<'a>(
    spec: &'a Spec,
    rows: &[LayerOption],
    names: &[&'static str],
) -> Option<(&'static str, &'a str)> {
    debug_assert!(
        names.iter().all(|n| rows.iter().any(|r| r.name == *n)),
        "no option of {names:?}"
    );
    let mut names = names.iter();
    names.find_map(|name| Some((*name, spec.options.get(*name)?.as_str())))
}

/// `on` or `off`.
pub(crate) fn on_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

#[cfg(test)]
mod tests {
    use super::LayerOptions;

    layer_options! {
        struct TestOptions {
            /// a text that
            /// may be empty
            text: String = "none",
            /// a text
            optional: Option<String> = "",
            /// a switch
            a_switch as "a-switch": bool = "on" ["on", "off"],
        }
    }

    #[test]
    fn fields_are_what_was_given_or_defaults() {
        assert_eq!(TestOptions::ROWS[0].help, "a text that may be empty");
        assert_eq!(TestOptions::ROWS[2].values, ["on", "off"]);
        let read = |text: &str| TestOptions::read(&text.parse().unwrap());
        let fields = |text| {
            read(text)
                .map(|o| (o.text, o.optional, o.a_switch))
                .unwrap()
        };
        assert_eq!(fields("x"), ("none".into(), None, true));
        let empty = fields("x:text=,optional=,a-switch=off");
        assert_eq!(empty, (String::new(), Some(String::new()), false));
        let refused = read("x:a-switch=of").err().unwrap().to_string();
        assert!(refused.ends_with("did you mean `off`?"), "{refused}");
    }
}
