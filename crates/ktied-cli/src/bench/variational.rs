//! Noise, draws, divergences, local noise, signs, Adam: sizes of the MLP's first layer, 784×400 at batch 1024.

use ktied_kernels::activation::Activation;
use ktied_kernels::adam::{self, AdamStep};
use ktied_kernels::kl::{self, FactorGrads, MeanFieldGrads, Prior};
use ktied_kernels::local::{self, KTiedLocalGrads, LocalLayer, MeanFieldLocalGrads, RawScale};
use ktied_kernels::signs::{self, SignShape};
use ktied_kernels::{LogFactors, NoiseKey, ScaleForm, noise, sample};

use super::{Case, Work, floats, random};

const B: usize = 1024;
const M: usize = 784;
const N: usize = 400;
const K: usize = 2;
const R: usize = K * (K + 1) / 2;
const MN: usize = M * N;
const PRIOR: Prior<'static> = Prior { loc: None, scale: 0.2 };

/// Owned factors of a 2-tied scale.
#[derive(Clone)]
struct Tied {
    log_u: Vec<f32>,
    log_v: Vec<f32>,
}

impl Tied {
    fn new() -> Self {
        Self { log_u: log_scales(M * K), log_v: log_scales(N * K) }
    }

    fn view(&self) -> LogFactors<'_> {
        LogFactors { log_u: &self.log_u, log_v: &self.log_v, num_rows: M, num_cols: N, rank: K }
    }
}

fn log_scales(len: usize) -> Vec<f32> {
    random(len, 1).iter().map(|z| -2.5 + 0.1 * z).collect()
}

fn key() -> NoiseKey {
    NoiseKey::new(1)
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = noise_cases();
    cases.extend(draw_cases());
    cases.extend(kl_cases());
    cases.extend(local_k_tied_cases());
    cases.extend(local_mean_field_cases());
    cases
}

fn noise_cases() -> Vec<Case> {
    const LEN: usize = 1 << 20;
    let mut z = vec![0.0; LEN];
    let mut words = vec![0; LEN];
    let (x, mut signed) = (random(B * M, 1), vec![0.0; B * M]);
    let shape = SignShape { batch: B, positions: 1, channels: M };
    let (mut param, mut m, mut v, grad) = (random(LEN, 1), vec![0.0; LEN], vec![0.0; LEN], random(LEN, 2));
    let step = AdamStep { lr: 1e-3, beta_1: 0.9, beta_2: 0.999, epsilon: 1e-8, step: 1 };
    vec![
        Case::new("philox words, one thread 1048576", floats(LEN), move || {
            noise::random_words(key(), 0, &mut words);
            Ok(())
        }),
        Case::new("normals, one thread 1048576", floats(LEN), move || {
            noise::normals(key(), 0, &mut z);
            Ok(())
        }),
        Case::new("signs 1024x784", floats(2 * B * M), move || signs::apply(&mut signed, &x, shape, key())),
        Case::new("adam 1048576", floats(7 * LEN), move || {
            adam::update(&mut param, &mut m, &mut v, &grad, step).map(|_| ())
        }),
    ]
}

fn draw_cases() -> Vec<Case> {
    let (loc, raw, d_out) = (random(MN, 1), log_scales(MN), random(MN, 2));
    let (mut out, mut d_raw) = (vec![0.0; MN], vec![0.0; MN]);
    let (raw_b, d_out_b) = (raw.clone(), d_out.clone());
    let (tied, tied_b, loc_t, mut out_t) = (Tied::new(), Tied::new(), loc.clone(), vec![0.0; MN]);
    let (mut d_u, mut d_v) = (vec![0.0; M * K], vec![0.0; N * K]);
    vec![
        Case::new("draw mean-field 784x400", floats(3 * MN), move || {
            sample::mean_field(&mut out, Some(&loc), &raw, ScaleForm::Log, key())
        }),
        Case::new("draw mean-field backward 784x400", floats(3 * MN), move || {
            sample::mean_field_backward(&mut d_raw, &d_out_b, &raw_b, ScaleForm::Log, key())
        }),
        Case::new("draw 2-tied 784x400", floats(2 * MN), move || {
            sample::k_tied(&mut out_t, Some(&loc_t), tied.view(), key())
        }),
        Case::new("draw 2-tied backward 784x400", floats(MN), move || {
            sample::k_tied_backward(&mut d_u, &mut d_v, &d_out, tied_b.view(), key())
        }),
    ]
}

fn kl_cases() -> Vec<Case> {
    let (loc, raw, tied) = (random(MN, 1), log_scales(MN), Tied::new());
    let loc_t = loc.clone();
    let (mut d_loc, mut d_raw, mut d_loc_t) = (vec![0.0; MN], vec![0.0; MN], vec![0.0; MN]);
    let (mut d_u, mut d_v) = (vec![0.0; M * K], vec![0.0; N * K]);
    vec![
        Case::new("kl mean-field with gradients 784x400", floats(4 * MN), move || {
            let grads = MeanFieldGrads { loc: &mut d_loc, raw_scale: &mut d_raw };
            kl::mean_field(&loc, &raw, ScaleForm::Log, PRIOR)?;
            kl::mean_field_backward(grads, &loc, &raw, ScaleForm::Log, PRIOR, 1.0)
        }),
        Case::new("kl 2-tied with gradients 784x400", floats(2 * MN), move || {
            kl::k_tied(&loc_t, tied.view(), PRIOR, Some(FactorGrads { log_u: &mut d_u, log_v: &mut d_v }))?;
            kl::loc_backward(&mut d_loc_t, &loc_t, PRIOR, 1.0)
        }),
    ]
}

fn layer(x: &[f32]) -> LocalLayer<'_> {
    LocalLayer { x, batch: B, bias: None, key: key(), first: 0, activation: Activation::Identity }
}

fn local_k_tied_cases() -> Vec<Case> {
    let (x, d_y, tied) = (random(B * M, 1), random(B * N, 2), Tied::new());
    let (mut y, mut tape) = (vec![0.0; B * N], vec![0.0; B * (R + N)]);
    let (x_b, tied_b, tape_b) = (x.clone(), tied.clone(), vec![0.1; B * (R + N)]);
    let (mut d_x, mut d_u, mut d_v) = (vec![0.0; B * M], vec![0.0; M * K], vec![0.0; N * K]);
    vec![
        Case::new("local 2-tied 1024x784x400", floats(B * M + 2 * B * N), move || {
            local::k_tied(&mut y, &mut tape, layer(&x), tied.view())
        }),
        Case::new("local 2-tied backward 1024x784x400", floats(2 * B * M + B * N), move || {
            let grads = KTiedLocalGrads { x: Some(&mut d_x), log_u: &mut d_u, log_v: &mut d_v, bias_raw: None };
            local::k_tied_backward(grads, &d_y, &tape_b, layer(&x_b), tied_b.view())
        }),
    ]
}

fn local_mean_field_cases() -> Vec<Case> {
    let (x, d_y, raw) = (random(B * M, 1), random(B * N, 2), log_scales(MN));
    let (mut y, mut tape) = (vec![0.0; B * N], vec![0.0; B * N]);
    let (x_b, raw_b, tape_b) = (x.clone(), raw.clone(), vec![0.1; B * N]);
    let (mut d_x, mut d_raw) = (vec![0.0; B * M], vec![0.0; MN]);
    let flops = 2.0 * (B * M * N) as f64;
    vec![
        Case::new("local mean-field 1024x784x400", Work::Flops(flops), move || {
            local::mean_field(&mut y, &mut tape, layer(&x), RawScale { raw: &raw, form: ScaleForm::Log })
        }),
        Case::new("local mean-field backward 1024x784x400", Work::Flops(2.0 * flops), move || {
            let grads = MeanFieldLocalGrads { x: Some(&mut d_x), raw_scale: &mut d_raw, bias_raw: None };
            let scale = RawScale { raw: &raw_b, form: ScaleForm::Log };
            local::mean_field_backward(grads, &d_y, &tape_b, layer(&x_b), scale)
        }),
    ]
}
