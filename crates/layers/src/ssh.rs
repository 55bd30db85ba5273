//! A directory on another machine, through the system's OpenSSH client with the user's configuration and agent.

use std::{ffi::OsString, fs, path::Path, slice};

use layermark_model::{Missing, Spec};

use crate::{
    About, Base, Group, LayerError, LayerInfo, Place, Undo, child,
    command::text,
    entered::{self, Start, Way, describe},
    kind::LayerKind,
    needs,
    options::{bad, layer_options},
    sandbox,
};

/// A machine that `ssh` leads to.
pub(crate) struct Ssh;

const PROGRAM: &str = "ssh";

layer_options! {
    pub(crate) struct SshOptions {
        /// [user@]host[:dir]: a host as ssh knows it, and a directory there (default: /tmp); work is done in a new
        /// one below it
        variant: String = "" reaches Network,
        // Text, not a number: an empty `port=` is accepted, as if it were not given.
        /// the server's port; default: as ssh is configured
        port: String = "",
        /// a file with a private key, tried first; the agent's others are not tried
        identity: Option<String> = "" reaches Secrets,
        /// a configuration file for ssh in place of yours
        config: Option<String> = "" reaches Program,
        /// on: the binary stays in ~/.cache/layermark there, named by its hash, and is sent only once
        keep: bool = "off" ["on", "off"],
    }
}

/// What no configuration changes: nothing is asked, no terminal and no forwarding is made, the agent is what runs
/// there, and ssh stays our child. Clients before 8.7 do not know the session's options. A connection that the
/// user holds open for others is used.
const FIXED: &[&str] = &[
    "-T",
    "-x",
    "-a",
    "-o",
    "BatchMode=yes",
    "-o",
    "ConnectTimeout=10",
    "-o",
    "ControlMaster=no",
    "-o",
    "ClearAllForwardings=yes",
    "-o",
    "PermitLocalCommand=no",
    "-o",
    "RemoteCommand=none",
    "-o",
    "IgnoreUnknown=SessionType,ForkAfterAuthentication,StdinNull",
    "-o",
    "SessionType=default",
    "-o",
    "ForkAfterAuthentication=no",
    "-o",
    "StdinNull=no",
    "-o",
    "LogLevel=INFO",
];

/// What the variant names.
#[derive(Debug, PartialEq, Eq)]
struct Destination {
    /// `host` or `user@host`.
    login: String,
    dir: String,
}

impl Destination {
    /// The user and the host go into commands of the user's configuration (`%r`, `%h`), which a shell reads. So
    /// only characters of names and addresses are allowed.
    fn parse(text: &str) -> Result<Self, &'static str> {
        // The directory may have an @ too.
        let login = text.find(":/").map_or(text, |at| &text[..at]);
        let (user, rest) = match login.rfind('@') {
            Some(at) => (Some(&text[..at]), &text[at + 1..]),
            None => (None, text),
        };
        let (host, dir) = match rest.strip_prefix('[').and_then(|r| r.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, dir)) => match dir.strip_prefix(':') {
                Some(dir) => (host, Some(dir)),
                None => return Err("is not [user@]host[:dir]"),
            },
            None => match rest.split_once(':') {
                Some((host, dir)) => (host, Some(dir)),
                None => (rest, None),
            },
        };
        let is_name = |name: &str, more: &str| {
            let allowed = |c: char| c.is_ascii_alphanumeric() || more.contains(c);
            !name.is_empty() && !name.starts_with('-') && name.chars().all(allowed)
        };
        if !is_name(host, "._-:%") {
            return Err("names no host: write [user@]host[:dir], an IPv6 address in brackets");
        }
        if user.is_some_and(|user| !is_name(user, "._-+@")) {
            return Err("names no user: write [user@]host[:dir]");
        }
        let dir = dir.unwrap_or("/tmp");
        if !dir.starts_with('/') {
            return Err("has a directory that is not an absolute path");
        }
        let login = user.map_or_else(|| host.to_owned(), |user| format!("{user}@{host}"));
        let dir = dir.into();
        Ok(Self { login, dir })
    }

    fn of(spec: &Spec, options: &SshOptions) -> Result<Self, LayerError> {
        let text = &options.variant;
        Self::parse(text).map_err(|must| bad(spec, "variant", text, must.into()))
    }
}

/// The options that lead to the host, with this configuration file.
fn leading_words(options: &SshOptions, config: &str) -> Vec<OsString> {
    let identity = options.identity.as_deref().unwrap_or_default();
    let options = [("-F", config), ("-p", &options.port), ("-i", identity)];
    let options = options.into_iter().filter(|(_, value)| !value.is_empty());
    let mut words: Vec<OsString> = options.flat_map(|(o, v)| [o.into(), v.into()]).collect();
    if !identity.is_empty() {
        words.extend(["-o", "IdentitiesOnly=yes"].map(OsString::from));
    }
    words
}

impl LayerKind for Ssh {
    const ID: &'static str = "ssh";
    type Options = SshOptions;

    fn describe(_: &Spec, _: &SshOptions) -> LayerInfo {
        describe::info(
            Group::Network,
            About::of(
                "a directory on another machine, through ssh",
                " (-l ssh:user@host:/srv/x)",
            ),
            "its disk belongs to another machine",
        )
    }

    fn check(spec: &Spec, options: &SshOptions) -> Result<(), LayerError> {
        Destination::of(spec, options)?;
        let port = &options.port;
        if !port.is_empty() && !port.parse::<u16>().is_ok_and(|port| port > 0) {
            return Err(bad(spec, "port", port, "is not a port: 1 to 65535".into()));
        }
        for (name, file) in [("identity", &options.identity), ("config", &options.config)] {
            let must = match file.as_ref().map(Path::new) {
                Some(file) if !file.is_absolute() => "is not an absolute path",
                Some(file) if !file.is_file() => "is not a file",
                _ => continue,
            };
            let file = file.as_deref().unwrap_or_default();
            return Err(bad(spec, name, file, must.into()));
        }
        Ok(())
    }

    /// Without root, layermark is in a user namespace, where ssh would not find the user's keys.
    fn missing(_: &Spec, _: &SshOptions) -> Vec<Missing> {
        sandbox::not_root()
            .into_iter()
            .chain(needs::program(PROGRAM, "openssh-client"))
            .collect()
    }

    fn open(
        base: &Base,
        spec: &Spec,
        options: Self::Options,
        undo: &mut Undo,
    ) -> Result<Box<dyn Place>, LayerError> {
        let layer = spec.to_string();
        let Destination { login, dir } = Destination::of(spec, &options)?;
        let mut config = String::new();
        if let Some(by_users) = &options.config {
            // What is checked is what ssh reads: the path may lead to another file a moment later.
            base.emptied(undo);
            let copy = base.dir.join("ssh_config");
            let copied = text(Path::new(by_users)).and_then(|text| fs::write(&copy, text));
            copied.map_err(LayerError::io(&layer, "read", Path::new(by_users)))?;
            config = copy.to_string_lossy().into_owned();
        }
        // Not one that only the PATH of the user has.
        let ssh = child::program(PROGRAM).unwrap_or_else(|| PROGRAM.into());
        let ssh = ssh.into_os_string();
        let words = |ssh: &OsString, config, fixed: &[&str]| {
            let fixed: Vec<OsString> = fixed.iter().map(OsString::from).collect();
            let host = ["--".into(), OsString::from(&login)];
            [
                slice::from_ref(ssh),
                &leading_words(&options, config),
                &fixed,
                &host,
            ]
            .concat()
        };
        let version = [ssh.clone(), "-V".into()];
        let version = child::run(&layer, &mut entered::users_command(&version))?;
        let way = Way {
            command: words(&ssh, &config, FIXED),
            by_hand: words(
                &PROGRAM.into(),
                options.config.as_deref().unwrap_or_default(),
                &[],
            ),
            start: Start::Sent { keep: options.keep },
            drop_caches: Vec::new(),
            dir: dir.into(),
            notes: vec![("host".into(), login.clone())],
            versions: vec![("ssh".into(), version)],
        };
        Ok(Box::new(entered::open(base, spec, way)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::LayerOptions;

    #[test]
    fn a_destination_has_a_host_and_may_have_a_user_and_a_directory() {
        for (text, login, dir) in [
            ("nas", "nas", "/tmp"),
            ("nas:/srv/x", "nas", "/srv/x"),
            ("me@nas:/srv/a@b", "me@nas", "/srv/a@b"),
            ("nas:/srv/a@b", "nas", "/srv/a@b"),
            ("me@nas.example.org:/a:b", "me@nas.example.org", "/a:b"),
            ("me@[fe80::1%eth0]:/srv", "me@fe80::1%eth0", "/srv"),
            ("[::1]", "::1", "/tmp"),
        ] {
            let [login, dir] = [login, dir].map(str::to_owned);
            assert_eq!(
                Destination::parse(text),
                Ok(Destination { login, dir }),
                "{text}"
            );
        }
    }

    #[test]
    fn a_host_is_no_option_and_no_command() {
        for text in [
            "-oProxyCommand=touch ran",
            "-oProxyCommand=x:/tmp",
            "me@-oProxyCommand=x",
            "-lroot@nas",
            "a b:/tmp",
            "$(touch ran)",
            "`id`@nas",
            "nas;id",
            "me@",
            "@nas",
            ":/srv",
            "[::1",
            "[::1]x",
            "nas:srv",
            "nas\n:/srv",
        ] {
            assert!(Destination::parse(text).is_err(), "{text}");
        }
        for (text, says) in [
            ("ssh", "has to be given"),
            ("ssh:-oProxyCommand", "names no host"),
            ("ssh:nas,port=0", "is not a port"),
            ("ssh:nas,port=22 -v", "is not a port"),
            ("ssh:nas,identity=id", "is not an absolute path"),
            ("ssh:nas,config=/nonexistent", "is not a file"),
            ("ssh:nas,keep=yes", "is not one of on, off"),
        ] {
            let e = crate::check(&text.parse().unwrap()).unwrap_err();
            assert!(e.is_usage() && e.to_string().contains(says), "{text}: {e}");
            assert!(e.hint().is_some());
        }
    }

    #[test]
    fn options_come_before_the_host() {
        let options = |text: &str| SshOptions::read(&text.parse().unwrap()).unwrap();
        let words = leading_words(&options("ssh:nas,port=2222,identity=/k y"), "/c");
        let expected = [
            "-F",
            "/c",
            "-p",
            "2222",
            "-i",
            "/k y",
            "-o",
            "IdentitiesOnly=yes",
        ];
        assert_eq!(words, expected);
        assert!(leading_words(&options("ssh:nas"), "").is_empty());
    }
}
