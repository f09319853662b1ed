//! The operations on burn tensors: fused kernels against the portable path in double precision, that path against
//! central differences, and the same path on a second backend.

mod compare;
mod network;
mod optim;
mod refusals;
mod variational;
