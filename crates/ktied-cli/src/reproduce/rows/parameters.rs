//! Totals of parameters, which need no run.

use ktied::config::{Preset, Tree};
use ktied::models::Totals;

use super::{Origin, Rows};
use crate::commands::train::assign;
use crate::exit::Failure;
use crate::reproduce::recipe::TRAINED;
use crate::reproduce::verdict::Verdict;

/// Totals of the models, and table 1 for one matrix.
pub(super) fn parameters(rows: &mut Rows) -> Result<(), Failure> {
    let models = [
        ("mlp", Preset::MlpMnist, None),
        ("lenet", Preset::LeNetCifar100, None),
        ("lenet-3x3", Preset::LeNetCifar100, Some("model.kernel=3")),
        ("lstm", Preset::LstmImdb, None),
        ("resnet18", Preset::ResNet18Cifar10, None),
    ];
    let count = |preset: Preset, method: &str, setting: Option<&str>| {
        let mut tree = Tree::of(&preset.config());
        assign(&mut tree, &format!("posterior.kind={method}"))?;
        setting.map_or(Ok(()), |setting| assign(&mut tree, setting))?;
        let config = tree.config().map_err(|error| Failure::Usage(error.to_string()))?;
        Ok::<_, Failure>(config.model.layers(&config.posterior)?)
    };
    let command = |preset: Preset, method: &str, setting: Option<&str>| Origin {
        seed: None,
        command: setting
            .iter()
            .fold(format!("ktied params --preset {preset} --posterior {method}"), |line, setting| {
                format!("{line} --set {setting}")
            }),
        wall_s: 0.0,
    };
    for (model, preset, setting) in models {
        for method in TRAINED {
            let total = Totals::of(&count(preset, method, setting)?)?.total;
            rows.add([model, method, "parameters"], (total as f64, None), &command(preset, method, setting));
        }
    }
    let (m, n) = (784.0, 400.0);
    for (method, formula, value) in [
        ("mean-field", "mn + mn", m * n + m * n),
        ("matrix-normal", "mn + m + n, diagonal", m * n + m + n),
        ("k-tied:1", "mn + k(m + n)", m * n + m + n),
        ("k-tied:2", "mn + k(m + n)", m * n + 2.0 * (m + n)),
        ("k-tied:3", "mn + k(m + n)", m * n + 3.0 * (m + n)),
    ] {
        let layers = count(Preset::MlpMnist, method, None)?;
        let of_layer = layers.first().map_or(0, |layer| layer.parameters) as f64;
        rows.add(["mlp", method, "parameters@784x400"], (of_layer, None), &command(Preset::MlpMnist, method, None));
        let verdict = if of_layer == value { Verdict::Agrees } else { Verdict::Differs };
        rows.settle(value, verdict, format!("table 1: {formula}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::reproduce::paper::claims;
    use crate::reproduce::verdict::Verdict;
    use crate::reproduce::{Scale, Shelf, Target, rows};

    #[test]
    fn every_total_of_the_paper_comes_out() {
        let rows = rows(Target::Parameters, Scale::Full, &Shelf::new("nowhere".into()), &[]).expect("needs no run");
        assert_eq!(rows.iter().filter(|row| row.metric == "parameters").count(), claims(Target::Parameters).len());
        for row in &rows {
            assert_eq!(row.verdict, Some(Verdict::Agrees), "{row:?}");
        }
    }
}
