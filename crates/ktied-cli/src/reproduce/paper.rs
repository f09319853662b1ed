//! The figures that the paper prints (Swiatkowski et al., ICML 2020), accuracies as fractions.

use super::Target;

/// One printed figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Claim {
    pub(crate) model: &'static str,
    pub(crate) method: &'static str,
    pub(crate) metric: &'static str,
    pub(crate) value: f64,
    pub(crate) sem: Option<f64>,
}

/// A line of a table: model, method, and figures with their standard errors.
type Line<const N: usize> = (&'static str, &'static str, [(f64, f64); N]);

/// Names of the figures in a line.
const SCORES: [&str; 3] = ["neg_elbo", "nll", "accuracy"];

/// Table 2.
const LOW_RANK: [Line<3>; 12] = [
    ("mlp", "mean-field", [(0.431, 0.0057), (0.100, 0.0034), (0.976, 0.0015)]),
    ("mlp", "rank-1", [(3.41, 0.019), (0.677, 0.0040), (0.936, 0.0025)]),
    ("mlp", "rank-2", [(0.456, 0.0059), (0.107, 0.0033), (0.976, 0.0015)]),
    ("mlp", "rank-3", [(0.450, 0.0059), (0.106, 0.0033), (0.976, 0.0015)]),
    ("lenet", "mean-field", [(3.83, 0.020), (2.23, 0.017), (0.421, 0.0049)]),
    ("lenet", "rank-1", [(4.33, 0.021), (2.30, 0.016), (0.417, 0.0049)]),
    ("lenet", "rank-2", [(3.88, 0.020), (2.24, 0.017), (0.422, 0.0049)]),
    ("lenet", "rank-3", [(3.86, 0.020), (2.24, 0.017), (0.421, 0.0049)]),
    ("lstm", "mean-field", [(0.536, 0.0058), (0.493, 0.0057), (0.801, 0.0025)]),
    ("lstm", "rank-1", [(0.687, 0.0058), (0.491, 0.0056), (0.800, 0.0025)]),
    ("lstm", "rank-2", [(0.621, 0.0058), (0.494, 0.0057), (0.801, 0.0025)]),
    ("lstm", "rank-3", [(0.595, 0.0058), (0.493, 0.0056), (0.801, 0.0025)]),
];

/// Figure 5 and, with the He-scaled prior, figure 8.
const RESNET: [Line<3>; 8] = [
    ("resnet18", "mean-field", [(122.61, 0.012), (0.495, 0.0080), (0.835, 0.0037)]),
    ("resnet18", "rank-1", [(122.57, 0.012), (0.658, 0.0069), (0.817, 0.0039)]),
    ("resnet18", "rank-2", [(122.77, 0.012), (0.503, 0.0080), (0.832, 0.0037)]),
    ("resnet18", "rank-3", [(122.67, 0.012), (0.501, 0.0079), (0.832, 0.0037)]),
    ("resnet18-he", "mean-field", [(1.379, 0.0096), (0.6384, 0.0096), (0.790, 0.0041)]),
    ("resnet18-he", "rank-1", [(5.428, 0.018), (1.485, 0.0056), (0.570, 0.0050)]),
    ("resnet18-he", "rank-2", [(1.448, 0.0097), (0.648, 0.0079), (0.788, 0.0041)]),
    ("resnet18-he", "rank-3", [(1.411, 0.0097), (0.646, 0.0079), (0.789, 0.0041)]),
];

/// Table 3: Brier score less one, with its error, and ECE, without.
const CALIBRATION: [(&str, (f64, f64), f64); 4] = [
    ("mean-field", (-0.761, 0.0039), 0.0477),
    ("rank-1", (-0.695, 0.0034), 0.1642),
    ("rank-2", (-0.758, 0.0038), 0.0540),
    ("rank-3", (-0.758, 0.0038), 0.0541),
];

/// The left table of figure 6.
const TRAINED: [Line<3>; 12] = [
    ("mlp", "mean-field", [(0.501, 0.0061), (0.133, 0.0040), (0.968, 0.0018)]),
    ("mlp", "k-tied:1", [(0.539, 0.0063), (0.155, 0.0043), (0.961, 0.0019)]),
    ("mlp", "k-tied:2", [(0.520, 0.0063), (0.129, 0.0039), (0.968, 0.0018)]),
    ("mlp", "k-tied:3", [(0.497, 0.0060), (0.120, 0.0038), (0.969, 0.0018)]),
    ("lenet", "mean-field", [(3.72, 0.018), (2.16, 0.016), (0.439, 0.0050)]),
    ("lenet", "k-tied:1", [(3.65, 0.017), (2.12, 0.015), (0.455, 0.0050)]),
    ("lenet", "k-tied:2", [(3.76, 0.019), (2.15, 0.016), (0.443, 0.0050)]),
    ("lenet", "k-tied:3", [(3.73, 0.018), (2.13, 0.016), (0.443, 0.0050)]),
    ("lstm", "mean-field", [(0.538, 0.0054), (0.478, 0.0052), (0.795, 0.0026)]),
    ("lstm", "k-tied:1", [(0.592, 0.0041), (0.512, 0.0040), (0.776, 0.0026)]),
    ("lstm", "k-tied:2", [(0.560, 0.0042), (0.484, 0.0041), (0.782, 0.0026)]),
    ("lstm", "k-tied:3", [(0.550, 0.0051), (0.491, 0.0050), (0.788, 0.0026)]),
];

/// The tables to the right of figure 6, at steps 1000, 5000 and 9000.
const SNR: [Line<3>; 4] = [
    ("mlp", "mean-field", [(4.13, 0.027), (4.45, 0.091), (3.21, 0.035)]),
    ("mlp", "k-tied:1", [(5840.0, 190.0), (158.0, 3.8), (5.3, 0.20)]),
    ("mlp", "k-tied:2", [(7500.0, 240.0), (140.0, 11.0), (4.3, 0.26)]),
    ("mlp", "k-tied:3", [(7000.0, 270.0), (117.0, 1.7), (4.1, 0.20)]),
];
const CONVERGENCE: [Line<3>; 4] = [
    ("mlp", "mean-field", [(42.16, 0.070), (26.52, 0.016), (15.39, 0.016)]),
    ("mlp", "k-tied:1", [(43.11, 0.039), (14.85, 0.017), (2.06, 0.027)]),
    ("mlp", "k-tied:2", [(42.74, 0.090), (13.97, 0.023), (1.82, 0.017)]),
    ("mlp", "k-tied:3", [(42.63, 0.068), (13.61, 0.020), (1.80, 0.031)]),
];

/// Table 4, in milliseconds on another machine.
const STEP_TIME: [Line<1>; 3] =
    [("mlp", "point", [(2.00, 0.0064)]), ("mlp", "mean-field", [(7.17, 0.014)]), ("mlp", "k-tied:2", [(6.14, 0.018)])];

/// Totals of parameters: those of ResNet-18 as printed, the others to the digit where the paper prints thousands (the sums of
/// its formulas, which round to what it prints).
const PARAMETERS: [(&str, &str, u32); 16] = [
    ("mlp", "mean-field", 956_820),
    ("mlp", "k-tied:1", 481_614),
    ("mlp", "k-tied:2", 484_008),
    ("mlp", "k-tied:3", 486_402),
    ("lenet", "mean-field", 4_405_320),
    ("lenet", "k-tied:1", 2_262_188),
    ("lenet", "k-tied:2", 2_267_408),
    ("lenet", "k-tied:3", 2_272_628),
    ("lstm", "mean-field", 2_822_656),
    ("lstm", "k-tied:1", 2_692_864),
    ("lstm", "k-tied:2", 2_694_144),
    ("lstm", "k-tied:3", 2_695_424),
    ("resnet18", "mean-field", 9_814_026),
    ("resnet18", "k-tied:1", 4_929_711),
    ("resnet18", "k-tied:2", 4_946_964),
    ("resnet18", "k-tied:3", 4_964_217),
];

/// LeNet with the 3×3 kernels of the paper's text, whose table fits 5×5: the sums of its formulas.
const PARAMETERS_3X3: [(&str, u32); 4] =
    [("mean-field", 4_336_712), ("k-tied:1", 2_193_580), ("k-tied:2", 2_198_800), ("k-tied:3", 2_204_020)];

/// Every printed figure of a target.
pub(crate) fn claims(target: Target) -> Vec<Claim> {
    match target {
        Target::Parameters => {
            let small = PARAMETERS_3X3.iter().map(|&(method, count)| (("lenet-3x3", method), count));
            let all = PARAMETERS.iter().map(|&(model, method, count)| ((model, method), count)).chain(small);
            let claim = |((model, method), count)| Claim {
                model,
                method,
                metric: "parameters",
                value: f64::from(count),
                sem: None,
            };
            all.map(claim).collect()
        }
        Target::LowRank => of_lines(&LOW_RANK, SCORES),
        Target::Resnet => {
            let scores = of_lines(&RESNET, SCORES).into_iter();
            let calibration = CALIBRATION.iter().flat_map(|&(method, (brier, sem), ece)| {
                let claim = |metric, value, sem| Claim { model: "resnet18", method, metric, value, sem };
                [claim("brier", brier, Some(sem)), claim("ece", ece, None)]
            });
            scores.chain(calibration).collect()
        }
        Target::KTied => {
            let scores = of_lines(&TRAINED, SCORES).into_iter();
            let counts = claims(Target::Parameters).into_iter();
            scores.chain(counts.filter(|claim| ["mlp", "lenet", "lstm"].contains(&claim.model))).collect()
        }
        // Means; ours are held against them by their medians too.
        Target::Snr => {
            let medians = of_lines(&SNR, ["snr_median@1000", "snr_median@5000", "snr_median@9000"]);
            [of_lines(&SNR, ["snr@1000", "snr@5000", "snr@9000"]), medians].concat()
        }
        Target::Convergence => of_lines(&CONVERGENCE, ["neg_elbo@1000", "neg_elbo@5000", "neg_elbo@9000"]),
        Target::StepTime => of_lines(&STEP_TIME, ["step_ms"]),
        // No numbers of appendix C are printed, and nothing of what is beyond the paper.
        _ => vec![],
    }
}

fn of_lines<const N: usize>(lines: &[Line<N>], metrics: [&'static str; N]) -> Vec<Claim> {
    let claims = |&(model, method, figures): &Line<N>| {
        let named = metrics.into_iter().zip(figures);
        named.map(move |(metric, (value, sem))| Claim { model, method, metric, value, sem: Some(sem) })
    };
    lines.iter().flat_map(claims).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_has_no_figure_twice() {
        use clap::ValueEnum as _;
        for target in Target::value_variants() {
            let claims = claims(*target);
            for (index, a) in claims.iter().enumerate() {
                let same = |b: &&Claim| (b.model, b.method, b.metric) == (a.model, a.method, a.metric);
                assert_eq!(claims.iter().position(|b| same(&b)), Some(index), "{a:?}");
            }
        }
    }

    #[test]
    fn the_figures_are_those_of_the_tables() {
        let find = |target, model, method, metric| {
            let claims = claims(target);
            let claim =
                claims.iter().find(|claim| (claim.model, claim.method, claim.metric) == (model, method, metric));
            claim.map(|claim| (claim.value, claim.sem))
        };
        assert_eq!(find(Target::LowRank, "lstm", "rank-2", "neg_elbo"), Some((0.621, Some(0.0058))));
        assert_eq!(find(Target::KTied, "lenet", "k-tied:1", "accuracy"), Some((0.455, Some(0.005))));
        assert_eq!(find(Target::KTied, "lstm", "k-tied:2", "parameters"), Some((2_694_144.0, None)));
        assert_eq!(find(Target::Resnet, "resnet18", "rank-1", "ece"), Some((0.1642, None)));
        assert_eq!(find(Target::Snr, "mlp", "k-tied:3", "snr@5000"), Some((117.0, Some(1.7))));
        assert_eq!(find(Target::StepTime, "mlp", "k-tied:2", "step_ms"), Some((6.14, Some(0.018))));
    }
}
