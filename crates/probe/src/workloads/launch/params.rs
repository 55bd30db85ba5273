//! Parameters of the workload `launch`.

use std::time::Duration;

use layermark_model::{Environment, ParamKind, PointError, Reach, Spec, parse_duration};
use serde::{Deserialize, Serialize};

use super::ready;
use crate::param::{self, Params, Values, words};
use crate::programs::user::{self, User};

words! {
    /// State of the caches before each launch.
    pub enum LaunchCache {
        /// As the previous launch left them. The first one of a series may be cold.
        AsIs = "as-is",
        /// Warm: a launch that was not warm is repeated.
        Warm = "warm",
        /// Dropped by the lab.
        Cold = "cold",
    }
}

type Row = param::Row<LaunchParams>;

/// The parameters of one point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(clippy::struct_excessive_bools)] // switches of the user's, each on its own
pub struct LaunchParams {
    pub command: String,
    pub cmd: Vec<String>,
    pub ready: String,
    pub cache: LaunchCache,
    pub package: bool,
    pub add: Vec<String>,
    /// Names of variables. Their values are kept separately, since they may be secrets.
    pub env: Vec<String>,
    pub prepare: String,
    pub conclude: String,
    pub warmup: u64,
    pub timeout: String,
    pub grace: String,
    pub screen: String,
    pub ignore_failure: bool,
    pub trace: bool,
    pub parameters: Vec<String>,
    /// User who runs it; the current user when empty.
    #[serde(default)]
    pub user: String,
    /// Only for cold points.
    #[serde(default)]
    pub restart: bool,
    /// Whether this is the extra launch that is traced. Set by the workload, never by a user.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tracing: bool,
    /// Whether the trace must list all files. Set by the workload, never by a user.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub listing: bool,
}

/// Shortest time limit of a launch or of its end.
const SHORTEST: Duration = Duration::from_millis(1);
/// Longest time limit of a launch.
const LONGEST: Duration = Duration::from_hours(1);
/// Maximum number of uncounted launches.
const WARMUPS: u64 = 1000;

impl LaunchParams {
    pub fn timeout(&self) -> Duration {
        parse_duration(&self.timeout).unwrap_or(LONGEST)
    }

    pub fn grace(&self) -> Duration {
        parse_duration(&self.grace).unwrap_or(LONGEST)
    }

    /// Ids of the user; `None` when none is named.
    pub fn user(&self) -> Result<Option<User>, PointError> {
        if self.user.is_empty() {
            return Ok(None);
        }
        let found = user::find(&self.user).map_err(|why| {
            PointError::of("launch", "user", format!(" = {}: {why}", self.user))
                .hint("write a name of /etc/passwd, or UID:GID")
        });
        found.map(Some)
    }

    /// When the clock stops.
    fn until(&self) -> String {
        match self.ready.as_str() {
            "exit" => "until it ends".to_owned(),
            ready => format!("until {ready}"),
        }
    }

    /// Whether its texts contain a value of `parameters`.
    fn is_one_of_several(&self) -> bool {
        !self.parameters.is_empty()
    }

    /// The point with the command for this layer: the one for its full name, else the one for its
    /// kind. The user's name is replaced by ids, which mean the same everywhere.
    pub fn for_layer(mut self, layer: &Spec) -> Self {
        if let Ok(Some(User { uid, gid })) = self.user() {
            self.user = format!("{uid}:{gid}");
        }
        if let Some(command) = layermark_model::layers_command(&self.cmd, layer) {
            self.command = command.to_owned();
        }
        self.cmd = Vec::new();
        self
    }
}

/// The variables of a workload's program, from those of a run.
pub fn environment(
    workload: &str,
    names: &[String],
    all: &Environment,
) -> Result<Environment, PointError> {
    let value = |name: &String| {
        let value = all.get(name).ok_or_else(|| {
            PointError::of(workload, "env", format!(" = {name}: it has no value"))
        })?;
        Ok((name.clone(), value.clone()))
    };
    names.iter().map(value).collect()
}

/// The words of a command line, or an error when there is none. `name` is that of the parameter.
pub fn words(workload: &str, name: &str, text: &str) -> Result<Vec<String>, PointError> {
    let wrong = |why| PointError::of(workload, name, format!(" = {text}: {why}")).hint(QUOTE);
    split(text).map_err(wrong)
}

/// What to do about a command line that is not split as it should be.
const QUOTE: &str = "quote words with spaces: 'my program' --file 'a b'";

/// The words of a command line, or what is wrong with it.
fn split(text: &str) -> Result<Vec<String>, &'static str> {
    match shell_words::split(text) {
        Ok(words) if words.first().is_some_and(|w| !w.is_empty()) => Ok(words),
        Ok(_) => Err("it names no program"),
        Err(_) => Err("a quote is not closed"),
    }
}

/// The first character of a command line that a shell would interpret: not in quotes, and not after
/// a backslash. In double quotes `$` and a backtick are interpreted too (POSIX.1-2024, 2.2).
fn for_a_shell(text: &str) -> Option<char> {
    let mut quote = None;
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        match (c, quote) {
            ('\\', None | Some('"')) => drop(characters.next()),
            ('\'' | '"', None) => quote = Some(c),
            (c, Some(q)) if c == q => quote = None,
            ('|' | '&' | ';' | '<' | '>' | '*', None) | ('$' | '`', None | Some('"')) => {
                return Some(c);
            }
            _ => {}
        }
    }
    None
}

impl Params for LaunchParams {
    const ID: &'static str = "launch";
    const TABLE: &'static [Row] = &[
        Row::text("command", "true")
            .reaches(Reach::Program)
            .kind(ParamKind::Command)
            .list()
            .alternative(|_| true)
            .help("the program and its arguments; split into words as a shell does, without a shell")
            .label(|p| Some(shorter(&p.command))),
        Row::texts("cmd")
            .reaches(Reach::Program)
            .alternative(LaunchParams::is_one_of_several)
            .help("LAYER=COMMAND: another command in one layer; a name without a variant is for all its variants"),
        Row::text("ready", "exit")
            .reaches(Reach::Network)
            .list()
            .alternative(LaunchParams::is_one_of_several)
            .help("when it has been launched: exit, stdout=REGEX, stderr=REGEX, port=[HOST:]N, http=URL, file=PATH, notify, window[=TITLE], content, settled=MS")
            .label(|p| (p.ready != "exit").then(|| p.ready.clone()))
            .part(|p| Some(p.until())),
        Row::word("cache", LaunchCache::WORDS, "as-is")
            .list()
            .help("state of the caches before each launch, proved by faults and blocks read")
            .says(|p| (p.cache != LaunchCache::AsIs).then(|| p.cache.id().into())),
        Row::switch("package", "false")
            .help("put the program and all files it opens into the layer, and launch it from there")
            .part(|p| p.package.then(|| "from the layer".into())),
        Row::texts("add")
            .reaches(Reach::Path)
            .only("`package`", |p| p.package)
            .help("a file or directory to put into the package in addition to what the program opens"),
        Row::texts("env")
            .reaches(Reach::Secrets)
            .kind(ParamKind::Env)
            .help("NAME=VALUE: a variable of the program's environment, which is empty except for PATH, HOME and the language; NAME alone takes the value from layermark's own environment. Values are never stored"),
        Row::text("prepare", "")
            .reaches(Reach::Program)
            .alternative(LaunchParams::is_one_of_several)
            .help("a command to run before each launch, outside the clock"),
        Row::text("conclude", "")
            .reaches(Reach::Program)
            .alternative(LaunchParams::is_one_of_several)
            .help("a command to run after each launch, when the program has been stopped"),
        Row::count("warmup", "0")
            .range(0, WARMUPS)
            .help("launches in each layer before the first one that counts"),
        Row::text("timeout", "60s").help("a program that is not ready after this time has failed"),
        Row::text("grace", "5s").help("time between SIGTERM and SIGKILL when it is stopped"),
        Row::text("screen", "1280x1024").help("size of the private X screen"),
        Row::switch("ignore_failure", "false").help("accept exit codes other than 0"),
        Row::switch("trace", "false")
            .help("trace one extra launch in each layer, which does not count: files it opened, did not find and read (needs strace)"),
        Row::texts("parameters")
            .alternative(|_| true)
            .help("NAME=V1,V2,...: a point for each value, which replaces {NAME} in the commands; a command without {NAME} is launched once")
            .label(|p| (!p.parameters.is_empty()).then(|| p.parameters.join(", "))),
        Row::text("user", "")
            .reaches(Reach::Program)
            .list()
            .help("user that runs the program, a name or UID:GID; needs root and --package"),
        Row::switch("restart", "false")
            .only("`cache` = cold", |p| p.cache == LaunchCache::Cold)
            .help("tear down and set up the layer itself before each cold launch"),
    ];

    fn derive(self, _: &Values) -> Result<Vec<Self>, PointError> {
        substituted(&self)
    }

    fn check(&self) -> Result<(), PointError> {
        check(self)
    }
}

/// A point for each combination of the values of `parameters`. A value that no text uses makes no
/// additional points: a reference is launched once, however many values the other commands take.
fn substituted(p: &LaunchParams) -> Result<Vec<LaunchParams>, PointError> {
    let mut all = vec![LaunchParams {
        parameters: Vec::new(),
        ..p.clone()
    }];
    for parameter in &p.parameters {
        let Some((name, list)) = parameter
            .split_once('=')
            .filter(|(n, v)| !n.is_empty() && !v.is_empty())
        else {
            return Err(PointError::of(
                "launch",
                "parameters",
                format!(" = {parameter}: no value"),
            )
            .hint("write NAME=V1,V2"));
        };
        let place = place_of(name);
        let mut texts = [&p.command, &p.ready, &p.prepare, &p.conclude]
            .into_iter()
            .chain(&p.cmd);
        if !texts.any(|text| text.contains(&place)) {
            continue;
        }
        let values: Vec<&str> = list.split(',').collect();
        if all.len() * values.len() > param::MAX_POINTS {
            return Err(param::too_many_points("launch"));
        }
        all = all
            .iter()
            .flat_map(|p| values.iter().map(move |value| with_value(p, name, value)))
            .collect();
    }
    Ok(all)
}

/// The placeholder for a value.
fn place_of(name: &str) -> String {
    format!("{{{name}}}")
}

fn with_value(p: &LaunchParams, name: &str, value: &str) -> LaunchParams {
    let place = place_of(name);
    let put = |text: &String| text.replace(&place, value);
    let mut made = LaunchParams {
        command: put(&p.command),
        cmd: p.cmd.iter().map(put).collect(),
        ready: put(&p.ready),
        prepare: put(&p.prepare),
        conclude: put(&p.conclude),
        ..p.clone()
    };
    made.parameters.push(format!("{name}={value}"));
    made
}

/// Like [`words`], for a text as the user wrote it. An error if it needs a shell.
pub fn words_alone(workload: &str, name: &str, text: &str) -> Result<Vec<String>, PointError> {
    let error = |why: &str| PointError::of(workload, name, format!(" = {text}: {why}"));
    if let Some(special) = for_a_shell(text) {
        let why = format!("`{special}` needs a shell, and the command runs without one");
        let hint = format!(
            "a shell can be the program: sh -c {}; or put '{special}' in quotes",
            shell_words::quote(text)
        );
        return Err(error(&why).hint(hint));
    }
    split(text).map_err(|why| error(why).hint(QUOTE))
}

/// Checks texts and dependent parameters.
fn check(p: &LaunchParams) -> Result<(), PointError> {
    words_alone("launch", "command", &p.command)?;
    for (name, text) in [("prepare", &p.prepare), ("conclude", &p.conclude)] {
        if !text.is_empty() {
            words_alone("launch", name, text)?;
        }
    }
    for cmd in &p.cmd {
        let Some((layer, command)) = layermark_model::split_layer(cmd) else {
            return Err(
                PointError::of("launch", "cmd", format!(" = {cmd}: it names no layer"))
                    .hint("write LAYER=COMMAND"),
            );
        };
        layer
            .parse::<Spec>()
            .map_err(|e| PointError::of("launch", "cmd", format!(": {e}")))?;
        words_alone("launch", "cmd", command)?;
    }
    ready::parse(&p.ready)?;
    check_names("launch", &p.env)?;
    check_times("launch", &p.timeout, &p.grace)?;
    if p.user()?.is_some() && !p.package && !p.listing {
        return Err(PointError::of("launch", "user", " needs `package`: other users may not enter a layer's directory, but they may enter a package")
            .hint("add --package"));
    }
    check_screen(&p.screen)
}

/// Checks the names of variables.
pub fn check_names(workload: &str, env: &[String]) -> Result<(), PointError> {
    // The text is not shown, because it may be a secret value.
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    if env.iter().any(|n| n.is_empty() || !n.chars().all(allowed)) {
        return Err(PointError::of(
            workload,
            "env",
            ": a variable's name has letters, digits and `_`",
        )
        .hint("write NAME=VALUE, or NAME to take the value from layermark's own environment"));
    }
    Ok(())
}

/// Checks `timeout` and `grace`.
pub fn check_times(workload: &str, timeout: &str, grace: &str) -> Result<(), PointError> {
    for (name, text) in [("timeout", timeout), ("grace", grace)] {
        let time =
            parse_duration(text).map_err(|e| PointError::of(workload, name, format!(": {e}")))?;
        if !(SHORTEST..=LONGEST).contains(&time) {
            return Err(PointError::of(
                workload,
                name,
                format!(" = {text}: it must be between 1ms and 1h"),
            )
            .hint("write a time such as 500ms, 60s or 5m"));
        }
    }
    Ok(())
}

fn check_screen(text: &str) -> Result<(), PointError> {
    let side = |t: &str| t.parse::<u32>().ok().filter(|n| (16..=16384).contains(n));
    match text.split_once('x').map(|(w, h)| (side(w), side(h))) {
        Some((Some(_), Some(_))) => Ok(()),
        _ => Err(
            PointError::of("launch", "screen", format!(" = {text}: not a size"))
                .hint("write WIDTHxHEIGHT, each from 16 to 16384"),
        ),
    }
}

/// Long command lines are cut in labels.
pub fn shorter(command: &str) -> String {
    const LONGEST: usize = 40;
    if command.chars().count() <= LONGEST {
        return command.to_owned();
    }
    let cut: String = command.chars().take(LONGEST - 3).collect();
    format!("{}...", cut.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use layermark_model::{Point, Settings};
    use serde_json::{Value, json};

    fn read(params: Value) -> Result<Vec<Point>, PointError> {
        let Value::Object(params) = params else {
            panic!("not a table")
        };
        let settings = Settings {
            workload: "launch".into(),
            label: None,
            params,
        };
        param::points::<LaunchParams>(&settings, 1.0)
    }

    #[test]
    fn commands_and_values_make_points() {
        let points =
            read(json!({"command": ["sleep {t}", "true"], "parameters": ["t=1,2"]})).unwrap();
        let commands: Vec<&str> = points.iter().map(|p| p.text("command")).collect();
        assert_eq!(commands, ["sleep 1", "sleep 2", "true"]);
        assert_eq!(points[0].params["parameters"], json!(["t=1"]));
        assert_eq!(points[0].label, "sleep 1, t=1");
        assert_eq!(points[2].label, "true");
        let both = json!({"command": ["true"], "prepare": "sleep {t}", "parameters": ["t=1,2"]});
        assert_eq!(
            read(both).unwrap().len(),
            2,
            "a value may stand beside the command"
        );
    }

    #[test]
    fn what_only_a_shell_could_do_is_refused() {
        let refused = [
            ("echo a | wc", "'echo a | wc'"),
            ("a && b", "'a && b'"),
            ("a; b", "'a; b'"),
            ("a > b", "'a > b'"),
            ("a < b", "'a < b'"),
            ("ls *.c", "'ls *.c'"),
            ("echo $HOME", "'echo $HOME'"),
            ("echo \"$HOME\"", "'echo \"$HOME\"'"),
            ("echo `id`", "'echo `id`'"),
        ];
        for (command, quoted) in refused {
            let e = read(json!({"command": command})).unwrap_err();
            assert!(e.message.contains("needs a shell"), "{e}");
            assert!(e.hint.unwrap().contains(&format!("sh -c {quoted}")));
        }
        let meant = [
            "sh -c 'a | b > $c'",
            "a \\| \"|*;\"",
            "a '\\' b",
            "a=b c?d {e}",
        ];
        for command in meant {
            assert_eq!(
                read(json!({"command": command})).unwrap().len(),
                1,
                "{command}"
            );
        }
        let joined = shell_words::join(["sh", "-c", "it's $x | y"]);
        assert_eq!(for_a_shell(&joined), None, "{joined}");
    }

    #[test]
    fn lists_times_parameters_have_one_limit() {
        let list = |n: u32| (0..n).map(|i| i.to_string()).collect::<Vec<_>>();
        let commands = |n| list(n).iter().map(|i| format!("sleep {i}{{t}}")).collect();
        let params = |lists: Vec<String>, values: u32| {
            let values = format!("t={}", list(values).join(","));
            json!({"command": lists, "parameters": [values]})
        };
        assert_eq!(read(params(commands(4), 3)).unwrap().len(), 12);
        for (lists, values) in [(101, 100), (2, 9999), (1, 10_001)] {
            let e = read(params(commands(lists), values)).unwrap_err();
            assert!(e.message.contains("more than 10000 points"), "{e}");
            assert!(e.hint.is_some());
        }
    }

    #[test]
    fn a_layer_has_its_own_command() {
        let cmds = [
            "image=./a.AppImage",
            "fuse,delay=6ms=./b -x y=z",
            "overlay:upper=./c",
        ];
        let point = read(json!({"command": "app", "cmd": cmds}))
            .unwrap()
            .remove(0);
        let p: LaunchParams = point.typed().unwrap();
        let of = |layer: &str| p.clone().for_layer(&layer.parse().unwrap()).command;
        assert_eq!(of("native"), "app");
        assert_eq!(of("image:erofs"), "./a.AppImage");
        assert_eq!(of("fuse,delay=6ms"), "./b -x y=z");
        assert_eq!(of("fuse"), "app");
        assert_eq!(
            (of("overlay:upper").as_str(), of("overlay:merged").as_str()),
            ("./c", "app")
        );
    }

    #[test]
    fn only_cold_points_restart_their_layer() {
        let points = read(json!({"cache": ["cold", "warm"], "restart": true})).unwrap();
        let restart: Vec<bool> = points.iter().map(|p| p.flag("restart")).collect();
        assert_eq!(restart, [true, false]);
    }

    #[test]
    fn a_user_goes_into_a_layer_by_numbers() {
        let point = read(json!({"user": "root", "package": true}))
            .unwrap()
            .remove(0);
        let p: LaunchParams = point.typed().unwrap();
        assert_eq!(p.for_layer(&"fuse".parse().unwrap()).user, "0:0");
    }

    #[test]
    fn says_what_would_be_right() {
        for (params, part) in [
            (json!({"command": ""}), "names no program"),
            (json!({"command": "a 'b"}), "quote"),
            (json!({"ready": "prot=1"}), "no such condition"),
            (json!({"timeout": "0s"}), "between 1ms and 1h"),
            (
                json!({"grace": "2h"}),
                "`grace` = 2h: it must be between 1ms and 1h",
            ),
            (json!({"timeout": "x"}), "timeout"),
            (json!({"env": ["x y"]}), "letters, digits"),
            (json!({"env": ["x=1"]}), "letters, digits"),
            (json!({"env": [""]}), "letters, digits"),
            (json!({"env": [1]}), "must be text"),
            (json!({"cmd": ["=x"]}), "names no layer"),
            (json!({"screen": "0x0"}), "not a size"),
            (json!({"parameters": ["x"]}), "no value"),
            (json!({"add": ["/x"]}), "no effect"),
            (json!({"warmup": 100_000}), "1000"),
            (json!({"restart": true}), "no effect"),
            (
                json!({"user": "nobody-of-that-name", "package": true}),
                "no such user",
            ),
            (json!({"user": "root"}), "needs `package`"),
            (json!({"tracing": true}), "`tracing` is not a parameter"),
        ] {
            let e = read(params.clone()).unwrap_err();
            assert!(e.message.contains(part), "{params}: {e}");
        }
    }
}
