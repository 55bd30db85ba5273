//! Names of hosts, as the user lists them.

/// Which hosts were asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum HostsAsked {
    /// The launcher knows.
    #[default]
    Unsaid,
    /// So many.
    Count(u32),
    /// These.
    Names(Vec<String>),
}

/// Most hosts of a fleet.
pub const MOST_HOSTS: usize = 10_000;

/// A host that has not said its name is called this and the number of its task.
const UNNAMED: &str = "task ";

impl HostsAsked {
    /// Reads a number, or names with ranges: `n1,n2` or `rack[01-16],login`.
    ///
    /// # Errors
    ///
    /// If it is neither, or too many.
    pub fn read(text: &str) -> Result<Self, String> {
        if let Ok(count) = text.trim().parse::<u32>() {
            let possible = (1..=MOST_HOSTS as u32).contains(&count);
            return possible
                .then_some(Self::Count(count))
                .ok_or_else(|| format!("{count} hosts: a fleet has 1 to {MOST_HOSTS}"));
        }
        let mut names = Vec::new();
        for part in parts(text) {
            expand(part, &mut names)?;
        }
        if names.is_empty() {
            return Err("no host is named".into());
        }
        Ok(Self::Names(names))
    }
}

/// Parts between commas that are not in brackets.
fn parts(text: &str) -> Vec<&str> {
    let mut depth = 0;
    let parts = text.split(move |c| {
        depth += i32::from(c == '[') - i32::from(c == ']');
        c == ',' && depth <= 0
    });
    parts.map(str::trim).filter(|p| !p.is_empty()).collect()
}

fn expand(part: &str, names: &mut Vec<String>) -> Result<(), String> {
    let Some((before, rest)) = part.split_once('[') else {
        return add(part.to_owned(), names);
    };
    let (ranges, after) = rest
        .split_once(']')
        .ok_or_else(|| format!("`{part}` has a bracket that is not closed"))?;
    for range in ranges.split(',') {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| text.parse::<u32>();
        let (Ok(from), Ok(to)) = (number(low), number(high)) else {
            return Err(format!("`{range}` in `{part}` is not a range of numbers"));
        };
        if from > to {
            return Err(format!("`{range}` in `{part}` ends before it begins"));
        }
        for n in from..=to {
            add(
                format!("{before}{n:0width$}{after}", width = low.len()),
                names,
            )?;
        }
    }
    Ok(())
}

fn add(name: String, names: &mut Vec<String>) -> Result<(), String> {
    if !is_name(&name) {
        return Err(format!("`{name}` is not the name of a host"));
    }
    if names.len() == MOST_HOSTS {
        return Err(format!("more than {MOST_HOSTS} hosts"));
    }
    names.push(name);
    Ok(())
}

/// Whether a text can be the name of a host: no option, and nothing that a shell reads.
pub(crate) fn is_name(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"._-:@".contains(&b);
    !text.starts_with('-') && !text.is_empty() && text.bytes().all(plain)
}

/// What a host is called that has not said its name; [`is_name`] says of none that it is one.
pub(crate) fn unnamed(task: u32) -> String {
    format!("{UNNAMED}{task}")
}

/// Whether a host has not said its name.
pub(crate) fn is_unnamed(name: &str) -> bool {
    name.starts_with(UNNAMED)
}

/// The same names, each once: the second `a` is `a#2`, which [`is_name`] says of no name.
pub fn each_once(names: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut seen = std::collections::BTreeMap::<String, u32>::new();
    let unique = |name: String| {
        let times = seen.entry(name.clone()).or_default();
        *times += 1;
        if *times == 1 {
            name
        } else {
            format!("{name}#{times}")
        }
    };
    names.into_iter().map(unique).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_a_number_or_names_with_ranges() {
        let names = |text: &str| match HostsAsked::read(text) {
            Ok(HostsAsked::Names(names)) => names,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(HostsAsked::read("12"), Ok(HostsAsked::Count(12)));
        assert_eq!(names("a, b,a"), ["a", "b", "a"]);
        assert_eq!(
            names("n[08-10,12],login.x"),
            ["n08", "n09", "n10", "n12", "login.x"]
        );
        assert_eq!(each_once(names("a,b,a,a")), ["a", "b", "a#2", "a#3"]);
    }

    #[test]
    fn what_names_no_hosts_is_refused() {
        for (text, says) in [
            ("0", "1 to 10000"),
            ("10001", "1 to 10000"),
            (" , ", "no host"),
            ("n[1-", "not closed"),
            ("n[a-b]", "not a range"),
            ("n[3-1]", "ends before"),
            ("n[1-20000]", "more than"),
            ("-oProxyCommand=x", "not the name"),
            ("a;b", "not the name"),
        ] {
            let e = HostsAsked::read(text).unwrap_err();
            assert!(e.contains(says), "{text}: {e}");
        }
    }
}
