//! Training and judging with dropout: the same bits as ever, several draws for a point, and configurations of old.

use ktied::Error;
use ktied::config::{Config, Preset, Tree};
use ktied::data::{Batches, DataSet};
use ktied::train::Trainer;

use crate::support::{problems, unbroken};

fn with(config: &Config, settings: &[(&str, &str)]) -> Config {
    let mut tree = Tree::of(config);
    settings.iter().for_each(|(key, value)| tree.set(key, value).unwrap());
    tree.config().unwrap()
}

/// The problems of every kind as points with dropout; a point has no prior to learn.
fn dropped() -> Vec<(Config, DataSet)> {
    let settings = [("posterior.kind", "point"), ("prior.kind", "normal"), ("model.dropout", "0.3")];
    let point = |(mut config, data): (Config, DataSet)| {
        config.posterior.conv = None;
        (with(&config, &settings), data)
    };
    problems().into_iter().map(point).collect()
}

#[test]
fn a_run_with_dropout_resumed_at_any_step_equals_an_unbroken_one() {
    for (config, data) in dropped() {
        let whole = unbroken(&config, &data);
        assert_ne!(
            whole.digest(),
            unbroken(&with(&config, &[("model.dropout", "0")]), &data).digest(),
            "{}",
            data.name
        );
        for stop in [1, 4, 8] {
            let mut trainer = Trainer::new(config.clone(), &data).unwrap();
            let batches = Batches::new(&data.train, config.train.batch, config.train.seed);
            for batch in batches.from(0).take(stop) {
                (trainer, _) = trainer.step(batch.unwrap()).unwrap();
            }
            let mut trainer = Trainer::resume(config.clone(), &data, &trainer.checkpoint().unwrap()).unwrap();
            for batch in batches.from(stop as u64).take(9 - stop) {
                (trainer, _) = trainer.step(batch.unwrap()).unwrap();
            }
            assert_eq!(trainer.checkpoint().unwrap().digest(), whole.digest(), "{} stopped after {stop}", data.name);
        }
    }
}

#[test]
fn dropout_trains_and_judges_with_the_same_bits_on_any_number_of_threads() {
    for (config, data) in dropped() {
        let outcomes = [1, 2, 4].map(|threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let checkpoint = unbroken(&config, &data);
                let trainer = Trainer::resume(config.clone(), &data, &checkpoint).unwrap();
                (checkpoint.digest(), trainer.evaluate(&data.test, 4, |_| {}).unwrap())
            })
        });
        assert!(outcomes.iter().all(|outcome| *outcome == outcomes[0]), "{}", data.name);
    }
}

#[test]
fn a_point_with_dropout_is_judged_by_as_many_draws_as_asked() {
    for (config, data) in dropped() {
        let judge = |config: Config| Trainer::new(config, &data).unwrap().evaluate(&data.test, 7, |_| {}).unwrap();
        let metrics = judge(config.clone());
        assert_eq!(metrics.samples, 7, "{}", data.name);
        assert!(metrics.nll.sem_draws.is_some_and(|error| error > 0.0), "{}: draws differ", data.name);
        assert_eq!(metrics.kl, 0.0);
        assert_eq!(judge(with(&config, &[("model.dropout", "0")])).samples, 1, "{}", data.name);
    }
    // A point whose convolutions have scales is not deterministic either.
    let (config, data) = problems().remove(2);
    let config = with(&config, &[("posterior.kind", "point"), ("posterior.conv", "mean-field")]);
    assert_eq!(Trainer::new(config, &data).unwrap().evaluate(&data.test, 7, |_| {}).unwrap().samples, 7);
}

#[test]
fn a_dropout_of_zero_is_what_configurations_without_one_mean() {
    for (config, data) in problems() {
        let text = config.to_toml();
        let old: String =
            text.lines().filter(|line| !line.starts_with("dropout")).map(|line| format!("{line}\n")).collect();
        assert_ne!(old, text, "the key is written");
        assert_eq!(Config::from_toml(&old).as_ref(), Ok(&config));
        assert_eq!(unbroken(&Config::from_toml(&old).unwrap(), &data).digest(), unbroken(&config, &data).digest());
    }
}

#[test]
fn a_dropout_that_cannot_be_is_refused_before_anything_begins() {
    let (_, data) = problems().remove(0);
    for (text, sentence) in [
        ("1", "a dropout (model.dropout) must be at least 0 and below 1, got 1"),
        ("-0.1", "a dropout (model.dropout) must be at least 0 and below 1, got -0.1"),
    ] {
        for preset in Preset::ALL {
            let config = with(&preset.config(), &[("model.dropout", text)]);
            assert_eq!(config.check().unwrap_err().to_string(), sentence, "{preset}");
        }
    }
    let written = problems().remove(0).0.to_toml().replace("dropout = 0.0", "dropout = nan");
    let config = Config::from_toml(&written).unwrap();
    assert!(matches!(Trainer::new(config, &data), Err(Error::NotADropout { found }) if found.is_nan()));
    let mut tree = Tree::of(&Preset::MlpMnist.config());
    let sentence = tree.set("model.dropout", "NaN").unwrap_err().to_string();
    assert!(sentence.starts_with("model.dropout: invalid type: string \"NaN\", expected f64"), "{sentence}");
}
