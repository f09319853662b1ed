//! What is done with a trained run.

use std::path::Path;

use ktied::cluster::Alone;
use ktied::compress::{Method, compress, target, with_floor};
use ktied::models::Network;
use ktied::train::{Run, Trainer, Writer};
use serde_json::json;

use super::view::View;
use crate::args::{Analyze, Args, Evaluate, Place, SplitName};
use crate::commands::analyze::look;
use crate::commands::compress::SOFT_FLOOR;
use crate::commands::evaluate::{judge, trained};
use crate::exit::Failure;
use crate::reproduce::{ANGLES, Recipe, Shelf, Stage};
use crate::table::json as text_of;

/// Does one stage, unless what it leaves is there.
pub(super) fn carry_out(
    stage: Stage,
    recipe: &Recipe,
    shelf: &Shelf,
    data: Option<&Path>,
    args: &Args,
    view: &View,
) -> Result<(), Failure> {
    let (name, best) = (&recipe.name, recipe.ends_early());
    match stage {
        Stage::Judge { draws } => test_scores((name, best), draws, shelf, data, args, view),
        Stage::Cut { method, rank, draws } => {
            let cut = Shelf::cut(name, method, rank);
            if shelf.document(&cut, "compression.json")?.is_none() {
                view.say(&format!("{name}: rank {rank} by {method}"));
                cut_to(method, rank, (name, best), shelf, data, args)?;
            }
            // It has one checkpoint, made of the one that is meant.
            test_scores((&cut, false), draws, shelf, data, args, view)?;
            add_soft_floor(&cut, shelf)
        }
        Stage::Look => {
            if shelf.document(name, "analysis/analysis.json")?.is_some() {
                return Ok(());
            }
            view.say(&format!("{name}: a look inside"));
            let place = Place { best, data: data.map(Path::to_owned) };
            let run = shelf.run(name);
            look(&Analyze { run, out: None, tolerance: 0.05, no_pictures: false, place }, args).map(drop)
        }
        Stage::Curve { draws } => curve(name, draws, shelf, data, args, view),
        Stage::Shift { draws } => shift(name, draws, shelf, data, args, view),
    }
}

/// Scores of a run's newest or best checkpoint.
fn test_scores(
    (name, best): (&str, bool),
    samples: u64,
    shelf: &Shelf,
    data: Option<&Path>,
    args: &Args,
    view: &View,
) -> Result<(), Failure> {
    let known = shelf.document(name, "evaluation/test.json")?;
    if known.is_some_and(|known| known.get("samples").and_then(serde_json::Value::as_u64) == Some(samples)) {
        return Ok(());
    }
    view.say(&format!("{name}: {samples} draws on the test examples"));
    judge(&on_test((name, best), samples, shelf, data), args, &Alone).map(drop)
}

/// The run with the standard deviations of tied layers cut to a rank, as a run of its own.
fn cut_to(
    method: Method,
    rank: usize,
    (name, best): (&str, bool),
    shelf: &Shelf,
    data: Option<&Path>,
    args: &Args,
) -> Result<(), Failure> {
    let (trainer, data) = trained(&Run::open(shelf.run(name))?, data, best, args)?;
    let config = target(trainer.config(), method, rank, false)?;
    let (compressed, layers) = compress(&trainer, config, &data, |_| {})?;
    let folder = shelf.run(&Shelf::cut(name, method, rank));
    // One that was interrupted before it was told what it cost is made again.
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(|error| ktied::Error::io("remove", &folder, &error))?;
    }
    let writer = Writer::create(&folder, compressed.config())?;
    writer.save(&compressed.checkpoint()?, None, compressed.config().train.keep)?;
    let softer = with_floor(compressed.model().network.clone(), SOFT_FLOOR)?;
    let per_example = |kl: f64| kl / data.train.len() as f64;
    let document = json!({
        "rank": rank,
        "kl_between": layers.iter().map(|fit| fit.kl).sum::<f64>(),
        "clamped": layers.iter().map(|fit| fit.clamped).sum::<usize>(),
        "kl_per_example": per_example(divergence(&compressed.model().network)?),
        "kl_per_example_at_soft_floor": per_example(divergence(&softer)?),
        "layers": layers,
    });
    writer.run().write("compression.json", text_of(&document)?.as_bytes())?;
    Ok(())
}

/// KL(q‖p), in nats.
fn divergence(network: &impl Network) -> Result<f64, Failure> {
    Ok(network.kl()?.into_data().iter::<f64>().next().unwrap_or(f64::NAN))
}

/// −ELBO with the higher floor: the draws hardly change, the divergence does, and is known.
fn add_soft_floor(cut: &str, shelf: &Shelf) -> Result<(), Failure> {
    let mut document = shelf.required(cut, "compression.json")?;
    if document.get("neg_elbo_at_soft_floor").is_some() {
        return Ok(());
    }
    let evaluation = shelf.required(cut, "evaluation/test.json")?;
    let of = |value: &serde_json::Value, pointer: &str| value.pointer(pointer).and_then(serde_json::Value::as_f64);
    let parts = [
        of(&evaluation, "/neg_elbo/value"),
        of(&document, "/kl_per_example_at_soft_floor"),
        of(&document, "/kl_per_example"),
    ];
    let [Some(neg_elbo), Some(soft), Some(hard)] = parts else { return Ok(()) };
    if let Some(fields) = document.as_object_mut() {
        fields.insert("neg_elbo_at_soft_floor".into(), json!(neg_elbo + soft - hard));
    }
    Run::open(shelf.run(cut))?.write("compression.json", text_of(&document)?.as_bytes())?;
    Ok(())
}

/// −ELBO of every kept checkpoint on the validation examples.
fn curve(name: &str, draws: u64, shelf: &Shelf, data: Option<&Path>, args: &Args, view: &View) -> Result<(), Failure> {
    if shelf.document(name, "curve.json")?.is_some() {
        return Ok(());
    }
    view.say(&format!("{name}: every checkpoint on the validation examples"));
    let run = Run::open(shelf.run(name))?;
    let (newest, data) = trained(&run, data, false, args)?;
    let store = run.store()?;
    let mut points: Vec<(u64, f64)> = vec![];
    for step in store.steps()? {
        let checkpoint = store.load(step).map_err(ktied::Error::from)?;
        let trainer = Trainer::resume(newest.config().clone(), &data, &checkpoint)?;
        points.push((step, trainer.evaluate(&data.validation, draws, |_| {})?.neg_elbo.value));
    }
    points.sort_by_key(|(step, _)| *step);
    run.write("curve.json", text_of(&points)?.as_bytes())?;
    Ok(())
}

/// The run on turned images, and among those of another set.
fn shift(name: &str, draws: u64, shelf: &Shelf, data: Option<&Path>, args: &Args, view: &View) -> Result<(), Failure> {
    for degrees in ANGLES {
        if shelf.document(name, &format!("evaluation/test-rotated-{degrees}.json"))?.is_none() {
            view.say(&format!("{name}: turned by {degrees}°"));
            // Where nothing is turned there is time for the clothes.
            let ood = (degrees == 0.0).then(|| "fashion-mnist".to_owned());
            let plain = on_test((name, false), draws, shelf, data);
            judge(&Evaluate { rotate: Some(degrees), ood, ..plain }, args, &Alone)?;
        }
    }
    Ok(())
}

/// The run on its test examples, as the program's own command takes it.
fn on_test((name, best): (&str, bool), samples: u64, shelf: &Shelf, data: Option<&Path>) -> Evaluate {
    Evaluate {
        runs: vec![shelf.run(name)],
        samples,
        split: SplitName::Test,
        ood: None,
        rotate: None,
        compare: None,
        tolerance: 0.001,
        out: None,
        force: false,
        place: Place { best, data: data.map(Path::to_owned) },
    }
}
