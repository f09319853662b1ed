//! The paper's main claim, on the embedded digits: the standard deviations of a trained mean-field posterior are nearly of
//! rank 2, and not of rank 1.

use ktied::analyze::{Settings, analyze};
use ktied::compress::{Method, Plan, choose_rank, compress, target, with_floor};
use ktied::config::Preset;
use ktied::data::{Batches, DataSet, load};
use ktied::posterior::PosteriorKind;
use ktied::prune::{self, Signals};
use ktied::train::Trainer;

const DRAWS: u64 = 100;

/// The preset at its full length: before the scales have converged nothing shows.
fn trained() -> (Trainer, DataSet) {
    let mut config = Preset::MlpDigits.config();
    config.posterior.kind = PosteriorKind::MeanField;
    let data = load(&config.data).unwrap();
    let (size, seed, mut trainer) = (config.train.batch, config.train.seed, Trainer::new(config, &data).unwrap());
    let steps = trainer.num_steps() as usize;
    for batch in Batches::new(&data.train, size, seed).from(0).take(steps) {
        (trainer, _) = trainer.step(batch.unwrap()).unwrap();
    }
    (trainer, data)
}

#[test]
fn rank_1_loses_a_tenth_of_a_nat_and_rank_2_next_to_nothing() {
    let (trainer, data) = trained();
    let of = |trainer: &Trainer| trainer.evaluate(&data.test, DRAWS, |_| {}).unwrap();
    let before = of(&trainer);
    let mut losses = vec![];
    for method in [Method::Svd, Method::Positive] {
        for rank in [1, 2] {
            let target = target(trainer.config(), method, rank, false).unwrap();
            let (compressed, fits) = compress(&trainer, target, &data, |_| {}).unwrap();
            let after = of(&compressed);
            let loss = after.neg_elbo.value - before.neg_elbo.value;
            let clamped: usize = fits.iter().map(|fit| fit.clamped).sum();
            println!("{method} rank {rank}: −ELBO {:.4} ({loss:+.4}), {clamped} clamped", after.neg_elbo.value);
            losses.push((method, rank, loss));
            if method == Method::Positive {
                assert!(fits.iter().all(|fit| fit.kl <= fit.kl_of_svd * (1.0 + 1e-9)), "{fits:?}");
                continue;
            }
            // A higher floor can only make the clamped weights cheaper.
            let softer = with_floor(compressed.model().network.clone(), 1e-4).unwrap();
            let softer = compressed.evaluate_network(&softer, &data.test, DRAWS, |_| {}).unwrap();
            println!("with a floor of 1e-4: {:.4}", softer.neg_elbo.value);
            assert_eq!(softer.neg_elbo.value < after.neg_elbo.value, clamped > 0);
        }
    }
    for (method, rank, loss) in losses {
        match rank {
            1 => assert!(loss >= 0.1, "{method}: rank 1 loses {loss}"),
            _ => assert!(loss < 0.08, "{method}: rank 2 loses {loss}"),
        }
    }

    // What follows asks the same trained run: the rank is found without being told, and without data it is recommended.
    let plan = Plan { method: Method::Positive, convolutions: false, max_rank: 8, tolerance: 0.08, samples: 20 };
    let choice = choose_rank(&trainer, &data, &data.train, &plan, |_| {}).unwrap();
    assert_eq!(choice.rank, Some(2), "{choice:?}");
    let settings = Settings { num_train: data.train.len(), tolerance: 0.08 / 3.0, cap: None };
    let layers = analyze(&trainer.model().network, &settings, |_, _| {}).unwrap();
    for layer in &layers {
        let (scales, rank) = (layer.scales.as_ref().unwrap(), layer.recommendation.as_ref().unwrap());
        println!("{}: explained {:?}, {}", layer.layer, &scales.explained[..3], rank.why);
        assert!(scales.explained_by(2) > 0.97 && scales.effective_rank < layer.means.effective_rank);
    }
    assert!(layers.iter().any(|layer| layer.recommendation.as_ref().unwrap().rank == Some(2)));

    // Weights by their signal: half of them can go, nearly all cannot.
    let signals = Signals::of(&trainer.model().network).unwrap();
    let accuracy = |keep_frac: f64| {
        let threshold = signals.threshold(keep_frac).unwrap();
        let (pruned, _) = prune::prune(&trainer, &signals, threshold, &data).unwrap();
        of(&pruned).accuracy.unwrap().value
    };
    let (half, hundredth) = (accuracy(0.5), accuracy(0.01));
    let whole = before.accuracy.unwrap().value;
    println!("accuracy {whole:.3}, with half of the weights {half:.3}, with a hundredth {hundredth:.3}");
    assert!(half > whole - 0.01 && hundredth < whole - 0.1);
}
