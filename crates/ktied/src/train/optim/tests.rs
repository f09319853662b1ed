//! The update works in the memory that is there.

use burn::backend::Flex;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Tensor};

use super::*;

/// Where a tensor's elements are.
fn address<const D: usize>(tensor: Tensor<D>) -> usize {
    let tensor = tensor.try_into_primitive::<Flex>().expect("a Flex tensor");
    tensor.as_slice::<f32>().expect("contiguous").as_ptr() as usize
}

fn addresses(model: &Linear, adam: &Adam) -> Vec<usize> {
    let moments = adam.moments(model.weight.id).map(|moments| moments.flat.clone());
    let moments = moments.into_iter().flatten().map(address);
    [address(model.weight.val().inner())].into_iter().chain(moments).collect()
}

fn step(adam: &mut Adam, model: Linear) -> Linear {
    let x = Tensor::<2>::ones([4, 20], &Device::flex().autodiff());
    let grads = GradientsParams::from_grads(model.forward(x).square().mean().backward(), &model);
    adam.step(1e-2, model, grads)
}

#[test]
fn parameter_and_moments_stay_where_they_are() {
    let mut adam = AdamConfig::new().with_clip(Some(1e-3)).init();
    let model = step(&mut adam, LinearConfig::new(20, 30).init(&Device::flex().autodiff()));
    let before = addresses(&model, &adam);
    let model = step(&mut adam, model);
    assert_eq!(before.len(), 3);
    assert_eq!(addresses(&model, &adam), before);
    // Only a clone makes copies necessary.
    let kept = (model.clone(), adam.clone());
    let model = step(&mut adam, model);
    assert!(addresses(&model, &adam).iter().zip(&before).all(|(now, before)| now != before));
    assert_eq!(addresses(&kept.0, &kept.1), before);
}

#[test]
fn a_parameter_of_another_shape_begins_anew() {
    let mut adam = AdamConfig::new().init();
    let id = ParamId::new();
    let ones = |shape: [usize; 2]| Tensor::<2>::ones(shape, &Device::flex());
    adam.update(id, 0.1, ones([2, 3]), ones([2, 3]));
    adam.update(id, 0.1, ones([2, 3]), ones([2, 3]));
    assert_eq!(adam.moments(id).map(|moments| moments.time), Some(2));
    let after = adam.update(id, 0.1, ones([3, 2]), ones([3, 2]));
    assert_eq!(adam.moments(id).map(|moments| (moments.time, moments.shape.clone())), Some((1, vec![3, 2])));
    let after: Vec<f32> = after.into_data().try_to_vec().unwrap();
    assert!(after.iter().all(|x| (x - 0.9).abs() < 1e-6), "{after:?}");
}
