//! What a training step holds in memory, counted byte by byte: neither σ nor ε of a k-tied layer is ever stored. And what
//! a draw of a prediction takes: nothing that was not there for the draw before.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};
use ktied::evaluate::{Draws, Ensemble};
use ktied::models::{MlpSpec, Network, NetworkConfig, PosteriorSpec, ResNet18Spec};
use ktied::nn::{Estimator, Pass};
use ktied::objective::{Likelihood, LikelihoodKind};
use ktied::train::AdamConfig;

/// Allocations of at least so many bytes.
static THRESHOLD: AtomicUsize = AtomicUsize::new(usize::MAX);
static LARGE: AtomicUsize = AtomicUsize::new(0);
/// Bytes that are held now, and the most so far.
static HELD: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

struct Counting;

fn taken(bytes: usize) {
    if bytes >= THRESHOLD.load(Ordering::Relaxed) {
        LARGE.fetch_add(1, Ordering::Relaxed);
    }
    PEAK.fetch_max(HELD.fetch_add(bytes, Ordering::Relaxed) + bytes, Ordering::Relaxed);
}

// SAFETY: every call goes to the system's allocator as it came; the counters are beside it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        taken(layout.size());
        // SAFETY: the caller's promise is the one that is asked for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        taken(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        taken(size);
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Side of the one square layer; its examples are few, so that weights are what counts.
const SIDE: usize = 1024;
const BATCH: usize = 4;

/// The most that a few steps of training hold, in matrices of the layer's size, and how many large allocations the last
/// of them makes.
fn train(posterior: &str, estimator: Estimator) -> (f64, usize) {
    THRESHOLD.store(SIDE * SIDE * size_of::<f32>() / 2, Ordering::Relaxed);
    let before = HELD.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let device = Device::flex().autodiff();
    let config = NetworkConfig::new(PosteriorSpec::new(posterior.parse().unwrap()));
    let mut network = MlpSpec::new([SIDE, SIDE]).init(&config, &device).unwrap();
    let (mut adam, x) = (AdamConfig::new().init(), Tensor::<2>::ones([BATCH, SIDE], &Device::flex()));
    for step in 0..4 {
        LARGE.store(0, Ordering::Relaxed);
        let output = network.forward(x.clone(), &Pass::sampled(1, step, estimator)).unwrap();
        let mut grads = GradientsParams::from_grads(output.square().mean().backward(), &network);
        network.add_kl_gradients(1e-3, &mut grads).unwrap();
        network = adam.step(1e-3, network, grads);
    }
    let bytes = PEAK.load(Ordering::Relaxed) - before;
    (bytes as f64 / (SIDE * SIDE * size_of::<f32>()) as f64, LARGE.load(Ordering::Relaxed))
}

/// Allocations of a prediction for 2,000 examples that are as large as a number an example.
fn predict(posterior: &str, samples: u64) -> usize {
    let (device, examples) = (Device::flex(), 2000);
    let config = NetworkConfig::new(PosteriorSpec::new(posterior.parse().unwrap()));
    let network = MlpSpec::new([64, 48, 40, 10]).init(&config, &device).unwrap();
    let likelihood = Likelihood::new(LikelihoodKind::Softmax, 10, 1.0, &device).unwrap();
    let ensemble = Ensemble::new([(&network, &likelihood)]).unwrap();
    THRESHOLD.store(examples * size_of::<f32>(), Ordering::Relaxed);
    LARGE.store(0, Ordering::Relaxed);
    let x = Tensor::ones([examples, 64], &device);
    ensemble.predict(x, &Draws { samples, ..Draws::default() }, 0.95).unwrap();
    LARGE.load(Ordering::Relaxed)
}

/// The most that a few steps of a small ResNet-18 hold, in images of its first block, and how many allocations of that size the last of
/// them makes.
fn train_resnet() -> (f64, usize) {
    let (batch, side, width) = (16, 32, 16);
    let image = batch * side * side * width * size_of::<f32>();
    THRESHOLD.store(image, Ordering::Relaxed);
    let before = HELD.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let config = NetworkConfig::new(PosteriorSpec::new("mean-field".parse().unwrap()));
    let spec = ResNet18Spec { widths: [width, 4, 4, 4], ..ResNet18Spec::default() };
    let network = spec.init(&config, &Device::flex().autodiff()).unwrap();
    let x = Tensor::<4>::ones([batch, side, side, 3], &Device::flex());
    for step in 0..4 {
        LARGE.store(0, Ordering::Relaxed);
        let output = network.forward(x.clone(), &Pass::sampled(1, step, Estimator::Reparam)).unwrap();
        GradientsParams::from_grads(output.square().mean().backward(), &network);
    }
    let bytes = PEAK.load(Ordering::Relaxed) - before;
    (bytes as f64 / image as f64, LARGE.load(Ordering::Relaxed))
}

// One test, so that nothing else allocates beside it.
#[test]
fn neither_standard_deviations_nor_noise_are_in_memory_and_draws_take_none() {
    a_k_tied_layer_is_trained_without_its_standard_deviations_or_noise_in_memory();
    let (images, made_anew) = train_resnet();
    println!("ResNet-18: {images:.2} images of the first block");
    // What its shortcuts add up, forward and back, is added in memory that is there.
    assert_eq!(made_anew, 0);
    // Two more if the normalised inputs of its convolutions were kept.
    assert!(images < 8.5, "{images}");
    for posterior in ["k-tied:2", "point"] {
        predict(posterior, 20);
        assert_eq!(predict(posterior, 60), predict(posterior, 20), "{posterior}");
    }
}

fn a_k_tied_layer_is_trained_without_its_standard_deviations_or_noise_in_memory() {
    train("k-tied:2", Estimator::Local); // threads, and whatever else is made once
    let [(point, of_point), (local, of_local), (reparam, _), (mean_field, _)] = [
        ("point", Estimator::Reparam),
        ("k-tied:2", Estimator::Local),
        ("k-tied:2", Estimator::Reparam),
        ("mean-field", Estimator::Reparam),
    ]
    .map(|(posterior, estimator)| train(posterior, estimator));
    println!(
        "matrices: point {point:.2}, 2-tied local {local:.2} and reparam {reparam:.2}, mean-field {mean_field:.2}"
    );
    // μ, its two moments and its gradient; σ, ε or W would each be one more.
    assert!(point < 4.5 && local < 4.5, "point {point}, 2-tied {local}");
    // And W.
    assert!(reparam < 5.5, "{reparam}");
    assert!(local / mean_field <= 0.6, "{local} {mean_field}");
    // Buffers of one step are those of the next.
    assert_eq!((of_point, of_local), (0, 0));
}
