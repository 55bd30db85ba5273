//! Variables of launched programs. A run is stored with their names only, since their values may be
//! secrets.

use std::env;

use layermark_model::{Environment, ParamKind, Plan};
use serde_json::{Map, Value};

use crate::{Catalog, LabError};

/// Moves the values out of the plan, which keeps the names. A name without a value gets the value
/// from the request, or else from layermark's own environment.
pub(crate) fn take(
    plan: &mut Plan,
    given: &Environment,
    catalog: Catalog,
) -> Result<Environment, LabError> {
    let (mut found, mut names) = (Environment::new(), Vec::new());
    for settings in &mut plan.work {
        let params = catalog.workload(&settings.workload)?.params();
        for param in params.into_iter().filter(|p| p.kind == ParamKind::Env) {
            for text in all_texts(&mut settings.params, param.name) {
                let split = text.split_once('=');
                let name = split.map_or(text.as_str(), |(name, _)| name).to_owned();
                if let Some((_, value)) = split {
                    let other = found.insert(name.clone(), value.to_owned());
                    if other.is_some_and(|other| other != value) {
                        return Err(LabError::TwoValues { name });
                    }
                }
                text.clone_from(&name);
                names.push(name);
            }
        }
    }
    if let Some(name) = given.keys().find(|name| !names.contains(name)) {
        return Err(LabError::NoVariable { name: name.clone() });
    }
    found.extend(given.clone());
    let mut lacking = Vec::new();
    for name in names {
        if found.contains_key(&name) || name.is_empty() {
            continue; // an empty name is refused with the point
        }
        match env::var(&name) {
            Ok(value) => {
                found.insert(name, value);
            }
            Err(_) => lacking.push(name),
        }
    }
    if lacking.is_empty() {
        return Ok(found);
    }
    Err(LabError::NoValue { names: lacking })
}

/// The texts of this parameter, also in tables within the settings.
fn all_texts<'a>(params: &'a mut Map<String, Value>, name: &str) -> Vec<&'a mut String> {
    let mut found = Vec::new();
    for (key, value) in params {
        match value {
            value if key == name => found.extend(texts(value)),
            Value::Array(items) => {
                let tables = items.iter_mut().filter_map(Value::as_object_mut);
                found.extend(tables.flat_map(|table| all_texts(table, name)));
            }
            _ => {}
        }
    }
    found
}

/// The text, or the texts of a list.
fn texts(value: &mut Value) -> Vec<&mut String> {
    let all = match value {
        Value::Array(items) => items.iter_mut().collect(),
        one => vec![one],
    };
    let text = |value| match value {
        &mut Value::String(ref mut text) if !text.is_empty() => Some(text),
        _ => None,
    };
    all.into_iter().filter_map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(env: &str) -> Plan {
        let table = "[[work]]\nworkload = 'launch'\ncommand";
        let text = format!("name = 'x'\n{table} = 'a'\nenv = {env}\n{table} = 'b'\nenv = 'B=2'\n");
        Plan::from_toml(&text).unwrap()
    }

    fn taken(env: &str, given: &[(&str, &str)]) -> Result<(Plan, Environment), LabError> {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let given = given.iter().map(pair).collect();
        let mut plan = plan(env);
        let found = take(&mut plan, &given, Catalog::default())?;
        Ok((plan, found))
    }

    #[test]
    fn a_plan_keeps_names_and_no_values() {
        let (plan, env) = taken("['A=s=1', 'PATH']", &[]).unwrap();
        assert_eq!(plan.work[0].params["env"], serde_json::json!(["A", "PATH"]));
        assert_eq!(plan.work[1].params["env"], "B");
        assert_eq!((env["A"].as_str(), env["B"].as_str()), ("s=1", "2"));
        assert_eq!(env["PATH"], env::var("PATH").unwrap());
        let (_, env) = taken("'A=1'", &[("A", "2")]).unwrap();
        assert_eq!(env["A"], "2", "what is given wins");
    }

    #[test]
    fn a_step_of_a_plan_keeps_names_and_no_values() {
        let text = "name = 'x'\n[[work]]\nworkload = 'steps'\nenv = 'A=1'\n\
            [[work.steps]]\nrun = 'b'\nenv = ['B=secret']\n";
        let mut plan = Plan::from_toml(text).unwrap();
        let env = take(&mut plan, &Environment::new(), Catalog::default()).unwrap();
        assert_eq!((env["A"].as_str(), env["B"].as_str()), ("1", "secret"));
        let kept = serde_json::to_string(&plan).unwrap();
        assert!(
            kept.contains("[\"B\"]") && !kept.contains("secret"),
            "{kept}"
        );
    }

    #[test]
    fn what_is_missing_or_not_clear_is_said_by_name() {
        for (env, given, words) in [
            ("'LM_NO_SUCH'", None, "no value for LM_NO_SUCH"),
            ("'B=3secret'", None, "B has two values"),
            ("'A=1'", Some(("C", "3secret")), "takes a variable C"),
        ] {
            let e = taken(env, given.as_slice()).unwrap_err();
            let text = e.to_string();
            assert!(text.contains(words) && !text.contains("secret"), "{text}");
            assert!(e.exit_code() == 2 && e.hint().is_some(), "{text}");
        }
    }
}
