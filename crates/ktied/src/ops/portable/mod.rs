//! The same operations made of burn's own: the path for double precision and every device without kernels, and the
//! oracle that tests hold the kernels against. Shapes are the caller's to check.

mod network;
mod variational;

pub(crate) use network::activate;
pub use network::{
    avg_pool2d, batch_norm, conv2d, dense, embedding, frozen_norm, lstm, max_pool2d, sigmoid_cross_entropy,
    softmax_cross_entropy,
};
pub use variational::{
    adam_update, add_noise, draw_k_tied, draw_mean_field, dropout_mask, k_tied_scale, k_tied_variance, kl_k_tied,
    kl_mean_field, local_dense, normals, scale, signs, sum_sd,
};
