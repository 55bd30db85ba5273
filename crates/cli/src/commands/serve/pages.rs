//! The pages: history, a run, a comparison of two runs, a trend.

use std::collections::{BTreeMap, BTreeSet};

use layermark_model::RunStatus;
use layermark_report::{Report, Tally, render};
use layermark_store::{Filter, Store, Summary};
use maud::{Markup, PreEscaped, html};

use super::{
    Site,
    answer::{Answer, Query, escaped},
    frame::around,
};
use crate::{
    commands::{
        compare,
        history::{self, trend},
        stored,
    },
    failure::Failure,
};

/// Default of `limit`: for the list of runs, and for a trend.
const LISTED: usize = 50;
const OF_A_TREND: usize = 100;
/// Hosts of a fleet that a line of the list names.
const LINKED: usize = 4;

impl Site {
    /// The history page: the runs of the store.
    pub fn history(&self, query: &Query) -> Result<Answer, Failure> {
        let mut store = self.store()?;
        let runs = store.list(filter(query, LISTED))?;
        let tallies = self.tallies_of(&mut store, &runs);
        let runs: Vec<(Summary, Option<Tally>)> = runs.into_iter().zip(tallies).collect();
        let limit = query.positive("limit").unwrap_or(LISTED);
        let body = html! {
            h1 { "Runs" }
            @if runs.is_empty() {
                p { "No run yet, or none that matches. To make one: " code { "layermark run" } }
            } @else {
                form action="/compare" {
                    div.scroll tabindex="0" role="region" aria-label="Runs" { (table(&runs)) }
                    p.ask { button { "Compare old with new" } }
                }
                @if runs.len() == limit { p { a href=(older(query, limit * 4)) { "Older runs" } } }
                h2 { "Over many runs" }
                (trend_form(("", ""), runs.iter().map(|(run, _)| run), &points(&mut store, runs.first().map(|(run, _)| run))))
            }
        };
        Ok(Answer::Page(around("history", &body)))
    }

    /// The tallies of these runs. Cached for finished runs, because they read all trials.
    fn tallies_of(&self, store: &mut Store, runs: &[Summary]) -> Vec<Option<Tally>> {
        let key = |run: &Summary| (run.id.clone(), run.trials);
        let mut kept = self.tallies();
        let is_new =
            |run: &&Summary| run.status == RunStatus::Running || !kept.contains_key(&key(run));
        let fresh: Vec<Summary> = runs.iter().filter(is_new).cloned().collect();
        let tallies = history::tallies(store, &fresh);
        let mut at_work = BTreeMap::new();
        for (run, tally) in fresh.iter().zip(tallies) {
            // What a running one says may change without another trial.
            match run.status {
                RunStatus::Running => at_work.insert(key(run), tally),
                _ => kept.insert(key(run), tally),
            };
        }
        let of = |run| {
            let at = key(run);
            at_work
                .get(&at)
                .or_else(|| kept.get(&at))
                .cloned()
                .flatten()
        };
        runs.iter().map(of).collect()
    }

    /// The page of a run: live until it ends, then its report.
    pub fn run(&self, name: &str) -> Result<Answer, Failure> {
        let (run, trials) = stored::load(&mut self.store()?, name)?;
        if run.id != name {
            return Ok(Answer::To(format!("/run/{}", run.id)));
        }
        if run.status != RunStatus::Running {
            return Ok(Answer::Report(page(&stored::build(&run, &trials))?));
        }
        let (id, plan) = (run.id.clone(), run.plan.name.clone());
        let title = format!("{plan} since {}", history::time(run.started_ms));
        let view = self.live.look(&id, || Ok::<_, Failure>((run, trials)))?;
        let body = html! {
            h1 { "Run of " (plan) ", in progress" }
            p.lost id="lost" role="status" hidden {}
            noscript { p { "Without JavaScript this page stands still: " a href={ "/run/" (id) } { "look again" } "." } }
            div id="live" data-events={ "/run/" (id) "/events" } data-sign=(self.sign.as_str()) { (PreEscaped(&view.html)) }
            script src="/live.js" defer {}
        };
        Ok(Answer::Page(around(&title, &body)))
    }

    /// The page that compares a run with an older one.
    pub fn compare(&self, query: &Query) -> Result<Answer, Failure> {
        let (old, new) = (
            query.get("old").unwrap_or("last~1"),
            query.get("new").unwrap_or("last"),
        );
        let mut store = self.store()?;
        let (old, new) = (
            stored::report(&mut store, old)?,
            stored::report(&mut store, new)?,
        );
        let both = compare::of_two(&old, &new, new.delta)?;
        let title = format!("run {} against {}", new.run, old.run);
        Ok(Answer::Page(around(&title, &render::comparison(&both))))
    }

    /// The trend page, with the same contents as `history --trend`.
    pub fn trend(&self, query: &Query) -> Result<Answer, Failure> {
        let (point, layer) = (
            query.get("point").unwrap_or(""),
            query.get("layer").unwrap_or(""),
        );
        let mut store = self.store()?;
        let runs = store.list(filter(query, OF_A_TREND))?;
        let points = points(&mut store, runs.first());
        let trend = trend::of(&mut store, &runs, point, layer)?;
        let body = html! {
            (render::trend(&trend.drawn()))
            (trend_form((point, layer), runs.iter(), &points))
        };
        Ok(Answer::Page(around("trend", &body)))
    }
}

fn filter(query: &Query, limit: usize) -> Filter {
    Filter {
        plan: query.get("plan").map(str::to_owned),
        host: query.get("host").map(str::to_owned),
        limit: query.positive("limit").unwrap_or(limit),
        ..Filter::default()
    }
}

/// The address of a longer list of the same runs.
fn older(query: &Query, limit: usize) -> String {
    let chosen = ["plan", "host"].into_iter();
    let chosen = chosen.filter_map(|key| Some(format!("&{key}={}", escaped(query.get(key)?))));
    format!("/?limit={limit}") + &chosen.collect::<String>()
}

/// The run that the newest one can be compared with: the next older one of the same plan and layers.
fn like_newest(runs: &[(Summary, Option<Tally>)]) -> Option<usize> {
    let (newest, _) = runs.first()?;
    let is_like = |(run, _): &(Summary, Option<Tally>)| {
        (&run.name, &run.layers) == (&newest.name, &newest.layers)
    };
    Some(1 + runs[1..].iter().position(is_like)?)
}

fn table(runs: &[(Summary, Option<Tally>)]) -> Markup {
    let like = like_newest(runs);
    html! {
        table {
            thead { tr { @for head in ["Old", "New", "#", "Run", "Started", "Plan", "Status", "Verdicts", "Layers"] { th scope="col" { (head) } } } }
            tbody { @for (n, (run, tally)) in runs.iter().enumerate() { (line(run, tally.as_ref(), [like == Some(n), n == 0 && like.is_some()])) } }
        }
    }
}

/// `chosen`: as the old run, and as the new one.
fn line(run: &Summary, tally: Option<&Tally>, chosen: [bool; 2]) -> Markup {
    let [old, new] = chosen;
    let (id, name) = (&run.id, format!("run #{}", run.number));
    html! {
        tr {
            td { input type="radio" name="old" value=(id) required checked[old] aria-label={ (name) " as the old one" }; }
            td { input type="radio" name="new" value=(id) required checked[new] aria-label={ (name) " as the new one" }; }
            td.num { (run.number) }
            th scope="row" { a href={ "/run/" (id) } { code { (id) } } (machine(run)) }
            td { (history::time(run.started_ms)) }
            td { a href={ "/?plan=" (escaped(&run.name)) } { (run.name) } }
            td { (history::status(run.status)) }
            td {
                (tally.map_or_else(|| "-".into(), history::verdicts))
                @if let Some(headline) = tally.and_then(|t| t.headline.as_ref()) { br; small { (headline) } }
            }
            td { @for layer in &run.layers { code { (layer) } " " } }
        }
    }
}

/// The label of the machine, which leads to the runs of this host; that of a fleet to those of each of its hosts.
fn machine(run: &Summary) -> Markup {
    let Some(label) = &run.label else {
        return html! {};
    };
    let hosts = match run.hosts.as_slice() {
        [] => std::slice::from_ref(label),
        hosts => &hosts[..hosts.len().min(LINKED)],
    };
    html! {
        br;
        small {
            @for (n, host) in hosts.iter().enumerate() { @if n > 0 { ", " } a href={ "/?host=" (escaped(host)) } { (host) } }
            @if run.hosts.len() > LINKED { " and " (run.hosts.len() - LINKED) " more" }
        }
    }
}

/// Names of the points of the newest run: of the others they are not known without reading them.
fn points(store: &mut Store, newest: Option<&Summary>) -> Vec<String> {
    let loaded = newest.and_then(|run| store.load(&run.id).ok());
    let points = loaded.into_iter().flat_map(|(run, _)| run.points);
    points.map(|p| p.label).collect()
}

/// Offers the layers of runs, and points.
fn trend_form<'a>(
    (point, layer): (&str, &str),
    runs: impl Iterator<Item = &'a Summary>,
    points: &[String],
) -> Markup {
    let layers: BTreeSet<&str> = runs.flat_map(|r| &r.layers).map(String::as_str).collect();
    html! {
        form.ask action="/trend" {
            label { "Point" input name="point" value=(point) placeholder="small read, warm" list="points" required; }
            datalist id="points" { @for point in points { option value=(point) {} } }
            label { "Layer" input name="layer" value=(layer) placeholder="fuse" list="layers" required; }
            datalist id="layers" { @for layer in layers { option value=(layer) {} } }
            button { "Show how it changed" }
        }
    }
}

/// The report as `-o x.html` writes it, with a way back to the runs.
fn page(report: &Report) -> Result<Vec<u8>, Failure> {
    const BRAND: &str = "<p class=\"brand\">layermark</p>";
    const BACK: &str = "<p class=\"brand\"><a href=\"/\">layermark: all runs</a></p>";
    let mut page = Vec::new();
    render::for_path("report.html".as_ref())
        .and_then(|html| html.write(report, &mut page))
        .map_err(Failure::failed)?;
    let page = String::from_utf8(page).map_err(Failure::failed)?;
    Ok(page.replacen(BRAND, BACK, 1).into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(name: &str, layers: &[&str]) -> (Summary, Option<Tally>) {
        let run = Summary {
            id: name.into(),
            number: 1,
            name: name.into(),
            label: None,
            hosts: Vec::new(),
            started_ms: 0,
            ended_ms: None,
            status: RunStatus::Done,
            layers: layers.iter().map(|l| (*l).to_owned()).collect(),
            points: 1,
            trials: 1,
        };
        (run, None)
    }

    /// The two newest were chosen, whatever they were.
    #[test]
    fn only_runs_of_one_plan_and_layers_are_chosen_to_be_compared() {
        let card = || run("card", &["native", "fuse"]);
        let unlike = [run("file", &["native", "fuse"]), run("card", &["native"])];
        let [file, fewer] = unlike;
        assert_eq!(like_newest(&[card(), file, fewer, card()]), Some(3));
        assert_eq!(like_newest(&[card(), run("card", &["native"])]), None);
        assert_eq!(like_newest(&[card()]), None);
        assert_eq!(like_newest(&[]), None);
        let shown = table(&[card(), run("file", &["native"])]).into_string();
        assert!(!shown.contains(" checked"), "{shown}");
        let shown = table(&[card(), card()]).into_string();
        assert_eq!(shown.matches(" checked").count(), 2, "{shown}");
    }

    #[test]
    fn a_run_is_listed_with_the_label_of_its_machine() {
        let (mut named, tally) = run("card", &["native"]);
        named.label = Some("build <7>".into());
        let shown = table(&[(named, tally), run("file", &["native"])]).into_string();
        assert_eq!(shown.matches("<small>").count(), 1, "{shown}");
        let link = r#"<small><a href="/?host=build+%3C7%3E">build &lt;7&gt;</a></small>"#;
        assert!(shown.contains(link), "{shown}");
    }

    #[test]
    fn hosts_of_a_fleet_lead_to_their_runs() {
        let (mut fleet, _) = run("share-storm", &["native"]);
        fleet.label = Some("n1, n2, n3, n4 and 2 more".into());
        fleet.hosts = (1..=6).map(|n| format!("n{n}")).collect();
        let shown = machine(&fleet).into_string();
        assert_eq!(shown.matches("href=\"/?host=n").count(), 4, "{shown}");
        assert!(shown.ends_with("n4</a> and 2 more</small>"), "{shown}");
        let query = Query::of(Some("plan=card&host=a%26b"));
        assert_eq!(older(&query, 200), "/?limit=200&plan=card&host=a%26b");
    }
}
