//! Two models on the same examples: how far they are apart, and whether that is more than chance.

use serde::{Deserialize, Serialize};

use super::ensemble::{Ensemble, Progress, windows};
use super::evaluator::{Protocol, plan, read, scores};
use super::groups::groups;
use super::moments::Moments;
use super::normal;
use super::tally::Scores;
use crate::error::{Error, Result};
use crate::models::Network;
use crate::objective::{Elbo, Observed};

/// A metric of the first model less that of the second, per example.
///
/// Both see the same examples, so what makes an example hard for both drops out, and the error is often far smaller than
/// that of either metric. It is that over examples; to see that draws do not matter, look at
/// [`sem_draws`](super::Estimate::sem_draws) of either.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// The mean over examples.
    pub mean: f64,
    /// Its standard error over examples; absent for a single one.
    pub sem: Option<f64>,
    /// mean/sem; absent where all differences are the same.
    pub z: Option<f64>,
    /// The chance of a |z| as large as this if the models did not differ: 2(1 − Φ(|z|)).
    pub p_value: Option<f64>,
}

impl Difference {
    fn new(differences: &Moments, shift: f64) -> Option<Self> {
        let (mean, sem) = (differences.mean()? + shift, differences.standard_error());
        let z = sem.filter(|sem| *sem > 0.0).map(|sem| mean / sem);
        Some(Self { mean, sem, z, p_value: z.map(normal::two_sided) })
    }
}

/// How two models differ on the same examples; negative means that the first is better, except for accuracy.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Of −ELBO, the divergences included.
    pub neg_elbo: Difference,
    /// Of the NLL.
    pub nll: Difference,
    /// Classes: of the accuracy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<Difference>,
    /// Classes: of the Brier score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brier: Option<Difference>,
    /// Numbers: of the squared error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub squared_error: Option<Difference>,
    /// Examples compared on.
    pub examples: u64,
}

/// Compares two models, each a network or an ensemble, on the same batches; each is judged as it would be alone.
///
/// `on_progress` gets the number of predictions made so far, by both.
///
/// # Errors
/// What a batch or a network says, as [`Evaluator`](super::Evaluator), or if there is no example.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use ktied::evaluate::{Ensemble, Protocol, compare};
/// use ktied::models::{MlpSpec, NetworkConfig, PosteriorSpec};
/// use ktied::objective::{Likelihood, LikelihoodKind, Observed};
///
/// let device = Device::flex();
/// let likelihood = Likelihood::new(LikelihoodKind::Softmax, 3, 1.0, &device)?;
/// let mlp = |kind: &str| {
///     MlpSpec::new([8, 3]).init(&NetworkConfig::new(PosteriorSpec::new(kind.parse()?)), &device)
/// };
/// let [first, second] = [mlp("k-tied:2")?, mlp("mean-field")?];
/// let [first, second] = [Ensemble::new([(&first, &likelihood)])?, Ensemble::new([(&second, &likelihood)])?];
/// let batch = (Tensor::<2>::ones([5, 8], &device), Observed::Classes(vec![0, 1, 2, 1, 1]));
/// let protocol = Protocol { samples: 10, ..Protocol::new(1000) };
/// let found = compare(&first, &second, [Ok(batch)], &protocol, |_| ())?;
/// assert!(found.nll.p_value.is_some_and(|p| p > 0.0 && p <= 1.0));
/// # Ok::<(), ktied::Error>(())
/// ```
pub fn compare<A: Network, B: Network<Input = A::Input>>(
    first: &Ensemble<A>,
    second: &Ensemble<B>,
    batches: impl IntoIterator<Item = Result<(A::Input, Observed)>>,
    protocol: &Protocol,
    on_progress: impl FnMut(u64),
) -> Result<Comparison>
where
    A::Input: Clone,
{
    let elbo = Elbo::new(protocol.num_train)?;
    let (mut differences, mut progress) = (Differences::default(), Progress::new(on_progress));
    for window in windows(batches) {
        let (inputs, observed): (Vec<_>, Vec<_>) = window?.into_iter().unzip();
        let before = differences.examples;
        let of_first = first.scores(inputs.clone(), &observed, before, protocol, &mut progress)?;
        let of_second = second.scores(inputs, &observed, before, protocol, &mut progress)?;
        of_first.iter().zip(&of_second).for_each(|(first, second)| differences.add(first, second));
    }
    let kl = Error::finite("KL(q‖p)", first.kl()? - second.kl()?)?;
    differences.finish(elbo.terms(0.0, kl).kl_per_example)
}

impl<N: Network> Ensemble<N> {
    /// How the mixture does on each example of some batches, whose first has the number `first`.
    fn scores(
        &self,
        inputs: Vec<N::Input>,
        observed: &[Observed],
        first: u64,
        protocol: &Protocol,
        progress: &mut Progress<impl FnMut(u64)>,
    ) -> Result<Vec<Scores>> {
        let (members, mut output) = (self.predictives(), self.outputs(inputs, protocol.seed));
        let (plan, truths) = (plan(members, self.samples(protocol.samples))?, read(members, observed, first)?);
        let sums = groups(members, &truths, &plan, |wanted| progress.note(output(wanted)?))?;
        Ok(sums.iter().zip(&truths).flat_map(|(groups, truth)| scores(groups, truth, 0)).collect())
    }
}

/// Sums of differences over examples.
#[derive(Default)]
struct Differences {
    examples: u64,
    nll_of_draws: Moments,
    nll: Moments,
    correct: Moments,
    brier: Moments,
    squared_error: Moments,
}

impl Differences {
    fn add(&mut self, first: &Scores, second: &Scores) {
        self.examples += 1;
        self.nll_of_draws.add(first.nll_of_draws - second.nll_of_draws);
        self.nll.add(first.nll - second.nll);
        if let Some((first, second)) = first.class.zip(second.class) {
            self.correct.add(first.correct - second.correct);
            self.brier.add(first.brier - second.brier);
        }
        if let Some((first, second)) = first.values.zip(second.values) {
            self.squared_error.add(first.squared_error - second.squared_error);
        }
    }

    /// `kl_per_example` is what the divergences add to the difference of −ELBO.
    fn finish(&self, kl_per_example: f64) -> Result<Comparison> {
        let of = |differences| Difference::new(differences, 0.0);
        Ok(Comparison {
            neg_elbo: Difference::new(&self.nll_of_draws, kl_per_example).ok_or(Error::NoExamples)?,
            nll: of(&self.nll).ok_or(Error::NoExamples)?,
            accuracy: of(&self.correct),
            brier: of(&self.brier),
            squared_error: of(&self.squared_error),
            examples: self.examples,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paired_difference_by_hand() {
        let mut differences = Moments::default();
        [0.1, 0.3, 0.2, 0.6].into_iter().for_each(|x| differences.add(x));
        // Mean 0.3, squares 0.04 + 0 + 0.01 + 0.09: standard error √(0.14/3/4).
        let found = Difference::new(&differences, 0.0).unwrap();
        let sem = (0.14f64 / 12.0).sqrt();
        assert!((found.mean - 0.3).abs() < 1e-15 && (found.sem.unwrap() - sem).abs() < 1e-15);
        let z = 0.3 / sem;
        assert!((found.z.unwrap() - z).abs() < 1e-12);
        assert!((found.p_value.unwrap() - libm::erfc(z / 2f64.sqrt())).abs() < 1e-15);
    }

    #[test]
    fn what_does_not_vary_has_no_z() {
        let mut differences = Moments::default();
        assert_eq!(Difference::new(&differences, 0.0), None);
        [0.0; 3].into_iter().for_each(|x| differences.add(x));
        let found = Difference::new(&differences, 0.25).unwrap();
        assert_eq!((found.mean, found.sem, found.z, found.p_value), (0.25, Some(0.0), None, None));
    }
}
