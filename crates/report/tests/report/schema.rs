//! The published schema is the code's, and reports keep to it.
//! After a wanted change: `UPDATE_SCHEMA=1 cargo test -p layermark-report --test report schema`.

use std::path::PathBuf;

use layermark_report::{Report, schema};
use layermark_testkit::{
    fixtures::{self, Fixture},
    sample::{self, Sample},
};

fn published() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema/report.json")
}

#[test]
fn the_published_schema_is_the_codes() {
    let wanted = format!("{}\n", serde_json::to_string_pretty(&schema()).unwrap());
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::create_dir_all(published().parent().unwrap()).unwrap();
        std::fs::write(published(), &wanted).unwrap();
    }
    let found = std::fs::read_to_string(published()).unwrap_or_default();
    assert!(
        found == wanted,
        "docs/schema/report.json is out of date: UPDATE_SCHEMA=1 cargo test -p layermark-report --test report schema"
    );
}

#[test]
fn reports_keep_to_it() {
    let text = std::fs::read_to_string(published()).unwrap();
    let validator = jsonschema::validator_for(&serde_json::from_str(&text).unwrap()).unwrap();
    let few = Sample {
        blocks: 2,
        control: false,
        ..Sample::default()
    };
    let made = [Sample::default(), sample::full(), few].map(|sample| sample.build());
    let kept = fixtures::ALL.iter().map(Fixture::read);
    let kept = kept.map(|kept| (kept.run, kept.trials));
    for (run, trials) in made.into_iter().chain(kept) {
        let first = &trials[..trials.len().min(1)];
        for trials in [&trials[..], first, &[]] {
            let json = serde_json::to_value(Report::build(&run, trials)).unwrap();
            let errors: Vec<String> = validator
                .iter_errors(&json)
                .map(|e| format!("{}: {e}", e.instance_path()))
                .collect();
            assert!(errors.is_empty(), "{}: {errors:#?}", run.id);
        }
    }
    let not_a_report = serde_json::json!({"schema": "layermark.report/1"});
    assert!(
        !validator.is_valid(&not_a_report),
        "the schema asks for something"
    );
}

#[test]
fn the_contract_of_the_design_is_there() {
    let (run, trials) = Sample::default().build();
    let json = serde_json::to_value(Report::build(&run, &trials)).unwrap();
    assert_eq!(json["schema"], "layermark.report/1");
    for field in ["run", "seed", "machine", "layers", "results", "advice"] {
        assert!(!json[field].is_null(), "{field}");
    }
    let fields = [
        "workload",
        "point",
        "layer",
        "metric",
        "unit",
        "value",
        "interval",
        "trials",
        "ratio",
        "extra_us",
        "verdict",
        "latency_us",
        "cpu_s_per_gib",
        "served_by",
        "durability",
        "write_back_debt",
        "flags",
    ];
    for row in json["results"].as_array().unwrap() {
        for field in fields {
            assert!(row.get(field).is_some(), "{field}");
        }
    }
    let back: Report = serde_json::from_value(json.clone()).unwrap();
    assert_eq!(
        serde_json::to_value(back).unwrap(),
        json,
        "a report reads back as it was"
    );
}
