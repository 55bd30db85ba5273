use std::ffi::OsString;

use layermark_model::{Missing, Spec};

use crate::{
    About, Base, Group, LayerError, LayerInfo, Place, Undo,
    entered::{self, Start, Way, describe},
    kind::LayerKind,
    options::{bad, layer_options},
    sandbox,
};

/// Any place that a command of the user's leads into.
pub(crate) struct Exec;

layer_options! {
    pub(crate) struct ExecOptions {
        /// the command, such as 'podman exec -i ID': it runs the words that follow it in the place, and passes its
        /// standard input and output on. No shell reads it
        variant: String = "" reaches Program,
        /// a directory in the place; work is done in a new one below it
        dir: String = "/tmp",
    }
}

impl LayerKind for Exec {
    const ID: &'static str = "exec";
    type Options = ExecOptions;

    fn describe(_: &Spec, _: &ExecOptions) -> LayerInfo {
        describe::info(
            Group::Yours,
            About::of(
                "any place behind a command of yours",
                " (-l 'exec:podman exec -i ID,dir=/data')",
            ),
            "its disk belongs to a place of yours",
        )
    }

    fn check(spec: &Spec, options: &ExecOptions) -> Result<(), LayerError> {
        words(spec, options)?;
        describe::check_dir(spec, &options.dir)
    }

    /// Without root, layermark is in a user namespace, where the command would not be the user's.
    fn missing(spec: &Spec, options: &ExecOptions) -> Vec<Missing> {
        let words = words(spec, options).unwrap_or_default();
        let program = words.first().map(|program| program.to_string_lossy());
        let program = program.and_then(|program| describe::missing_program(&program));
        sandbox::not_root().into_iter().chain(program).collect()
    }

    fn open(
        base: &Base,
        spec: &Spec,
        options: Self::Options,
        _: &mut Undo,
    ) -> Result<Box<dyn Place>, LayerError> {
        let command = words(spec, &options)?;
        let way = Way {
            by_hand: command.clone(),
            command,
            start: Start::Found,
            drop_caches: Vec::new(),
            dir: options.dir.into(),
            notes: Vec::new(),
            versions: Vec::new(),
        };
        Ok(Box::new(entered::open(base, spec, way)?))
    }
}

/// The words of the command. Quotes join words, as in a shell; nothing else is special.
fn words(spec: &Spec, options: &ExecOptions) -> Result<Vec<OsString>, LayerError> {
    let text = &options.variant;
    let bad = |must: &str| bad(spec, "variant", text, must.into());
    let mut words = shell_words::split(text).map_err(|_| bad("has a quote that is not closed"))?;
    // A plan has no shell that takes the quotes off: `exec:'podman exec -i ID'`.
    if let [one] = &words[..]
        && text.starts_with(['\'', '"'])
    {
        words = shell_words::split(one).map_err(|_| bad("has a quote that is not closed"))?;
    }
    if words.is_empty() {
        return Err(bad(
            "has to be given: a command, such as 'podman exec -i ID'",
        ));
    }
    Ok(words.into_iter().map(OsString::from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Layer, options::LayerOptions};

    #[test]
    fn a_command_is_words_and_no_shell_reads_it() {
        let read = |text: &str| {
            let spec: Spec = text.parse().unwrap();
            words(&spec, &ExecOptions::read(&spec).unwrap()).unwrap()
        };
        for (text, expected) in [
            (
                "exec:podman exec -i x,dir=/data",
                vec!["podman", "exec", "-i", "x"],
            ),
            (
                "exec:'podman exec -i x',dir=/data",
                vec!["podman", "exec", "-i", "x"],
            ),
            (
                "exec:env A=b '/my place/in'",
                vec!["env", "A=b", "/my place/in"],
            ),
            ("exec:sh; rm -rf $HOME", vec!["sh;", "rm", "-rf", "$HOME"]),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_run_is_refused() {
        for (text, says) in [
            ("exec", "has to be given"),
            ("exec:''", "has to be given"),
            ("exec:podman 'exec", "not closed"),
            ("exec:podman exec -i x,dir=data", "not an absolute path"),
            ("exec:podman exec -i x,at=root", "no option `at`"),
        ] {
            let e = crate::check(&text.parse().unwrap()).unwrap_err();
            assert!(e.is_usage() && e.to_string().contains(says), "{text}: {e}");
        }
        let missing = Exec.missing(&"exec:/nonexistent/enter x".parse().unwrap());
        assert_eq!(missing.last().unwrap().what, "/nonexistent/enter");
    }
}
