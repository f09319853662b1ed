//! Every kernel against a plain reference in double precision, in one test binary.

mod adam;
mod batch_norm;
mod conv;
mod conv_flipout;
mod conv_pooled;
mod dense;
mod dropout;
mod embedding;
mod gemm;
mod kl;
mod local;
mod lstm;
mod noise;
mod norm;
mod pool;
mod reference;
mod sample;
mod softmax;
mod vmath;
