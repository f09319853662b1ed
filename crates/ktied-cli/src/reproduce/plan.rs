//! Which runs a target needs, and what is to be done with each.

use ktied::compress::Method;

use super::beyond::{SHIFTED, all_ranks};
use super::recipe::{MARKS, Model, RANKS, Recipe, SEEDS, TRAINED};
use super::{Scale, Target};

/// Draws behind a point of a curve.
const CURVE_DRAWS: u64 = 20;

/// A run, and what is done with it when it is trained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) recipe: Recipe,
    pub(crate) stages: Vec<Stage>,
}

/// Something that is done with a trained run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Judge it on the test examples.
    Judge { draws: u64 },
    /// Cut its standard deviations to a rank, and judge that.
    Cut { method: Method, rank: usize, draws: u64 },
    /// Look inside it.
    Look,
    /// Judge every checkpoint on the validation examples.
    Curve { draws: u64 },
    /// Judge it on turned images, and on those of another set.
    Shift { draws: u64 },
}

/// The runs behind some targets, each once.
pub(crate) fn jobs(targets: &[Target], scale: Scale, models: &[Model]) -> Vec<Job> {
    let mut all: Vec<Job> = Vec::new();
    let wanted = |(model, _): &(Model, Job)| models.contains(model);
    for (_, job) in targets.iter().flat_map(|&target| of(target, scale)).filter(wanted) {
        match all.iter_mut().find(|known| known.recipe.name == job.recipe.name) {
            Some(known) => {
                let new = job.stages.into_iter().filter(|stage| !known.stages.contains(stage));
                known.stages.extend(new.collect::<Vec<_>>());
            }
            None => all.push(job),
        }
    }
    all
}

fn of(target: Target, scale: Scale) -> Vec<(Model, Job)> {
    let job = |model: Model, recipe: Recipe, stages: Vec<Stage>| (model, Job { recipe, stages });
    let cuts = |model: Model| {
        let draws = model.draws(scale);
        let cuts = RANKS.map(|rank| Stage::Cut { method: Method::Svd, rank, draws });
        [vec![Stage::Judge { draws }, Stage::Look], cuts.into()].concat()
    };
    let judged = |model: Model| vec![Stage::Judge { draws: model.draws(scale) }];
    match target {
        Target::Parameters | Target::StepTime | Target::BeyondEstimators => vec![],
        Target::LowRank => {
            Model::TIED.map(|model| job(model, Recipe::converged(model, "mean-field", scale), cuts(model))).into()
        }
        Target::Resnet => Model::RESIDUAL.map(|model| job(model, Recipe::resnet(model, scale), cuts(model))).into(),
        Target::KTied => {
            let of_model =
                |model| TRAINED.map(|method| job(model, Recipe::annealed(model, method, scale), judged(model)));
            Model::TIED.into_iter().flat_map(of_model).collect()
        }
        Target::Snr => watched(scale, &[]),
        Target::Convergence => {
            let others = [Model::LeNet, Model::Lstm].into_iter();
            let pair = |model| {
                ["mean-field", "k-tied:2"].map(|method| job(model, Recipe::converged(model, method, scale), vec![]))
            };
            watched(scale, &[Stage::Curve { draws: CURVE_DRAWS }]).into_iter().chain(others.flat_map(pair)).collect()
        }
        Target::BeyondConv => {
            let lenet = |method| job(Model::LeNet, Recipe::annealed(Model::LeNet, method, scale), judged(Model::LeNet));
            let resnet = job(Model::ResNet18, Recipe::resnet(Model::ResNet18, scale), judged(Model::ResNet18));
            let tied =
                [Model::LeNet, Model::ResNet18].map(|model| job(model, Recipe::all_tied(model, scale), judged(model)));
            ["mean-field", "k-tied:2"].map(lenet).into_iter().chain([resnet]).chain(tied).collect()
        }
        Target::BeyondCompress => {
            let cuts = |model: Model| {
                let methods = [Method::Svd, Method::Positive].into_iter();
                let of = |method| RANKS.map(|rank| Stage::Cut { method, rank, draws: model.draws(scale) });
                [judged(model), methods.flat_map(of).collect()].concat()
            };
            Model::TIED.map(|model| job(model, Recipe::converged(model, "mean-field", scale), cuts(model))).into()
        }
        Target::BeyondRank => {
            let of = |method: String| job(Model::Mlp, Recipe::annealed(Model::Mlp, &method, scale), judged(Model::Mlp));
            all_ranks().map(of).collect()
        }
        Target::BeyondShift => {
            let stages = vec![Stage::Shift { draws: Model::Mlp.draws(scale) }];
            SHIFTED.map(|method| job(Model::Mlp, Recipe::converged(Model::Mlp, method, scale), stages.clone())).into()
        }
        Target::Annealing => {
            let tied = Model::TIED.map(|model| job(model, Recipe::annealed(model, "mean-field", scale), vec![]));
            let residual = Model::RESIDUAL.map(|model| job(model, Recipe::resnet(model, scale), vec![]));
            tied.into_iter().chain(residual).collect()
        }
    }
}

/// The MLPs of the SNR and convergence tables.
fn watched(scale: Scale, stages: &[Stage]) -> Vec<(Model, Job)> {
    let job = |method, seed| Job { recipe: Recipe::watched(method, seed, scale), stages: stages.into() };
    let of_method = |method| SEEDS.map(|seed| (Model::Mlp, job(method, seed)));
    TRAINED.into_iter().flat_map(of_method).collect()
}

/// The step of ours that stands for one that the paper looks at.
pub(super) fn step_for(mark: u64, scale: Scale) -> u64 {
    debug_assert!(MARKS.contains(&mark));
    match scale {
        Scale::Full | Scale::Reduced => mark,
        Scale::Quick => mark / 5,
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn a_run_that_two_targets_need_is_one_job_with_the_stages_of_both() {
        let all = Model::value_variants();
        let snr = jobs(&[Target::Snr], Scale::Full, all);
        assert!(snr.len() == 12 && snr.iter().all(|job| job.stages.is_empty()));
        let both = jobs(&[Target::Snr, Target::Convergence], Scale::Full, all);
        assert_eq!(both.len(), 12 + 4);
        assert!(both[..12].iter().all(|job| job.stages == [Stage::Curve { draws: CURVE_DRAWS }]));
        let low_rank = jobs(&[Target::LowRank, Target::Convergence], Scale::Full, all);
        assert_eq!(low_rank.iter().filter(|job| job.recipe.name == "lstm-converged-mean-field").count(), 1);
        assert_eq!(jobs(&[Target::LowRank], Scale::Full, &[Model::Lstm]).len(), 1);
    }
}
