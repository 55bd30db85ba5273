//! Commands in a report name the run's store, unless it is the default one.

use std::path::Path;

use layermark_model::{RunStatus, StoreOption};
use layermark_report::{Report, render};
use layermark_testkit::sample;

/// The report in the formats that print commands, and the short answer on the terminal.
fn texts(report: &Report) -> Vec<(&'static str, String)> {
    let mut short = Vec::new();
    render::print(report, render::Style::default(), &mut short).unwrap();
    let mut all = vec![("short", short)];
    for name in ["x.md", "x.full.md", "x.html", "x.txt"] {
        let mut out = Vec::new();
        let exporter = render::for_path(name.as_ref()).unwrap();
        exporter.write(report, &mut out).unwrap();
        all.push((name, out));
    }
    let text = |(name, out)| (name, String::from_utf8(out).unwrap());
    all.into_iter().map(text).collect()
}

/// Commands about this run in a text, until the quote or the tag that ends them.
fn commands<'a>(text: &'a str, run: &str) -> Vec<&'a str> {
    let starts = text.match_indices("layermark ").map(|(at, _)| &text[at..]);
    let ends = ['`', '<', '\n', '"'];
    let whole = starts.filter_map(|rest| rest.split(ends).next());
    whole.filter(|command| command.contains(run)).collect()
}

fn check(store: StoreOption, named: &str) {
    let (mut run, trials) = sample::full().build();
    (run.status, run.store) = (RunStatus::Stopped, store);
    for (name, text) in texts(&Report::build(&run, &trials)) {
        // A line of the terminal may end anywhere.
        let text = text.replace("\n  ", " ").replace("&#39;", "'");
        let found = commands(&text, &run.id);
        assert!(!found.is_empty(), "no command in {name}: {text}");
        for command in found {
            assert_eq!(command.contains("--store"), !named.is_empty(), "{command}");
            assert!(command.contains(&format!("{}{named}", run.id)), "{command}");
        }
    }
}

#[test]
fn commands_name_a_store_that_is_not_the_default_one() {
    let store = StoreOption::new(Path::new("/srv/my runs/s.db"));
    check(store, " --store '/srv/my runs/s.db'");
    check(StoreOption::default(), "");
}

/// A shell would take a pasted second line for another command.
#[test]
fn the_command_for_more_is_on_one_line_however_narrow_the_window_is() {
    let (mut run, trials) = sample::full().build();
    run.store = StoreOption::new(Path::new("/srv/some/long/path/of/runs.db"));
    let style = render::Style {
        width: 60,
        ..render::Style::default()
    };
    let mut text = Vec::new();
    render::print(&Report::build(&run, &trials), style, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let command = format!("layermark report {}{} --full", run.id, run.store);
    assert!(text.ends_with(&format!("\nMore: {command}\n")), "{text}");
}

/// The page has the first trials only, and a command for the others.
#[test]
fn the_command_for_all_trials_of_a_long_run_names_the_store() {
    let (mut run, trials) = sample::full().build();
    run.store = StoreOption::new(Path::new("/srv/s.db"));
    let mut report = Report::build(&run, &trials);
    let row = report.trials[0].clone();
    report.trials.resize(5_000, row);
    let mut page = Vec::new();
    let exporter = render::for_path("x.html".as_ref()).unwrap();
    exporter.write(&report, &mut page).unwrap();
    let command = format!("layermark report {} --store /srv/s.db -o", run.id);
    assert!(String::from_utf8(page).unwrap().contains(&command));
}

/// It is in no store of the reader's, so nothing continues it.
#[test]
fn a_run_that_was_sent_is_named_by_its_file_and_made_anew() {
    let (mut run, trials) = sample::full().build();
    run.status = RunStatus::Stopped;
    run.store = StoreOption::archive(Path::new("x.lm"));
    for (name, text) in texts(&Report::build(&run, &trials)) {
        let text = text.replace("\n  ", " ");
        let found = commands(&text, "x.lm");
        assert!(!found.is_empty(), "no command in {name}: {text}");
        assert!(found.iter().all(|c| !c.contains("--resume")), "{found:?}");
        let of_id = commands(&text, &run.id);
        assert!(of_id.is_empty(), "{of_id:?}");
    }
}
